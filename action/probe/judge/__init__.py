"""What was seen, held against FSDP2's semantics and the skill's rules.

Rules run from the specific to the general, and each edge is blamed once: one that points to the
root is not blamed a second time for turning the default prefetch off. Whatever the model does
without any edge (a frozen tower's dropped all-gather, a shared block's second one) is never the
hook's fault.
"""

from __future__ import annotations

from collections.abc import Iterator

from action.probe.judge import calls, lists, order, outcomes, traffic, wrapping
from action.probe.judge.case import Case, Pair
from action.probe.judge.outcomes import parted_paths
from action.probe.recording import Direction, Recording
from action.records import Finding

__all__ = ["judge", "parted_paths"]

_DIRECTIONS: tuple[Direction, ...] = ("forward", "backward")


def judge(recording: Recording) -> tuple[Finding, ...]:
    """Return everything that is wrong, or could not be seen; nothing for a healthy model."""
    return tuple(_found(Case(recording)))


def _found(case: Case) -> Iterator[Finding]:
    yield from wrapping.find_hook(case)
    yield from wrapping.find_units(case)
    settled: dict[Direction, set[Pair]] = {"forward": set(), "backward": set()}
    for direction in _DIRECTIONS:
        for finding, pairs in lists.find(case, direction):
            settled[direction].update(pairs)
            yield finding
        yield from order.find(case, direction, settled[direction])
    yield from traffic.find(case, settled)
    yield from outcomes.find(case)
    yield from calls.find(case)
