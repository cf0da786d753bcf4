"""What the recipe's interpreter and machine have: Python, torch, CUDA devices."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from action.processes.command import StartError, run_to_end
from action.processes.environment import child_environment
from action.processes.interpreter import find_interpreter
from action.processes.output import Log, read_regular, writing
from action.processes.text import first_line, last_lines, quoted
from action.records import Environment
from action.stages.run import INSIDE

LIMIT = 120.0
_SIZE_LIMIT = 2**20
_MOST_DEVICES = 64


def environment(
    python: str,
    checkout: Path,
    environ: Mapping[str, str],
    *,
    pass_env: Sequence[str] = (),
    limit: float = LIMIT,
    clock: Callable[[], float] = time.monotonic,
) -> Environment:
    """Return what the interpreter `python` reports of itself, within `limit` seconds.

    It is asked in a process of its own, in the environment that tests get. `cuda_devices` is
    empty where torch sees none, and None where that could not be found out; `problem` says why.

    Raises:
        StagesError: the system's folder for temporary files cannot be written.
    """
    child, _ = child_environment(environ, pass_env, first_on_path=INSIDE)
    interpreter = find_interpreter(python, child)
    if isinstance(interpreter, str):
        return Environment(problem=interpreter)
    with writing(Path(tempfile.gettempdir())):
        scratch = Path(tempfile.mkdtemp(prefix="fsdp2-prefetch-look-"))
        log = Log(scratch / "log")
    try:
        ended = run_to_end(
            (str(interpreter), str(INSIDE / "report_environment.py"), str(scratch / "found")),
            cwd=checkout,
            environ=child,
            output=log.descriptor,
            limit=limit,
            clock=clock,
            watch=log.trim,
        )
        found = read_regular(scratch / "found", _SIZE_LIMIT)
        last = first_line(last_lines(log.end(), count=1))
    except StartError as trouble:
        return Environment(problem=f"{quoted(python)} cannot be run: {trouble}")
    finally:
        log.close()
        shutil.rmtree(scratch, ignore_errors=True)
    if ended.timed_out:
        why = f"did not say within {limit:g} s what it has"
        return Environment(problem=f"{quoted(python)} {why}")
    if ended.signal is not None:
        why = f"was killed by {ended.signal} while it imported torch or looked for devices"
        return Environment(problem=f"{quoted(python)} {why}")
    if ended.exit_code != 0 or isinstance(found, str):
        why = f"exited with {ended.exit_code} instead of saying what it has"
        return Environment(problem=f"{quoted(python)} {why}: {last or 'it said nothing'}")
    return _read(python, found)


def _read(python: str, found: bytes) -> Environment:
    try:
        seen = json.loads(found)
        version, torch = seen.get("python"), seen.get("torch")
        devices, problem = seen.get("cuda_devices"), None
        if "torch_problem" in seen:
            why = first_line(str(seen["torch_problem"]))
            problem = f"{quoted(python)} cannot import torch: {why}"
        elif "cuda_problem" in seen:
            problem = f"torch cannot use CUDA: {first_line(str(seen['cuda_problem']))}"
        return Environment(
            python=None if version is None else first_line(str(version), length=50),
            torch=None if torch is None else first_line(str(torch), length=50),
            cuda_devices=None
            if devices is None
            else tuple(first_line(str(name), length=100) for name in devices[:_MOST_DEVICES]),
            problem=problem,
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        return Environment(problem=f"{quoted(python)} gave an answer that makes no sense")
