"""Which unit lies within which, and how far ahead an edge reaches."""

from __future__ import annotations

from action.probe.gathers import Step
from action.probe.recording import Direction, Recording


def contains(recording: Recording, outer: int, inner: int) -> bool:
    """Tell whether one unit's module is a proper ancestor of another's."""
    return outer != inner and any(
        _is_below(path, above)
        for path in recording.units[inner].paths
        for above in recording.units[outer].paths
    )


def _is_below(path: str, above: str) -> bool:
    return path != above and (not above or path.startswith(f"{above}."))


def root_of(recording: Recording, unit: int) -> int | None:
    """Return the root that a unit belongs to; None when none ran, or of another model."""
    if unit in recording.roots:
        return unit
    return next((root for root in recording.roots if contains(recording, root, unit)), None)


def lookahead(recording: Recording, step: Step, edge: tuple[int, int], direction: Direction) -> int:
    """Return how many units ahead of its use an edge's target is gathered, at its longest.

    Counted are the units that begin after the source up to the target, each with what lies within
    it as one, and without those within the source. 0 when the target does not run after it.
    """
    source, target = edge
    order = step.order(direction)
    longest = 0
    for start, unit in order:
        if unit != source:
            continue
        window: list[int] = []
        for index, other in order:
            if index > start:
                if other == source:
                    break
                window.append(other)
                if other == target:
                    longest = max(longest, _outermost(recording, window, source))
                    break
    return longest


def _outermost(recording: Recording, window: list[int], source: int) -> int:
    distinct = set(window)
    return sum(
        not contains(recording, source, unit)
        and not any(contains(recording, other, unit) for other in distinct)
        for unit in distinct
    )
