"""One command in a session of its own, and the end of everything that it started.

Killing the process group reaches what the command started in the ordinary way. What left the group
(`setsid`, a daemon, a rank whose parent died) is found in /proc: by its descent, since orphans are
handed to this process for the while, and by a marker in its environment. Elsewhere than on Linux
only the process group is ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_LINUX = sys.platform == "linux"
_MARKER = "FSDP2_PREFETCH_STAGE"
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
_PERIOD = 0.02
_KILLING_LIMIT = 3.0


class StartError(Exception):
    """The system could not start a command; the message is the system's reason."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: one of exit code, signal and time-out; `duration` is in seconds.

    `exit_code` and `signal` are None after a time-out: they would tell how we ended it.
    """

    exit_code: int | None
    signal: str | None
    timed_out: bool
    duration: float


def run_to_end(
    command: Sequence[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    output: int,
    limit: float,
    clock: Callable[[], float],
    watch: Callable[[], None] = lambda: None,
    grace: float = 3.0,
) -> Ended:
    """Run `command` for at most `limit` seconds and leave no process of it behind.

    Standard output and error go to the descriptor `output`, standard input is empty. `watch` is
    called every 20 ms. At the limit the command is asked for its stacks (SIGUSR1), told to stop
    (SIGTERM) and killed `grace` seconds later. When this function is left early, by a
    KeyboardInterrupt for instance, everything is killed at once. Only one command may run in
    this process at a time.

    Raises:
        StartError: the command cannot be started.
        OSError: `watch` raised it.
    """
    mark = secrets.token_hex(16)
    with _orphans_adopted():
        older = _children(_processes(), os.getpid())
        process: subprocess.Popen[bytes] | None = None
        begin = clock()
        timed_out = False
        try:
            process = _start(command, cwd, {**environ, _MARKER: mark}, output)
            while process.poll() is None:
                watch()
                if clock() - begin >= limit:
                    timed_out = True
                    _stop(process, grace, watch)
                    break
                time.sleep(_PERIOD)
        finally:
            _end_all(process, mark, older)
            watch()
        duration = clock() - begin
    assert process is not None
    code = process.returncode
    if timed_out:
        return Ended(None, None, True, duration)
    if code is not None and code < 0:
        return Ended(None, _signal_name(-code), False, duration)
    return Ended(code, None, False, duration)


def _start(
    command: Sequence[str], cwd: Path, environ: Mapping[str, str], output: int
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    except OSError as trouble:
        raise StartError(trouble.strerror or str(trouble)) from trouble


def _stop(process: subprocess.Popen[bytes], grace: float, watch: Callable[[], None]) -> None:
    for number, patience in ((signal.SIGUSR1, 0.3), (signal.SIGTERM, grace)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if number is signal.SIGUSR1:
                # To the leader alone: it has the handler, in others it would be deadly.
                os.kill(process.pid, number)
            else:
                os.killpg(process.pid, number)
        give_up = time.monotonic() + patience
        while process.poll() is None and time.monotonic() < give_up:
            watch()
            time.sleep(_PERIOD)


def _end_all(process: subprocess.Popen[bytes] | None, mark: str, older: frozenset[int]) -> None:
    """Kill until nothing is found any more; a process may fork while it is being looked for."""
    with _undisturbed():
        give_up = time.monotonic() + _KILLING_LIMIT
        while True:
            if process is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.poll()
            found = _descendants(mark, older)
            for pid in found:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                if process is None or pid != process.pid:
                    with contextlib.suppress(ChildProcessError):
                        os.waitpid(pid, os.WNOHANG)
            ended = process is None or process.poll() is not None
            if (ended and not found) or time.monotonic() > give_up:
                return
            time.sleep(_PERIOD / 4)


def _descendants(mark: str, older: frozenset[int]) -> set[int]:
    """Return the processes of the command: our new children, marked ones, and their descendants."""
    parents = _processes()
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    marked = f"{_MARKER}={mark}".encode()
    own = os.getpid()
    waiting = [pid for pid in children.get(own, ()) if pid not in older]
    waiting += [pid for pid in parents if pid != own and _has(pid, marked)]
    found: set[int] = set()
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, ())
    return found - {own}


def _processes() -> dict[int, int]:
    """Return every process with its parent."""
    parents: dict[int, int] = {}
    if not _LINUX:
        return parents
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                stat = (entry / "stat").read_bytes()
                # The name in parentheses may itself hold blanks and parentheses.
                parents[int(entry.name)] = int(stat.rpartition(b")")[2].split()[1])
    return parents


def _children(parents: Mapping[int, int], own: int) -> frozenset[int]:
    return frozenset(pid for pid, parent in parents.items() if parent == own)


def _has(pid: int, marked: bytes) -> bool:
    try:
        return marked in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


@contextlib.contextmanager
def _orphans_adopted() -> Iterator[None]:
    """Make orphaned descendants children of this process, where the system can."""
    if not _LINUX:
        yield
        return
    prctl = ctypes.CDLL(None).prctl
    before = ctypes.c_int(0)
    prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Put off SIGINT and SIGTERM: a cancelled job sends both, the second while we clean up."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
