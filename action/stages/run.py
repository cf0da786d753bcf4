"""The three stages of one recipe, in order, stopping at the first that fails."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from action.processes.command import StartError, run_to_end
from action.processes.environment import child_environment, passed_secrets
from action.processes.interpreter import find_interpreter
from action.processes.output import (
    Log,
    check_space,
    make_folder,
    read_regular,
    unwritable,
    write_new,
    writing,
)
from action.processes.text import quoted
from action.records import Outcome, StageId, StageResult
from action.stages.junit import XML_LIMIT, read_junit
from action.stages.sidecar import read_sidecar
from action.stages.verdict import Remains, judge

ORDER: tuple[StageId, ...] = ("structure", "smoke", "identity")
TARGETS: dict[StageId, str] = {
    "structure": "tests/test_structure.py",
    "smoke": "tests/test_smoke.py",
    "identity": "tests/skills/fsdp2-prefetching",
}
"""What pytest is given in each stage, relative to the recipe."""
INSIDE = Path(__file__).resolve().parent / "inside"
"""The folder with what is loaded into the recipe's interpreter; it holds nothing else."""
NotRun = Literal["not asked for", "earlier stage", "cancelled"]
_STOPPING: tuple[Outcome, ...] = ("failed", "crashed", "timed out", "could not start")


def run_stages(
    recipe_path: str,
    checkout: Path,
    out: Path,
    *,
    python: str,
    wanted: Sequence[StageId],
    limits: Mapping[StageId, float],
    environ: Mapping[str, str],
    pass_env: Sequence[str] = (),
    announce: Callable[[str], None],
    clock: Callable[[], float],
) -> tuple[StageResult, ...]:
    """Run the stages of `wanted` on the recipe at `recipe_path` in `checkout`; return all three.

    Each is pytest under the interpreter `python`, in a session of its own, for at most
    `limits[stage]` seconds, in an environment that holds of `environ` an allow-list and the names
    in `pass_env`. A stage that fails, crashes, times out or cannot start stops the later ones;
    one that has no tests to run does not. `<stage>.log` and `<stage>.xml` are written into `out`,
    the recipe's own folder in the output folder. `clock` gives seconds, `announce` takes one line
    of progress, which may quote test output.

    Raises:
        StagesInterrupted: a KeyboardInterrupt came meanwhile; no child is left.
        StagesError: `out`, or the system's folder for temporary files, cannot be written.
    """
    make_folder(out)
    child, refused = child_environment(environ, pass_env, first_on_path=INSIDE)
    if refused:
        announce(f"  never passed to tests, whatever pass_env says: {', '.join(refused)}")
    results: list[StageResult] = []
    stopped_by: str | None = None
    for stage in ORDER:
        target = f"{recipe_path}/{TARGETS[stage]}"
        if stage not in wanted:
            result = _not_run(stage, "it was not asked for", "not asked for")
        elif stopped_by is not None:
            result = _not_run(stage, stopped_by, "earlier stage")
        elif (missing := _missing(checkout, target)) is not None:
            result = StageResult(id=stage, outcome="missing", summary=missing)
        else:
            announce(f"  {stage}: pytest {target}, at most {limits[stage]:g} s")
            try:
                result = _run(
                    stage,
                    target,
                    checkout,
                    out,
                    python=python,
                    limit=limits[stage],
                    environ=child,
                    secrets=passed_secrets(environ, pass_env),
                    clock=clock,
                )
            except KeyboardInterrupt as stop:
                running = _not_run(stage, "the run was cancelled while it ran", "cancelled")
                later = not_run("the run was cancelled")[len(results) + 1 :]
                raise StagesInterrupted((*results, running, *later)) from stop
        words = "" if result.outcome == "not run" else f"{result.outcome}: "
        announce(f"  {stage}: {words}{result.summary}")
        if result.outcome in _STOPPING:
            stopped_by = f"{stage} {result.outcome}"
        results.append(result)
    return tuple(results)


class StagesInterrupted(KeyboardInterrupt):
    """The run was cancelled; `results` are those of all three stages, as far as they came."""

    def __init__(self, results: tuple[StageResult, ...]) -> None:
        super().__init__()
        self.results = results


def not_run(why: str, because: NotRun = "cancelled") -> tuple[StageResult, ...]:
    """Return the results of three stages that were not run, for the reason given."""
    return tuple(_not_run(stage, why, because) for stage in ORDER)


def _not_run(stage: StageId, why: str, because: NotRun) -> StageResult:
    return StageResult(
        id=stage, outcome="not run", summary=f"not run: {why}", not_run_because=because
    )


def _missing(checkout: Path, target: str) -> str | None:
    path = checkout / target
    if target.endswith(".py"):
        return None if path.is_file() else f"there is no {quoted(target)}"
    if any(path.rglob("test_*.py")) or any(path.rglob("*_test.py")):
        return None
    return f"there is no test file in {quoted(f'{target}/')}"


def _run(
    stage: StageId,
    target: str,
    checkout: Path,
    out: Path,
    *,
    python: str,
    limit: float,
    environ: Mapping[str, str],
    secrets: tuple[str, ...],
    clock: Callable[[], float],
) -> StageResult:
    shown = (python, "-m", "pytest", target, "-q", "-p", "no:cacheprovider")
    interpreter = find_interpreter(python, environ)
    if isinstance(interpreter, str):
        return StageResult(id=stage, outcome="could not start", summary=interpreter, command=shown)
    with writing(out):
        log = Log(out / f"{stage}.log")
        (out / f"{stage}.xml").unlink(missing_ok=True)
    # A fresh folder: what is found in it was written by this process, not by an earlier one.
    scratch = _scratch()
    try:
        xml, sidecar = scratch / "junit.xml", scratch / "sidecar"
        options = ("-p", "fsdp2_prefetch_sidecar", f"--junitxml={xml}")
        ended = run_to_end(
            (str(interpreter), *shown[1:], *options),
            cwd=checkout,
            environ={**environ, "FSDP2_PREFETCH_SIDECAR": str(sidecar)},
            output=log.descriptor,
            limit=limit,
            clock=clock,
            watch=log.trim,
        )
        remains = Remains(
            stage=stage,
            python=python,
            target=target,
            limit=limit,
            ended=ended,
            report=read_junit(xml),
            course=read_sidecar(sidecar),
            log_end=log.end(),
            secrets=secrets,
        )
        # A full disk makes pytest fail in many ways, none of them the recipe's fault.
        check_space(out)
        check_space(scratch)
        junit = _keep(xml, out / f"{stage}.xml")
    except StartError as trouble:
        summary = f"{quoted(python)} cannot be run: {trouble}"
        return StageResult(id=stage, outcome="could not start", summary=summary, command=shown)
    except OSError as trouble:
        raise unwritable(out, trouble) from trouble
    finally:
        log.close()
        shutil.rmtree(scratch, ignore_errors=True)
    return judge(remains).model_copy(
        update={
            "command": shown,
            "log": f"{out.name}/{stage}.log",
            "junit": f"{out.name}/{stage}.xml" if junit else None,
        }
    )


def _keep(xml: Path, kept: Path) -> bool:
    data = read_regular(xml, XML_LIMIT)
    if isinstance(data, str):
        return False
    with writing(kept.parent):
        write_new(kept, data)
    return True


def _scratch() -> Path:
    folder = Path(tempfile.gettempdir())
    with writing(folder):
        scratch = Path(tempfile.mkdtemp(prefix="fsdp2-prefetch-stage-"))
    check_space(scratch)
    return scratch
