"""What remains unproved, and the conclusion that follows.

A gap is whatever was not run, could not run, or ran on less than the real thing. It is derived
from the results alone, so that nothing can be claimed in the comment that did not happen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from action.records import (
    CheckId,
    CheckResult,
    Conclusion,
    Environment,
    Gap,
    Observation,
    RecipeReport,
    Selection,
    StageId,
    StageResult,
)

_STAGE_FILES = {
    "structure": "tests/test_structure.py",
    "smoke": "tests/test_smoke.py",
    "identity": "tests/skills/fsdp2-prefetching/test_prefetch_edges_impact.py",
}
_STAGE_NAMES = {"structure": "Structure", "smoke": "Smoke", "identity": "Edge identity"}
_FAILURES = ("failed", "crashed", "timed out")
_PROBE = "tests/skills/fsdp2-prefetching/probe.py"
_TRY = "try it with `fsdp2-prefetch edges`."
_LOOK: dict[str, str] = {
    "not run": "Run with `--stages` naming `probe`.",
    "no probe": f"Add `{_PROBE}` with a function `build(*, device_mesh, overrides=())`; the README "
    "says what it returns.",
    "bad probe": f"Mend `{_PROBE}` and {_TRY}",
    "cannot build": f"Let `build` in `{_PROBE}` build the model on a CPU, and {_TRY}",
    "not wrapped": f"Let `build` in `{_PROBE}` return the model as training has it, after "
    f"`fully_shard`, and {_TRY}",
    "unknown torch": "Give a Python whose torch the probe knows (`--python`).",
    "no torch": "Give a Python that has torch (`--python`).",
    "timed out": "Raise `--probe-limit`, or name a config with fewer layers in `probe.py`.",
    "out of memory": "Raise `--probe-memory`, or name a smaller config in `probe.py`.",
    "crashed": f"See with `fsdp2-prefetch edges` what ends the process, and mend `{_PROBE}`.",
}
"""What lets the probe see something, by the outcome of its run."""
_ORDER = f"Let `{_PROBE}` run every training path, and {_TRY}"
_CLOSES: dict[CheckId, str] = {
    "hook-bound": "Follow `prepare_model()` by hand from the line named under this item to the "
    "class, and see that it binds the hook.",
    "wrap-targets": "Make sure, in the structure test, that the built model has instances of these "
    "classes and that each is a unit.",
    "forward-edges": _ORDER,
    "backward-edges": _ORDER,
    "idempotent": "Call the hook twice in a test and compare the edges by identity.",
    "attributes-merged": "See on which class training finds the TP attributes and the hook.",
    "stays-local": "A maintainer says whether a change of the runtime was asked for.",
    "honest-claims": "Mend the files named under this item, so that they can be read.",
}


def stage_name(stage: StageId) -> str:
    """Return the stage's name as the report writes it."""
    return _STAGE_NAMES[stage]


def has_failure(recipe: RecipeReport) -> bool:
    """Tell whether a check or a stage of this recipe failed."""
    return any(check.verdict == "fail" for check in recipe.checks) or any(
        stage.outcome in _FAILURES for stage in recipe.stages
    )


def recipe_gaps(
    checks: Iterable[CheckResult],
    stages: Iterable[StageResult],
    environment: Environment,
    observation: Observation | None = None,
) -> tuple[Gap, ...]:
    """Return what is unproved about one recipe, soft items first, then stages in their order."""
    seen = observation or Observation(outcome="not run", summary="the probe was not asked for")
    checks = tuple(checks)
    no_hook = any(c.id == "hook-bound" and c.verdict == "not applicable" for c in checks)
    gaps = [*_item_gaps(checks, seen), *_observation_gaps(seen)]
    for stage in stages:
        if stage.id == "identity" and no_hook and stage.outcome in ("missing", "nothing collected"):
            continue  # without a hook there are no edges to identify
        gaps += _stage_gaps(stage, environment)
    return tuple(gaps)


def run_gaps(
    selection: Selection,
    recipes: Sequence[RecipeReport],
    interrupted: str | None,
    asked: Collection[str] | None = None,
) -> tuple[Gap, ...]:
    """Return what is unproved about the run as a whole.

    `interrupted` says what stopped the run before its end, if something did; `asked` are the
    recipes that it was to validate, None for all that are selected.
    """
    gaps: list[Gap] = []
    if interrupted is not None:
        gaps.append(
            Gap(
                id="run:interrupted",
                summary=f"The run was stopped before its end: {interrupted}",
                closes="Run it again.",
            )
        )
    validated = {recipe.name for recipe in recipes}
    wanted = [r.name for r in selection.recipes] if asked is None else list(asked)
    missing = [f"`{name}`" for name in wanted if name not in validated]
    if missing:
        gaps.append(
            Gap(
                id="run:not-validated",
                summary=f"Selected, but no result arrived: {', '.join(missing)}",
                closes="Run `fsdp2-prefetch validate` for them, or look at the job that did not.",
            )
        )
    return tuple(gaps)


def conclude(
    selection: Selection,
    recipes: Sequence[RecipeReport],
    gaps: Sequence[Gap] = (),
) -> Conclusion:
    """Return the conclusion of a run from its recipes and the gaps of the run as a whole.

    A failure outranks trouble with the machine, since it was seen whatever else happened.
    """
    interrupted = any(gap.id == "run:interrupted" for gap in gaps)
    if any(has_failure(recipe) for recipe in recipes):
        return "failed"
    if interrupted or any(
        stage.outcome == "could not start" for recipe in recipes for stage in recipe.stages
    ):
        return "infrastructure"
    if not recipes and not selection.recipes:
        return "nothing selected"
    return "gaps" if gaps or any(recipe.gaps for recipe in recipes) else "passed"


