"""wrap-targets: every class name that FSDP2 is told to wrap is the name of a class in the model.

By name only: whether instances exist and become units is for the probe to see.
"""

from __future__ import annotations

from action.checklist.context import Context, at, result
from action.records import CheckResult, Evidence, WrapTarget


def check(context: Context) -> CheckResult:
    """Decide the item from names in the source and the configs."""
    source = context.source
    if source.problems:
        return result(
            "wrap-targets",
            "unknown",
            "not every file of the recipe could be read, so that its wrap targets are not known",
            [at(problem.why, problem.location) for problem in source.problems],
        )
    absent = [t for t in source.targets if not t.matches]
    certain = [t for t in absent if not t.may_match_outside and source.candidates]
    if certain:
        return result(
            "wrap-targets",
            "fail",
            f"{_names(certain)} {'is' if len(certain) == 1 else 'are'} to be wrapped, but no class "
            "that the model uses has that name",
            [_named(target) for target in certain],
        )
    if absent:
        return result(
            "wrap-targets",
            "unknown",
            f"{_names(absent)}: no class of that name is in the repository's source; the model "
            "also uses classes from outside it",
            [_named(target) for target in absent],
        )
    end = source.targets_end
    if not source.targets:
        if end is not None:
            summary = f"the wrap targets are not in the repository's source: {end.why}"
            return result("wrap-targets", "unknown", summary, [at(end.why, end.location)])
        if not source.candidates:
            return result(
                "wrap-targets",
                "unknown",
                "no wrap target was found, and the class that would list them is not known",
                [at(trail.why, trail.location) for trail in source.trail_ends],
            )
        return result(
            "wrap-targets",
            "fail" if source.hooks else "not applicable",
            "neither `_no_split_modules` nor a config names a class to wrap"
            + (", so that a prefetch edge has no unit to point to" if source.hooks else ""),
            [at("the top-level class", cls.location) for cls in source.candidates],
        )
    note = f"; further ones are not known ({end.why})" if end is not None else ""
    return result(
        "wrap-targets",
        "pass",
        f"{_names(source.targets)}: by name, a class that the model's source uses{note}",
        [
            at(f"`{t.class_name}` is `{t.matches[0].name}`", t.matches[0].location)
            for t in source.targets
        ]
        + [_named(target) for target in source.targets],
    )


def _names(targets: tuple[WrapTarget, ...] | list[WrapTarget]) -> str:
    return ", ".join(f"`{name}`" for name in dict.fromkeys(t.class_name for t in targets))


def _named(target: WrapTarget) -> Evidence:
    return at(f"`{target.class_name}` is named in `{target.origin}`", target.named_at)
