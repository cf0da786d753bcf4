"""Observe many recipes: import torch once, then fork a process for each, within limits.

The process that forks never imports a recipe's code. A child gets the repository's root as its
working folder and first on `sys.path`; what it prints goes into a pipe of which the end is kept.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_TAIL = 64 * 2**10
_PERIOD = 0.02
_LOOK_AT_MEMORY_EVERY = 0.2
_STACK_PATIENCE = 1.0
_REAL_AT_MOST = 200_000_000
"""Parameters above which values are not made real without a tiny config."""


def main(arguments: Sequence[str]) -> None:
    """Carry out the jobs of a file; each job's answer goes into the file that it names."""
    order = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    import torch  # noqa: F401  once, for all that are forked from here

    for name in order.get("preload", ()):
        # What stops it here would stop the recipe, too, and is reported there.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    Server(order).run()


@dataclass
class Running:
    """A job that a child is working on."""

    job: dict[str, Any]
    pid: int
    pipe: int
    begun: float
    tail: bytearray = field(default_factory=bytearray)
    looked: float = 0.0
    peak: int = 0
    why_killed: str | None = None


class Server:
    """Runs the jobs of an order, `parallel` at a time."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self._waiting: list[dict[str, Any]] = list(order["jobs"])
        self._parallel = int(order["parallel"])
        self._seconds = float(order["seconds"])
        self._memory = int(order["memory"])
        self._running: dict[int, Running] = {}
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Work until every job has an answer."""
        while self._waiting or self._running:
            while self._waiting and len(self._running) < self._parallel:
                self._start(self._waiting.pop(0))
            self._read(_PERIOD)
            for running in list(self._running.values()):
                self._look_after(running)

    def _start(self, job: dict[str, Any]) -> None:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _work(job, writing)
        os.close(writing)
        os.set_blocking(reading, False)
        running = Running(job, pid, reading, time.monotonic())
        self._running[pid] = running
        self._selector.register(reading, selectors.EVENT_READ, running)

    def _read(self, patience: float) -> None:
        if not self._selector.get_map():
            time.sleep(patience)
            return
        for key, _ in self._selector.select(patience):
            self._take(key.data)

    def _take(self, running: Running) -> bool:
        try:
            read = os.read(running.pipe, 2**16)
        except (BlockingIOError, OSError):
            return False
        if not read:
            with contextlib.suppress(KeyError):
                self._selector.unregister(running.pipe)
            return False
        running.tail += read
        del running.tail[:-_TAIL]
        return True

    def _look_after(self, running: Running) -> None:
        pid, status = os.waitpid(running.pid, os.WNOHANG)
        if pid == 0:
            now = time.monotonic()
            if now - running.begun > self._seconds:
                self._end(running, "timed out")
            elif now - running.looked > _LOOK_AT_MEMORY_EVERY:
                running.looked = now
                used = _resident(running.pid)
                running.peak = max(running.peak, used)
                if used > self._memory:
                    self._end(running, "out of memory")
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(running.pid, signal.SIGKILL)
        while self._take(running):
            pass
        with contextlib.suppress(KeyError):
            self._selector.unregister(running.pipe)
        os.close(running.pipe)
        del self._running[running.pid]
        self._conclude(running, status)

    def _end(self, running: Running, why: str) -> None:
        if running.why_killed is not None:
            return
        running.why_killed = why
        if why == "timed out":
            # Its stacks first: they tell where the loop is.
            with contextlib.suppress(ProcessLookupError):
                os.kill(running.pid, signal.SIGUSR1)
            give_up = time.monotonic() + _STACK_PATIENCE
            while time.monotonic() < give_up:
                if not self._take(running):
                    time.sleep(_PERIOD)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(running.pid, signal.SIGKILL)

    def _conclude(self, running: Running, status: int) -> None:
        job = running.job
        answer = _answer(job)
        if running.why_killed is not None or answer is None:
            answer = _ended(running, status, self._seconds, self._memory)
        answer["output"] = running.tail.decode("utf-8", errors="replace")
        answer["seconds"] = time.monotonic() - running.begun
        retry = _with_real_values(job, answer)
        if retry is not None:
            self._waiting.insert(0, retry)
            return
        before = job.get("fake_answer")
        if before is not None:
            answer = _better(before, answer)
        _write(Path(job["result"]), answer)


