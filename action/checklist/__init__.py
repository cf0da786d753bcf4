"""The skill's soft validation: one module per item.

An item's function takes a `Context` and returns a `CheckResult` from the source alone; `observed`
puts to it what the probe saw. What neither settles is `unknown`, and never passes.
"""

from __future__ import annotations

from collections.abc import Callable

from action.checklist import (
    attributes_merged,
    edges,
    honest_claims,
    hook_bound,
    idempotent,
    observed,
    stays_local,
    wrap_targets,
)
from action.checklist.context import Context, Diff
from action.records import CheckId, CheckResult, Evidence, Location

__all__ = ["Context", "Diff", "check_recipe"]

_ITEMS: dict[CheckId, Callable[[Context], CheckResult]] = {
    "hook-bound": hook_bound.check,
    "wrap-targets": wrap_targets.check,
    "forward-edges": edges.check_forward,
    "backward-edges": edges.check_backward,
    "idempotent": idempotent.check,
    "attributes-merged": attributes_merged.check,
    "stays-local": stays_local.check,
    "honest-claims": honest_claims.check,
}


def check_recipe(context: Context) -> tuple[CheckResult, ...]:
    """Return the verdicts on one recipe, always all eight, in the order of the checklist."""
    return tuple(_decided(item, check, context) for item, check in _ITEMS.items())


def _decided(
    item: CheckId, check: Callable[[Context], CheckResult], context: Context
) -> CheckResult:
    try:
        return observed.decide(check(context), context.observation)
    except RecursionError:
        where = Location(path=context.source.path)
        evidence = (Evidence(text="nested too deeply to be read", location=where),)
        return CheckResult(
            id=item,
            verdict="unknown",
            established_by="nothing",
            summary="the recipe's source is nested too deeply to be read",
            evidence=evidence,
        )
