"""One run of the worker over some recipes: the order goes out, answers come back as records.

Whatever the answers say was written by processes that ran the recipes' own code. An answer that
does not have the shape of a recording counts as a crash of that recipe.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from action.contract import HOOK
from action.probe.recording import Answer, Recording
from action.processes.command import Ended, StartError, run_to_end
from action.processes.environment import child_environment, passed_secrets
from action.processes.interpreter import find_interpreter
from action.processes.output import Log, read_regular
from action.processes.text import first_line, last_lines

WORKER = Path(__file__).resolve().parent / "worker" / "start.py"
PROBE = "tests/skills/fsdp2-prefetching/probe.py"
"""Where a recipe keeps its probe file, relative to its folder."""
_ANSWER_LIMIT = 512 * 2**20
_START_LIMIT = 120.0
_STOPS = 2.0
"""A model that fake tensors cannot run is tried a second time, with real values."""


@dataclass(frozen=True)
class Request:
    """What to observe: a `probe.py` in a checkout, and what to build and run.

    `wanted` are class names that are to be units; `config`, `overrides` and `paths` replace what
    the file chooses by itself. `mode` is `fake` (which falls back to `real` where it must), `real`
    or `ranks`; with `mix`, the path of each rank, ranks run one step of these only.
    """

    name: str
    probe: Path
    root: Path
    wanted: tuple[str, ...] = ()
    config: str | None = None
    overrides: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    mode: Literal["fake", "real", "ranks"] = "fake"
    mix: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    mesh: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Limits:
    """What one recipe may use, and how many are observed at a time."""

    seconds: float = 300.0
    memory: int = 8 * 2**30
    parallel: int = 2


@dataclass(frozen=True)
class Surroundings:
    """The interpreter, the environment that it inherits from, and a clock in seconds."""

    python: str
    environ: Mapping[str, str]
    clock: Callable[[], float]
    pass_env: Sequence[str] = field(default=())


def run_worker(requests: Sequence[Request], limits: Limits, around: Surroundings) -> list[Answer]:
    """Return an answer for each request, whatever happens to the worker.

    Raises:
        KeyboardInterrupt: no process of the worker is left.
        OSError: there is no place for temporary files.
    """
    child, _ = child_environment(around.environ, around.pass_env)
    # The probe's word is about the CPU; a model must not land on a GPU by itself.
    child["CUDA_VISIBLE_DEVICES"] = ""
    interpreter = find_interpreter(around.python, child)
    if isinstance(interpreter, str):
        return [Answer(outcome="no torch", sentence=interpreter) for _ in requests]
    secrets = passed_secrets(around.environ, around.pass_env)
    scratch = Path(tempfile.mkdtemp(prefix="fsdp2-prefetch-probe-")).resolve()
    try:
        order = scratch / "order.json"
        order.write_text(json.dumps(_order(requests, limits, scratch)), encoding="utf-8")
        log = Log(scratch / "log")
        rounds = -(-len(requests) // limits.parallel)
        try:
            ended = run_to_end(
                (str(interpreter), str(WORKER), str(order)),
                cwd=scratch,
                environ=child,
                output=log.descriptor,
                limit=_START_LIMIT + rounds * _STOPS * (limits.seconds + 5),
                clock=around.clock,
                watch=log.trim,
            )
            output = log.end()
        except StartError as trouble:
            sentence = f"`{around.python}` cannot be run: {trouble}"
            return [Answer(outcome="no torch", sentence=sentence) for _ in requests]
        finally:
            log.close()
        return [
            _cleaned(_read(_result(scratch, number), ended, output), secrets)
            for number in range(len(requests))
        ]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _result(scratch: Path, number: int) -> Path:
    return scratch / f"{number}.json"


def _order(requests: Sequence[Request], limits: Limits, scratch: Path) -> dict[str, Any]:
    jobs = [
        {
            "probe": str(request.probe),
            "root": str(request.root),
            "result": str(_result(scratch, number)),
            "mode": request.mode,
            "mix": request.mix,
            "hook": HOOK,
            "wanted": request.wanted,
            "config": request.config,
            "overrides": request.overrides,
            "paths": request.paths,
            "mesh": request.mesh,
        }
        for number, request in enumerate(requests)
    ]
    return {
        "jobs": jobs,
        "parallel": limits.parallel,
        "seconds": limits.seconds,
        "memory": limits.memory,
        "preload": sorted({name for request in requests for name in request.preload}),
    }


def _read(path: Path, ended: Ended, output: str) -> Answer:
    data = read_regular(path, _ANSWER_LIMIT)
    if isinstance(data, str):
        return _without_answer(ended, output)
    try:
        raw = json.loads(data)
        answer = Answer.model_validate(raw)
        if answer.outcome != "observed":
            return answer
        return answer.model_copy(update={"recording": Recording.model_validate(raw)})
    except (ValidationError, ValueError, TypeError, RecursionError):
        return Answer(
            outcome="crashed",
            sentence="the worker's answer makes no sense: something in the recipe's process "
            "changed it",
            output=output,
        )


def _without_answer(ended: Ended, output: str) -> Answer:
    """Return why the worker itself ended before it had an answer."""
    if ended.timed_out:
        return Answer(outcome="timed out", sentence="the worker did not come to an end")
    if ended.signal is not None:
        return Answer(outcome="crashed", sentence=f"the worker was killed by {ended.signal}")
    last = first_line(last_lines(output, count=1))
    if "No module named 'torch'" in output:
        return Answer(outcome="no torch", sentence="the interpreter has no torch")
    sentence = f"the worker exited with {ended.exit_code}: {last or 'it said nothing'}"
    return Answer(outcome="crashed", sentence=sentence, output=output)


def _cleaned(answer: Answer, secrets: Sequence[str]) -> Answer:
    return answer.model_copy(
        update={
            "sentence": first_line(answer.sentence, secrets),
            "output": last_lines(answer.output, secrets),
            "tail": last_lines(answer.tail, secrets),
        }
    )
