"""Edges that are wrong whatever runs: to itself, to the root, to nothing, twice, across roots."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from action.probe.judge.case import Case, Pair, also
from action.probe.nesting import contains, root_of
from action.probe.recording import Direction
from action.records import Finding, Rule

_Test = Callable[[Case, int, int], bool]


def _to_itself(case: Case, source: int, target: int) -> bool:
    return source == target


def _to_the_root(case: Case, source: int, target: int) -> bool:
    return source != target and target in case.recording.roots and _one_root(case, source, target)


def _to_an_ancestor(case: Case, source: int, target: int) -> bool:
    return target not in case.recording.roots and contains(case.recording, target, source)


def _to_an_empty_unit(case: Case, source: int, target: int) -> bool:
    return source != target and case.recording.units[target].empty


def _across_roots(case: Case, source: int, target: int) -> bool:
    return not _one_root(case, source, target)


def _one_root(case: Case, source: int, target: int) -> bool:
    roots = [root_of(case.recording, unit) for unit in (source, target)]
    return len(case.recording.roots) < 2 or roots[0] == roots[1]


_DEFAULT_OFF = "; it turns FSDP2's own backward prefetch off for the source all the same"
_RULES: tuple[tuple[Rule, _Test, str, str, str], ...] = (
    (
        "cross-root",
        _across_roots,
        "points to a unit under another root: FSDP2's streams and order are kept per root",
        "FSDP2 raises, or the all-gather is never waited for",
        "set edges only between units of one root, or wrap the model that holds both as the root",
    ),
    (
        "self-edge",
        _to_itself,
        "points to the unit itself, which is there already when the edge fires",
        "nothing is prefetched",
        "name the unit that runs next",
    ),
    (
        "edge-to-root",
        _to_the_root,
        "points to the root, which stays unsharded after forward",
        "nothing is prefetched",
        "leave the root out of the list",
    ),
    (
        "edge-to-empty-unit",
        _to_an_empty_unit,
        "points to a unit that manages no parameter, so that there is nothing to gather",
        "nothing is prefetched, silently",
        "name the units that hold its parameters",
    ),
    (
        "edge-to-ancestor",
        _to_an_ancestor,
        "points to a unit that contains the source and is there already when the edge fires",
        "nothing is prefetched",
        "name the unit that runs next",
    ),
)


def find(case: Case, direction: Direction) -> Iterator[tuple[Finding, tuple[Pair, ...]]]:
    """Yield each finding with the edges that it settles: later rules leave those alone."""
    settled: set[Pair] = set()
    started = _started(case, direction)
    for rule, test, what, cost, instead in _RULES:
        pairs = [p for p in case.pairs(direction) if p not in settled and test(case, *p)]
        if rule != "cross-root":
            # The target was not there after all: what became of its all-gather is another rule's.
            pairs = [p for p in pairs if p not in started]
        if pairs:
            settled.update(pairs)
            off = _DEFAULT_OFF if direction == "backward" and rule != "cross-root" else ""
            summary = f"the {direction} edge {case.arrow(pairs[0])} {what}{also(pairs)}"
            finding = case.finding(
                rule,
                direction,
                pairs,
                summary,
                event=_event(case, direction, pairs[0]),
                cost=f"{cost}{off}",
                instead=instead,
            )
            yield finding, tuple(pairs)
    repeated = [
        (source, target)
        for source, targets in case.lists(direction).items()
        for target in dict.fromkeys(targets)
        if targets.count(target) > 1
    ]
    if repeated:
        source, target = repeated[0]
        grouped = len(case.recording.units[target].paths) > 1
        summary = (
            f"{case.quoted(target)} stands more than once in the {direction} list of "
            f"{case.quoted(source)}{also(repeated)}"
            + ("; modules wrapped together are one unit" if grouped else "")
        )
        yield (
            case.finding(
                "duplicate-target",
                direction,
                repeated,
                summary,
                event=_event(case, direction, repeated[0]),
                cost="the second entry does nothing"
                + ("" if grouped else "; most likely another unit was meant"),
                instead="name each unit once"
                + (", by one of the modules wrapped together" if grouped else ""),
            ),
            (),
        )


def _started(case: Case, direction: Direction) -> set[Pair]:
    """Return the edges that ever issued an all-gather."""
    steps = [step for path in case.paths for step in (path.hooked, path.evaluated) if step]
    edges = [gather.edge for step in steps for gather in step.gathers]
    return {(edge[0], edge[1]) for edge in edges if edge is not None and edge[2] == direction}


def _event(case: Case, direction: Direction, pair: Pair) -> str:
    """Return what was seen when the edge fired, where it did."""
    for path in case.paths:
        step = path.hooked
        for event in step.events if step is not None else ():
            if (event.why, event.by, event.unit) == (f"{direction} edge", *pair):
                return case.recording.described(event)
    return ""
