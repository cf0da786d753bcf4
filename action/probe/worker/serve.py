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

from .answers import (
    ForgedError,
    better,
    explained,
    fake_stop,
    not_tried,
    parameters,
    read_answer,
    read_small,
    real_job,
    write_answer,
)

_PRELOADED = (
    f"{__package__}.observe",
    "torch._dynamo",
    "torch.distributed.tensor.parallel",
    "torch.distributed.checkpoint",
)
"""Slow imports that nearly every recipe needs, and what the first forward pulls in."""
_TAIL = 64 * 2**10
_PERIOD = 0.02
_LOOK_AT_MEMORY_EVERY = 0.2
_STACK_PATIENCE = 1.0
_LONGEST_STEP = 2_000
_MOST_READ_AT_END = 256
_FORGED = "the process ended with an answer that is not the worker's: something in it wrote there"


def main(arguments: Sequence[str]) -> None:
    """Carry out the jobs of a file; each job's answer goes into the file that it names."""
    order = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    try:
        import torch  # noqa: F401  once, for all that are forked from here
    except Exception as trouble:
        _without_torch(order["jobs"], trouble)
        return
    for name in (*_PRELOADED, *order.get("preload", ())):
        # What stops it here would stop the recipe, too, and is reported there.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    Server(order).run()


def _without_torch(jobs: Sequence[Mapping[str, Any]], trouble: Exception) -> None:
    if isinstance(trouble, ModuleNotFoundError) and trouble.name == "torch":
        sentence = f"`{sys.executable}` has no torch"
    else:
        said = f"{type(trouble).__name__}: {trouble}"
        sentence = f"`{sys.executable}` cannot import torch: {said}"
    for job in jobs:
        write_answer(Path(job["result"]), {"outcome": "no torch", "sentence": sentence})


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
        # A process that left the session may hold the pipe, and write for ever.
        for _ in range(_MOST_READ_AT_END):
            if not self._take(running):
                break
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
        """Write a job's answer, or put it back in line; no forged file may stop the others."""
        try:
            answer = self._answer(running, status)
        except Exception as trouble:
            answer = {"outcome": "crashed", "sentence": f"{_FORGED} ({type(trouble).__name__})"}
        if answer is not None:
            write_answer(Path(running.job["result"]), answer)

    def _answer(self, running: Running, status: int) -> dict[str, Any] | None:
        """Return a job's answer, None where it is to be tried once more with real values."""
        job = running.job
        output = running.tail.decode("utf-8", errors="replace")
        answer: dict[str, Any] | None = None
        if running.why_killed is None and status == 0:
            try:
                answer = read_answer(Path(job["result"]))
            except ForgedError:
                answer = {"outcome": "crashed", "sentence": _FORGED}
        if answer is None:
            answer = self._ended(running, status, output)
        answer["output"] = output
        answer["seconds"] = time.monotonic() - running.begun + job.get("seconds_before", 0.0)
        retry = real_job(job, answer)
        if retry is not None:
            self._waiting.insert(0, {**retry, "seconds_before": answer["seconds"]})
            return None
        if "fake_answer" in job:
            kept = better(job["fake_answer"], answer)
            return {**kept, "seconds": answer["seconds"]}
        if job["mode"] == "fake" and fake_stop(answer) is not None:
            return explained(answer, not_tried(parameters(answer)))
        return answer

    def _ended(self, running: Running, status: int, output: str) -> dict[str, Any]:
        doing = _doing(running.job)
        if running.why_killed == "timed out":
            ended = {"outcome": "timed out", "sentence": f"stopped after {self._seconds:g} s"}
        elif running.why_killed == "out of memory":
            limit = f"{self._memory / 2**30:.3g} GiB"
            ended = {
                "outcome": "out of memory",
                "sentence": f"stopped when it used more than {limit} of memory",
            }
        elif os.WIFSIGNALED(status):
            name = _signal_name(os.WTERMSIG(status))
            ended = {"outcome": "crashed", "sentence": f"the process was killed by {name}"}
        else:
            code = os.WEXITSTATUS(status)
            ended = {"outcome": "crashed", "sentence": f"the process exited with code {code}"}
        ended["sentence"] += f" while {doing}"
        from .stacks import last_stack

        found = last_stack(output, Path(running.job["root"]))
        return ended if found is None else {**ended, "tail": found[0], "place": found[1]}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _doing(job: Mapping[str, Any]) -> str:
    try:
        return read_small(Path(job["result"] + ".at"), _LONGEST_STEP).decode("utf-8", "replace")
    except OSError:
        return "starting"


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


def _work(job: dict[str, Any], output: int) -> None:
    """Be the child of one job; never returns."""
    code, leader = 1, os.getpid()
    try:
        try:
            _set_up(job, output)
            answer = _observed_together(job) if job["mode"] == "ranks" else _observed(job)
            # What the recipe forked may come back here, too.
            if os.getpid() == leader:
                write_answer(Path(job["result"]), answer)
            code = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        # Whatever was raised meanwhile: this process must not go on as a second server.
        os._exit(code)


def _set_up(job: Mapping[str, Any], output: int) -> None:
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    faulthandler.enable(all_threads=True)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    Path(job["result"]).unlink(missing_ok=True)
    os.chdir(job["root"])
    sys.path.insert(0, job["root"])
    sys.argv = [job["probe"]]


def _observed_together(job: Mapping[str, Any]) -> dict[str, Any]:
    from .ranks import run_together

    return run_together(job, _observed)


def _observed(job: Mapping[str, Any]) -> dict[str, Any]:
    try:
        from .observe import observe
        from .target import StopError, has_tiny, place, tail_of
    except ImportError as trouble:
        import torch

        known = f"torch {torch.__version__} has no FSDP2 as the probe knows it: {trouble}"
        return {"outcome": "unknown torch", "sentence": known}
    at_file = Path(job.get("at") or job["result"] + ".at")
    try:
        seen = observe(job, at_file.write_text)  # type: ignore[arg-type]
        return {"outcome": "observed", "has_tiny": has_tiny(job), **seen}
    except StopError as stop:
        answer: dict[str, Any] = {
            "outcome": stop.outcome,
            "sentence": str(stop),
            "has_tiny": has_tiny(job),
        }
        if stop.trouble is not None:
            from .adapter import stopping_operator

            answer["place"] = place(stop.trouble, Path(job["root"]))
            answer["tail"] = tail_of(stop.trouble)
            answer["operator"] = stopping_operator(stop.trouble)
        return answer