def _answer(job: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        answer = json.loads(Path(job["result"]).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return answer if isinstance(answer, dict) else None


def _ended(running: Running, status: int, seconds: float, memory: int) -> dict[str, Any]:
    doing = _doing(running.job)
    if running.why_killed == "timed out":
        return {"outcome": "timed out", "sentence": f"stopped after {seconds:g} s while {doing}"}
    if running.why_killed == "out of memory":
        return {
            "outcome": "out of memory",
            "sentence": f"stopped at {memory / 2**30:.3g} GiB of memory while {doing}",
        }
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return {"outcome": "crashed", "sentence": f"killed by {name} while {doing}"}
    code = os.WEXITSTATUS(status)
    return {"outcome": "crashed", "sentence": f"the process exited with {code} while {doing}"}


def _doing(job: Mapping[str, Any]) -> str:
    try:
        return Path(job["result"] + ".at").read_text(encoding="utf-8")
    except OSError:
        return "starting"


def _with_real_values(job: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the job that tries what fake tensors could not do, None where there is none."""
    if job["mode"] != "fake" or job.get("only_fake"):
        return None
    stop = _fake_stop(answer)
    if stop is None:
        return None
    known = sum(unit.get("parameters", 0) for unit in answer.get("units", ()))
    if known > _REAL_AT_MOST and not answer.get("has_tiny"):
        return None
    return {**job, "mode": "real", "fake_answer": dict(answer), "fake_stop": stop}


def _fake_stop(answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what kept fake tensors from going on; None where nothing did."""
    if answer.get("outcome") in ("cannot build", "needs real"):
        return {
            "message": answer["sentence"],
            "operator": answer.get("operator"),
            "place": answer.get("place"),
        }
    for path in answer.get("paths", ()):
        for one in path["passes"]:
            error = one["error"]
            if error is not None and not error["ours"] and one["edges"] == "none":
                if one["kind"] == "eval":
                    continue
                return {key: error[key] for key in ("message", "operator", "place")}
    return None


def _better(fake: dict[str, Any], real: dict[str, Any]) -> dict[str, Any]:
    """Return the answer that saw more; with real values it says what stopped the fake ones."""
    stop = _fake_stop(fake)
    if real.get("outcome") == "observed" and _fake_stop(real) is None:
        return {**real, "fake_stop": stop}
    if fake.get("outcome") == "observed":
        return {**fake, "fake_stop": stop, "real_failed": real.get("sentence") or _said(real)}
    if real.get("outcome") == "observed" or stop is None or fake.get("outcome") == "needs real":
        return {**real, "fake_stop": stop}
    return {**fake, "fake_stop": stop, "real_failed": real.get("sentence")}


def _said(answer: Mapping[str, Any]) -> str | None:
    stop = _fake_stop(answer)
    return None if stop is None else stop["message"]


def _resident(leader: int) -> int:
    """Return the resident bytes of a child and of whatever it started in its session."""
    total = 0
    page = os.sysconf("SC_PAGE_SIZE")
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            if int(fields[3]) == leader:
                total += int((entry / "statm").read_bytes().split()[1]) * page
    return total


def _write(path: Path, answer: Mapping[str, Any]) -> None:
    whole = path.with_name(path.name + ".part")
    whole.write_text(json.dumps(answer), encoding="utf-8")
    whole.replace(path)


def _work(job: dict[str, Any], output: int) -> None:
    """Be the child of one job; never returns."""
    code = 1
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        faulthandler.register(signal.SIGUSR1, all_threads=True)
        Path(job["result"]).unlink(missing_ok=True)
        os.chdir(job["root"])
        sys.path.insert(0, job["root"])
        sys.argv = [job["probe"]]
        answer = _observed(job)
        _write(Path(job["result"]), answer)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _observed(job: Mapping[str, Any]) -> dict[str, Any]:
    from .observe import observe
    from .target import StopError, place, tail_of

    at_file = Path(job["result"] + ".at")
    try:
        return {"outcome": "observed", **observe(job, at_file.write_text)}  # type: ignore[arg-type]
    except StopError as stop:
        answer: dict[str, Any] = {"outcome": stop.outcome, "sentence": str(stop)}
        if stop.trouble is not None:
            from .adapter import stopping_operator

            answer["place"] = place(stop.trouble, Path(job["root"]))
            answer["tail"] = tail_of(stop.trouble)
            answer["operator"] = stopping_operator(stop.trouble)
        return answer
