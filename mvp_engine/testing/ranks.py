"""Runs a function in spawned ranks, and never leaves one behind."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib.util
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")

_GRACE_S = 5.0
"""How long the other ranks may run on after one has failed: they often fail for the same reason,
and their own tracebacks say more than "stopped"."""


class RankError(Exception):
    """A rank failed or the time was up; the message has every rank's traceback or stack."""


def run_ranks(
    function: Callable[..., Result], world_size: int, *args: Any, timeout_s: float
) -> list[Result]:
    """`function(*args)` on each of `world_size` spawned ranks; their results in rank order.

    Each rank has torchrun's environment and the default process group: NCCL with a GPU each where
    there are enough, else gloo on the CPU. `function` must be defined at the top level of a module
    (its file need not be importable by name); arguments and results must pickle.

    Raises RankError when a rank raises or dies, and after `timeout_s` seconds, then with the
    Python stack of each rank that still ran. On return no rank is alive.
    """
    import torch.distributed as dist

    if "<" in function.__qualname__:
        raise ValueError(f"{function.__qualname__} is not at the top level of its module")
    # The store that ranks meet at lives here, as torchrun's does, so that no port is guessed.
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        ranks = []
        try:
            for rank in range(world_size):
                environment = {
                    "RANK": str(rank),
                    "LOCAL_RANK": str(rank),
                    "WORLD_SIZE": str(world_size),
                    "LOCAL_WORLD_SIZE": str(world_size),
                    "MASTER_ADDR": "localhost",
                    "MASTER_PORT": str(store.port),
                    "TORCHELASTIC_USE_AGENT_STORE": "True",
                }
                process = context.Process(
                    target=_rank_main,
                    args=(_reference(function), args, environment, folder, os.getpid()),
                    name=f"rank {rank}",
                    daemon=False,  # a rank may have DataLoader workers of its own
                )
                process.start()
                ranks.append(process)
            timed_out = _wait(ranks, timeout_s)
            stacks = _stop(ranks, Path(folder))
        finally:
            for process in ranks:
                if process.is_alive():
                    process.kill()
                process.join()
        outcomes = [_outcome(process, rank, Path(folder)) for rank, process in enumerate(ranks)]
        if not timed_out and all(kind == "result" for kind, _ in outcomes):
            return [value for _, value in outcomes]
        what = f"no result after {timeout_s:g} s" if timed_out else "a rank failed"
        message = [f"{function.__name__} on {world_size} ranks: {what}"]
        for rank, (kind, value) in enumerate(outcomes):
            if kind == "result":
                value = "finished"
            elif rank in stacks:
                value = f"still running, stopped at:\n{stacks[rank]}"
            message.append(f"--- rank {rank}: {value}")
        raise RankError("\n".join(message))


def _wait(ranks: Sequence[BaseProcess], timeout_s: float) -> bool:
    """Waits until all ranks ended, or one failed and the grace is over; True when time was up."""
    deadline = time.monotonic() + timeout_s
    failing_until: float | None = None
    while alive := [process for process in ranks if process.is_alive()]:
        until = deadline if failing_until is None else min(deadline, failing_until)
        left = until - time.monotonic()
        if left <= 0:
            return failing_until is None
        wait([process.sentinel for process in alive], timeout=left)
        if failing_until is None and any(process.exitcode for process in ranks):
            failing_until = time.monotonic() + _GRACE_S
    return False


def _stop(ranks: Sequence[BaseProcess], folder: Path) -> dict[int, str]:
    """Kills the ranks that still run; returns the Python stack of each."""
    running = [(rank, process) for rank, process in enumerate(ranks) if process.is_alive()]
    for rank, process in running:
        # Before it registered its handler the signal would only end it.
        if _stack_file(folder, rank).exists() and process.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGUSR1)
    if running:
        time.sleep(0.5)  # for the handlers to write
    stacks = {}
    for rank, process in running:
        process.kill()
        process.join()
        file = _stack_file(folder, rank)
        text = file.read_text(encoding="utf-8", errors="replace").strip() if file.exists() else ""
        stacks[rank] = text or "(no stack: it was still starting)"
    return stacks


def _outcome(process: BaseProcess, rank: int, folder: Path) -> tuple[str, Any]:
    file = folder / f"{rank}.outcome"
    if file.exists():
        return pickle.loads(file.read_bytes())  # type: ignore[no-any-return]
    code = process.exitcode
    if code is not None and code < 0:
        return "died", f"killed by {signal.Signals(-code).name}"
    return "died", f"ended with exit code {code} and no result"


def _stack_file(folder: Path, rank: int) -> Path:
    return folder / f"{rank}.stack"


def _reference(function: Callable[..., Any]) -> tuple[str, str, str]:
    """Module name, file and name: the file stands in where the name cannot be imported."""
    file = function.__code__.co_filename
    return function.__module__, file, function.__qualname__


def _resolve(reference: tuple[str, str, str]) -> Callable[..., Any]:
    name, file, attribute = reference
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin and Path(spec.origin).samefile(file):
            function: Callable[..., Any] = getattr(importlib.import_module(name), attribute)
            return function
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None, file
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # so that its own classes pickle
    spec.loader.exec_module(module)
    return getattr(module, attribute)  # type: ignore[no-any-return]


def _rank_main(
    reference: tuple[str, str, str],
    args: tuple[Any, ...],
    environment: dict[str, str],
    folder: str,
    parent: int,
) -> None:
    rank = int(environment["RANK"])
    _die_with(parent)
    with _stack_file(Path(folder), rank).open("w", encoding="utf-8") as stack:
        faulthandler.register(signal.SIGUSR1, file=stack, all_threads=False)
        os.environ.update(environment)
        file = Path(folder) / f"{rank}.outcome"
        try:
            file.write_bytes(pickle.dumps(("result", _run(reference, args))))
        except BaseException:
            file.write_bytes(pickle.dumps(("failed", traceback.format_exc())))
            # Not a clean exit: tearing down a group that others wait in may hang.
            sys.stderr.flush()
            os._exit(1)


def _run(reference: tuple[str, str, str], args: tuple[Any, ...]) -> Any:
    import torch

    from mvp_engine.distributed.process_group import process_group

    threads = (os.cpu_count() or 1) // int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(max(1, threads))
    function = _resolve(reference)
    with process_group():
        return function(*args)


def _die_with(parent: int) -> None:
    """Asks Linux to kill this rank when the test process dies, however it dies."""
    if not sys.platform.startswith("linux"):
        return
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
