"""How the hook is found on the wrapped model, and what was wrapped."""

from __future__ import annotations

from collections.abc import Iterator

from action.contract import HOOK
from action.probe.judge.case import Case
from action.probe.recording import Unit
from action.records import Finding


def find_hook(case: Case) -> Iterator[Finding]:
    """Yield why the runtime's call does not reach the hook, or reaches nothing."""
    recording, hook = case.recording, case.recording.hook
    top = f"`{recording.top_class.rpartition('.')[2]}`"
    if not hook.bound:
        if hook.inner:
            path, cls = hook.inner[0]
            yield Finding(
                rule="hook-hidden",
                item="hook-bound",
                verdict="fail",
                summary=f"the hook is bound on `{cls}`, but the wrapped model is a {top} that "
                "does not have it",
                event=f"`{HOOK}` was found at `{path}`, not at the root",
                cost="the runtime skips the hook without a word: no edge is set",
                instead=f"bind the hook on {top}, or wrap the model before {top} is put around it",
            )
        return
    if not hook.callable:
        yield Finding(
            rule="hook-not-callable",
            item="hook-bound",
            verdict="fail",
            summary=f"`{HOOK}` on {top} holds something that cannot be called",
            cost="the runtime's call raises",
            instead="bind a function of one argument, the model",
        )
        return
    if any(call.in_hook for call in recording.calls):
        return
    again = recording.second_call
    sets = again is not None and any(call.in_hook for call in again.calls)
    if sets:
        yield Finding(
            rule="hook-not-called",
            item="hook-bound",
            verdict="fail",
            summary="the model was built and wrapped without a call of the hook",
            event="no setter was called from it, but calling it afterwards sets edges",
            cost="training runs without the hook's edges",
            instead="wrap the model through the runtime; in `probe.py`, build it as training does",
        )
    elif hook.flags_before_wrap:
        flag = hook.flags_before_wrap[0]
        yield Finding(
            rule="hook-sets-nothing",
            item="hook-bound",
            verdict="fail",
            summary=f"`{flag}` was already set before the model was wrapped, so that the hook "
            "returns at once",
            event="the hook called no setter",
            cost="no edge is set",
            instead=f"set `{flag}` in the hook only, after the edges",
        )
    elif len(_own_units(case)) > 1 and (again is None or again.error is None):
        yield Finding(
            rule="hook-sets-nothing",
            item="hook-bound",
            verdict="unknown",
            summary="the hook set no edge on the model that `build` returned",
            event="no setter was called from it, nor when it was called again",
            cost="nothing is known of the edges that it may set elsewhere",
            instead="probe a config for which the hook sets edges",
        )


def find_units(case: Case) -> Iterator[Finding]:
    """Yield what is wrong with the units."""
    recording = case.recording
    if len(_own_units(case)) == 1:
        yield _of_wrapping(
            "only-root",
            "the root is the only unit: nothing else was wrapped",
            "every parameter is gathered at once, and an edge has nothing to point to",
            "name the block class in `_no_split_modules` or `target_classes`",
        )
    for cls in recording.classes:
        if cls.named and not cls.instances:
            yield _of_wrapping(
                "target-absent",
                f"`{cls.name}` is to be wrapped, but the model has no module of that class",
                "what was meant by that name is not a unit of its own",
                "correct the name, or probe a config that has such modules",
                unknown=True,
            )
        elif cls.named and cls.unwrapped:
            count = max(cls.forgotten, len(cls.unwrapped))
            yield _of_wrapping(
                "target-unwrapped",
                f"{count} of {cls.instances} modules of class `{cls.name}` "
                f"{'is' if count == 1 else 'are'} no unit, `{cls.unwrapped[0]}` for one",
                "their parameters are gathered with an outer unit, and no edge can reach them",
                "wrap every module of the class, or take its name off the list",
            )
    empty = [
        number
        for number, unit in enumerate(recording.units)
        if unit.empty and number not in recording.roots
    ]
    if empty:
        more = f" (and {len(empty) - 1} more)" if len(empty) > 1 else ""
        yield _of_wrapping(
            "empty-unit",
            f"{case.quoted(empty[0])} is a unit without parameters{more}: what it has belongs to "
            "units within it or is ignored",
            "it gathers nothing, and an edge to it does nothing, silently",
            "wrap either the module or what is in it",
        )
    for names in recording.tied:
        shown = ", ".join(f"`{name}`" for name in names[:3])
        yield _of_wrapping(
            "tied-across-units",
            f"{shown} were one parameter before wrapping and are separate ones now",
            "each is gathered and updated for itself: the model trained is another one",
            "keep tied parameters in one unit: wrap their modules together, or leave both to the "
            "root",
        )


def _own_units(case: Case) -> list[Unit]:
    return [unit for unit in case.recording.units if not unit.outside]


def _of_wrapping(
    rule: str, summary: str, cost: str, instead: str, *, unknown: bool = False
) -> Finding:
    return Finding.model_validate(
        {
            "rule": rule,
            "item": "wrap-targets",
            "verdict": "unknown" if unknown else "fail",
            "summary": summary,
            "cost": cost,
            "instead": instead,
        }
    )