def _item_gaps(checks: Iterable[CheckResult], seen: Observation) -> list[Gap]:
    gaps: list[Gap] = []
    for check in checks:
        if check.verdict != "unknown":
            continue
        edges = check.id in ("forward-edges", "backward-edges")
        if edges and seen.outcome != "observed":
            # One reason, one gap: whatever kept the probe away hides both directions.
            gap = Gap(
                id="item:edges",
                summary=f"Forward and backward edges were not observed: {seen.summary}",
                closes=_LOOK[seen.outcome],
            )
            if gap not in gaps:
                gaps.append(gap)
            continue
        summary = f"`{check.id}`: {check.summary}"
        closes = next(
            (_as_sentence(f.instead) for f in seen.findings if f.item == check.id and f.instead),
            _CLOSES[check.id],
        )
        gaps.append(Gap(id=f"item:{check.id}", summary=summary, closes=closes))
    return gaps


def _as_sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _observation_gaps(seen: Observation) -> list[Gap]:
    """Return where the probe ran on less than the real thing."""
    if seen.outcome != "observed":
        return []
    gaps = []
    if seen.mode != "fake":
        config = f"`{seen.config}`" if seen.config else "a small model"
        why = f": {seen.why_not_fake}" if seen.why_not_fake else ""
        gaps.append(
            Gap(
                id="probe:not-full-size",
                summary=f"Edges were seen with real values on {config}, not at full size{why}",
                closes="See that this config has every kind of unit and every branch that the full "
                "one has, or let the model run on fake tensors.",
            )
        )
    for path in seen.paths:
        if path.problem is not None and path.with_hook is not None:
            gaps.append(
                Gap(
                    id=f"probe:partly:{path.name}",
                    summary=f"Path `{path.name}` was seen in part: {path.problem}",
                    closes="Let the path run in `eval` mode without gradients, too: what edges "
                    "leave behind after an evaluation is read as stale weights.",
                )
            )
    return gaps


def _stage_gaps(stage: StageResult, environment: Environment) -> list[Gap]:
    name = _STAGE_NAMES[stage.id]
    gaps: list[Gap] = []

    def gap(kind: str, summary: str, closes: str) -> None:
        gaps.append(Gap(id=f"{stage.id}:{kind}", summary=summary, closes=closes))

    file = _STAGE_FILES[stage.id]
    match stage.outcome:
        case "missing":
            gap("missing", f"{name} was not run: the recipe has no `{file}`", "Add it.")
        case "nothing collected":
            gap("nothing-collected", f"{name} ran no test: {stage.summary}", f"Fill `{file}`.")
        case "all skipped":
            gap(
                "all-skipped",
                f"{name} ran no test: {stage.summary}",
                "Run where the skip reasons do not hold, or remove them.",
            )
        case "not run":
            gap("not-run", f"{name}: {stage.summary}", _closes_not_run(stage))
        case "could not start":
            gap(
                "could-not-start",
                f"{name} could not start: {stage.summary}",
                "Give a Python that has the recipe's requirements and pytest (`--python`).",
            )
        case "passed" | "failed" | "crashed" | "timed out":
            if stage.skipped:
                reasons = "; ".join(stage.skip_reasons) or "no reason given"
                gap(
                    "skipped",
                    f"{name}: {stage.skipped} of {stage.tests} tests were skipped ({reasons})",
                    "Run where the skip reasons do not hold.",
                )
            if stage.outcome == "passed":
                gaps += _passed_gaps(stage, environment)
    return gaps


def _passed_gaps(stage: StageResult, environment: Environment) -> list[Gap]:
    if stage.id == "smoke":
        gaps = [
            Gap(
                id="smoke:not-evidenced",
                summary="Smoke is green, but that FSDP2 was active in it (sharded units and "
                "all-gathers on a mesh larger than one) was not recorded",
                closes="Check by hand that its ranks shard on a mesh larger than one; this "
                "version of the action does not look inside them.",
            )
        ]
        devices = environment.cuda_devices
        if devices is None:
            gaps.append(
                Gap(
                    id="smoke:devices-unknown",
                    summary="Smoke ran on unknown devices"
                    + (f": {environment.problem}" if environment.problem else ""),
                    closes="Give a Python that imports torch (`--python`).",
                )
            )
        elif len(devices) < 2:
            seen = "no CUDA device was" if not devices else "only one CUDA device was"
            gaps.append(
                Gap(
                    id="smoke:no-gpus",
                    summary=f"Smoke was not run on GPUs with NCCL: {seen} seen",
                    closes="Run on a machine with two or more GPUs.",
                )
            )
        return gaps
    if stage.id == "identity":
        return [
            Gap(
                id="identity:not-mutated",
                summary="Edge identity tests are green, but it was not shown that they fail when "
                "an edge is dropped, redirected or replaced by an impostor",
                closes="Drop an edge in the hook by hand and see the test fail; this version of "
                "the action does not do it.",
            )
        ]
    return []


def _closes_not_run(stage: StageResult) -> str:
    match stage.not_run_because:
        case "not asked for":
            return f"Run with `--stages` naming `{stage.id}`."
        case "cancelled":
            return "Run it again."
        case _:
            return "Make the earlier stage pass."
