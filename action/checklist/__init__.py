"""The skill's soft validation: one module per item.

An item's function takes a `Context` and returns a `CheckResult`. Only the source is read here: what
it does not settle is `unknown`, and never passes.
"""

from __future__ import annotations

from action.checklist import (
    attributes_merged,
    edges,
    honest_claims,
    hook_bound,
    idempotent,
    stays_local,
    wrap_targets,
)
from action.checklist.context import Context, Diff
from action.records import CheckResult

__all__ = ["Context", "Diff", "check_recipe"]

_ITEMS = (
    hook_bound.check,
    wrap_targets.check,
    edges.check_forward,
    edges.check_backward,
    idempotent.check,
    attributes_merged.check,
    stays_local.check,
    honest_claims.check,
)


def check_recipe(context: Context) -> tuple[CheckResult, ...]:
    """Return the verdicts on one recipe, always all eight, in the order of the checklist."""
    return tuple(check(context) for check in _ITEMS)
