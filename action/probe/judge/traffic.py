"""All-gathers against those of the twin: the same model, the same step, without edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from action.amounts import amount
from action.probe.gathers import Gather, Step
from action.probe.judge.case import Case, Pair, PathCase, also, in_paths
from action.probe.recording import Direction
from action.records import Finding, Rule

Settled = dict[Direction, set[Pair]]
_DIRECTIONS: tuple[Direction, ...] = ("forward", "backward")
_Test = Callable[[Settled, Step, Step, Gather], bool]


def find(case: Case, settled: Settled) -> Iterator[Finding]:
    """Yield what edges cost that is not yet explained by `settled`, and add those edges to it."""
    for rule, test, what, instead in _RULES:
        yield from _with_trait(case, settled, rule, test, what, instead)
    yield from _stale(case, settled)
    yield from _inverted(case, settled)
    yield from _default_off(case, settled)
    yield from _without_effect(case, settled)


def _recomputed(settled: Settled, step: Step, twin: Step, gather: Gather) -> bool:
    edge = gather.edge
    if edge is None or edge[2] != "forward" or gather.phase != "backward":
        return False
    # In a recompute an edge may well gather what is needed next: only what is too many is wrong.
    if gather.waited is None:
        return step.unused[gather.unit] > twin.unused[gather.unit]
    used = step.counts[gather.unit] - step.unused[gather.unit]
    return used > twin.counts[gather.unit] - twin.unused[gather.unit]


def _unused(settled: Settled, step: Step, twin: Step, gather: Gather) -> bool:
    explained = sum(
        other.unit == gather.unit and other.waited is None and _is_settled(settled, other)
        for other in step.gathers
    )
    return gather.waited is None and step.unused[gather.unit] - explained > twin.unused[gather.unit]


def _left_live(settled: Settled, step: Step, twin: Step, gather: Gather) -> bool:
    return (
        gather.freed is None
        and gather.unit in step.recorded.live
        and gather.unit not in twin.recorded.live
    )


def _held_over(settled: Settled, step: Step, twin: Step, gather: Gather) -> bool:
    def crossing(other: Gather) -> bool:
        return other.phase == "forward" and other.wait_phase == "backward"

    return crossing(gather) and not any(
        crossing(other) for other in twin.gathers if other.unit == gather.unit
    )


def _repeated(settled: Settled, step: Step, twin: Step, gather: Gather) -> bool:
    def alike(other: Gather) -> bool:
        return (other.unit, other.phase) == (gather.unit, gather.phase)

    # A useless all-gather of an edge that is blamed already does not make this one repeated.
    counted = [
        other
        for other in step.gathers
        if alike(other) and (other.wait_phase == other.phase or not _is_settled(settled, other))
    ]
    return len(counted) > sum(alike(other) for other in twin.gathers)


def _is_settled(settled: Settled, gather: Gather) -> bool:
    edge = gather.edge
    return edge is not None and edge[:2] in settled[edge[2]]


_RULES: tuple[tuple[Rule, _Test, str, str], ...] = (
    (
        "recomputed",
        _recomputed,
        "fires again while activation checkpointing runs the forward a second time, and gathers "
        "its target once more in backward",
        "checkpoint inside the unit (checkpoint first, then fully_shard), use the non-reentrant "
        "form, or set no forward edges",
    ),
    (
        "held-over",
        _held_over,
        "starts an all-gather in forward that only backward uses",
        "name a unit that runs after the source in forward",
    ),
    (
        "unused",
        _unused,
        "starts an all-gather that nobody uses",
        "name only units that run after the source in every training path",
    ),
    (
        "left-live",
        _left_live,
        "leaves its target's full parameters behind when the step is over",
        "name only units that run, and reshard, after the source",
    ),
    (
        "repeated",
        _repeated,
        "gathers its target more often than the model without edges does",
        "name each unit once, from the unit that runs just before it",
    ),
)


def _with_trait(
    case: Case, settled: Settled, rule: Rule, test: _Test, what: str, instead: str
) -> Iterator[Finding]:
    for direction in _DIRECTIONS:
        found: dict[Pair, list[tuple[PathCase, Step, Gather]]] = {}
        for path, step, twin in _compared(case):
            for gather in step.gathers:
                edge = gather.edge
                if edge is None or edge[2] != direction or edge[:2] in settled[direction]:
                    continue
                if test(settled, step, twin, gather):
                    found.setdefault((edge[0], edge[1]), []).append((path, step, gather))
        if not found:
            continue
        pairs = list(found)
        settled[direction].update(pairs)
        path, step, gather = found[pairs[0]][0]
        names = [p.name for seen in found.values() for p, _, _ in seen]
        yield case.finding(
            rule,
            direction,
            pairs,
            f"the {direction} edge {case.arrow(pairs[0])} {what}"
            f"{in_paths(names, len(case.paths))}{also(pairs)}",
            paths=names,
            event=case.shown(step, gather.issued),
            cost=f"an all-gather, {case.held(step, gather)}{_more(case, path)}",
            instead=instead,
        )


def _more(case: Case, path: PathCase) -> str:
    """Return how much higher a path's peak is than the twin's, where it is."""
    assert path.hooked is not None and path.twin is not None
    peak, _ = path.hooked.peak(case.sizes)
    before, _ = path.twin.peak(case.sizes)
    if peak <= before:
        return ""
    return f"; the peak is {amount(peak)} instead of {amount(before)} without edges"


def _compared(case: Case) -> Iterator[tuple[PathCase, Step, Step]]:
    for path in case.paths:
        if path.hooked is not None and path.twin is not None:
            yield path, path.hooked, path.twin


def _stale(case: Case, settled: Settled) -> Iterator[Finding]:
    for direction in _DIRECTIONS:
        found: dict[Pair, list[tuple[str, Step, Gather]]] = {}
        for path in case.paths:
            step, twin = path.evaluated, path.twin_evaluated
            if step is None:
                continue
            known = twin.recorded.pending if twin is not None else ()
            for gather in step.gathers:
                edge = gather.edge
                if edge is None or edge[2] != direction or edge[:2] in settled[direction]:
                    continue
                left = set(step.recorded.pending) - set(known)
                if gather.waited is None and gather.unit in left:
                    found.setdefault((edge[0], edge[1]), []).append((path.name, step, gather))
        if not found:
            continue
        pairs = list(found)
        settled[direction].update(pairs)
        _, step, gather = found[pairs[0]][0]
        names = [name for seen in found.values() for name, _, _ in seen]
        target = case.quoted(pairs[0][1])
        yield case.finding(
            "stale-in-eval",
            direction,
            pairs,
            f"the {direction} edge {case.arrow(pairs[0])} leaves an all-gather pending after an "
            f"evaluation{in_paths(names, len(case.paths))}{also(pairs)}",
            paths=names,
            event=case.shown(step, gather.issued),
            cost=f"the next use of {target} takes it: stale weights when parameters changed "
            f"meanwhile; {amount(case.size(gather.unit))} held until then",
            instead="name only units that run after the source in an evaluation, too",
        )


def _inverted(case: Case, settled: Settled) -> Iterator[Finding]:
    for direction in _DIRECTIONS:
        found: dict[Pair, list[tuple[str, Step, Gather, Gather]]] = {}
        for path, step, twin in _compared(case):
            for phase in _DIRECTIONS:
                pairs = [p for p in step.inversions if p[0].phase == phase]
                before = [p for p in twin.inversions if p[0].phase == phase]
                if len(pairs) <= len(before):
                    continue
                known = {(late.unit, early.unit) for late, early in before}
                for late, early in pairs:
                    edge = early.edge
                    if edge is None or edge[2] != direction or edge[:2] in settled[direction]:
                        continue
                    if (late.unit, early.unit) not in known:
                        found.setdefault((edge[0], edge[1]), []).append(
                            (path.name, step, late, early)
                        )
        if not found:
            continue
        edges = list(found)
        settled[direction].update(edges)
        name, step, late, early = found[edges[0]][0]
        names = [seen[0] for entries in found.values() for seen in entries]
        count = sum(1 for entries in found.values() for seen in entries if seen[0] == name)
        waiting = case.quoted(late.unit)
        yield case.finding(
            "inversion",
            direction,
            edges,
            f"the {direction} edge {case.arrow(edges[0])} puts the all-gather of "
            f"{case.quoted(early.unit)} in front of that of {waiting}, which is needed "
            f"sooner{in_paths(names, len(case.paths))}{also(edges)}",
            paths=names,
            event=f"{case.shown(step, early.issued)}, then {case.shown(step, late.issued)}",
            cost=f"{waiting} waits for {amount(case.size(early.unit))} that it does not need; "
            f"{count} such place{'s' if count > 1 else ''} in a step, none of them without edges",
            instead=f"let a unit that runs before {case.quoted(edges[0][0])} prefetch {waiting}, "
            "listed in the order of use, or set no edge here",
        )


def _default_off(case: Case, settled: Settled) -> Iterator[Finding]:
    found: dict[int, list[tuple[str, Step, Gather]]] = {}
    lists = case.lists("backward")
    for path, step, twin in _compared(case):
        usual = {g.unit: g.by for g in twin.gathers if g.why == "default" and g.waited is not None}
        issuing = {g.edge[0] for g in step.gathers if g.edge is not None and g.edge[2] != "forward"}
        for gather in step.gathers:
            source = usual.get(gather.unit)
            if gather.why != "own" or gather.phase != "backward" or source not in lists:
                continue
            open_ = any((source, t) not in settled["backward"] for t in lists[source])
            if open_ and source not in issuing:
                found.setdefault(source, []).append((path.name, step, gather))
    if not found:
        return
    pairs = [(source, target) for source in found for target in dict.fromkeys(lists[source])]
    settled["backward"].update(pairs)
    _, step, gather = next(iter(found.values()))[0]
    names = [name for seen in found.values() for name, _, _ in seen]
    at, missed = case.quoted(pairs[0][0]), case.quoted(gather.unit)
    where = in_paths(names, len(case.paths))
    yield case.finding(
        "default-off",
        "backward",
        pairs,
        f"the backward edge {case.arrow(pairs[0])} starts nothing, but turns FSDP2's own backward "
        f"prefetch of {missed} off{where}{also(pairs)}",
        paths=names,
        event=case.shown(step, gather.issued),
        cost=f"{missed} is gathered only when it is needed: {amount(case.size(gather.unit))} that "
        "nothing overlaps",
        instead=f"point {at} to {missed}, or give it no backward edge",
    )


def _without_effect(case: Case, settled: Settled) -> Iterator[Finding]:
    """Yield a direction of which no edge ever starts an all-gather."""
    steps = [path.hooked for path in case.paths if path.hooked is not None]
    if not steps:
        return
    for direction in _DIRECTIONS:
        pairs = [pair for pair in case.pairs(direction) if pair not in settled[direction]]
        if not pairs or any(
            g.edge is not None and g.edge[2] == direction for step in steps for g in step.gathers
        ):
            continue
        settled[direction].update(pairs)
        targets = [case.recording.units[target] for _, target in pairs]
        kept = all(unit.reshard_after_forward is False for unit in targets)
        why = (
            "its target keeps its full parameters after forward (reshard_after_forward=False)"
            if kept and direction == "backward"
            else "its target was there each time that the edge fired"
        )
        yield case.finding(
            "no-effect",
            direction,
            pairs,
            f"the {direction} edge {case.arrow(pairs[0])} never starts an all-gather: "
            f"{why}{also(pairs)}",
            cost="nothing is prefetched; the edges are untested code",
            instead="probe a config in which units reshard after forward, or take the edges out"
            if kept
            else "take the edges out, or point them to units that are still sharded then",
            unknown=kept,
        )
