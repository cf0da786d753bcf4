"""Edges against the order in which the units ran, path by path."""

from __future__ import annotations

from collections.abc import Iterator

from action.probe.gathers import Gather, Step
from action.probe.judge.case import Case, Pair, PathCase, also, in_paths
from action.probe.nesting import contains, lookahead
from action.probe.recording import Direction
from action.records import Finding, Rule

MOST_AHEAD = 2
"""Units that an edge may reach ahead without a reason; the skill asks for a short lookahead."""

_WHAT: dict[Rule, str] = {
    "never-runs": "its target does not run{where}",
    "already-ran": "its target has already run when the edge fires{where}",
    "wrap-around": "it leads from the last unit back to the first, which has already run{where}",
    "shared-unit": "its source runs more than once{where} and the edge fires each time, though its "
    "target does not follow each time",
    "no-backward": "the backward of its target never begins{where}: nothing before it needs a "
    "gradient",
}
_INSTEAD: dict[Rule, str] = {
    "never-runs": "set the edge only to a unit that every training path runs next, or leave the "
    "source without edges",
    "already-ran": "name a unit that runs after the source: {following}",
    "wrap-around": "end the chain at the last unit: set no edge on {source}",
    "shared-unit": "set no edge on a unit that is called more than once; one list cannot describe "
    "several positions",
    "no-backward": "end the backward chain at {source}: set no backward edge on it",
}
_NO_COST = "no all-gather was started, since the target was there; the edge does nothing"


def find(case: Case, direction: Direction, settled: set[Pair]) -> Iterator[Finding]:
    """Yield what is wrong with the edges that `settled` does not hold yet, and add them to it."""
    open_ = [pair for pair in case.pairs(direction) if pair not in settled]
    yield from _unseen(case, direction, open_, settled)
    verdicts: dict[Rule, dict[Pair, list[PathCase]]] = {}
    for pair in open_:
        if pair in settled:
            continue
        for path in case.paths:
            if path.hooked is not None:
                rule = _misplaced(case, path, path.hooked, pair, direction)
                if rule is not None:
                    verdicts.setdefault(rule, {}).setdefault(pair, []).append(path)
                    settled.add(pair)
    for rule, pairs in verdicts.items():
        yield _described(case, direction, rule, pairs)
    yield from _too_far(case, direction, settled)
    yield from _not_nearest_first(case, direction, settled)


def _unseen(
    case: Case, direction: Direction, pairs: list[Pair], settled: set[Pair]
) -> Iterator[Finding]:
    steps = [path.hooked for path in case.paths if path.hooked is not None]
    unseen = [p for p in pairs if steps and not any(p[0] in s.entries[direction] for s in steps)]
    if not unseen:
        return
    settled.update(unseen)
    source = case.quoted(unseen[0][0])
    phase = "runs" if direction == "forward" else "has a backward"
    yield case.finding(
        "source-never-runs",
        direction,
        unseen,
        f"the {direction} edge {case.arrow(unseen[0])} never fires: no training path in which "
        f"{source} {phase} was observed{also(unseen)}",
        cost="nothing is known of the edge; if the source never runs, it does nothing",
        instead="give `probe.py` a path that runs the source, or take the edge out",
        unknown=True,
    )


def _misplaced(
    case: Case, path: PathCase, step: Step, pair: Pair, direction: Direction
) -> Rule | None:
    source, target = pair
    starts, uses = _runs(step, source, direction), _runs(step, target, direction)
    if not starts:
        return None
    if not uses:
        if direction == "backward" and target in step.entries["forward"]:
            return None if _wasted_anyway(path, step, target) else "no-backward"
        return "never-runs"
    if direction == "forward" and uses[-1] < starts[-1] and _leads_back(case, step, pair):
        return "wrap-around"
    if uses[-1] < starts[0]:
        return "already-ran"
    if len(starts) > 1 and _misses_some(step, pair, starts, uses, direction):
        return "shared-unit"
    return None


def _runs(step: Step, unit: int, direction: Direction) -> list[int]:
    """Return where a unit's forwards or backwards begin.

    Only the first backward of a unit has a `turn`; each later one waits for an all-gather anew.
    """
    runs = list(step.entries[direction].get(unit, []))
    if direction == "backward" and runs:
        done = False
        for index in range(runs[0], len(step.events)):
            event = step.events[index]
            if event.unit == unit and event.kind == "done":
                done = True
            elif event.unit == unit and event.kind == "wait" and done:
                runs.append(index)
                done = False
    return runs


def _leads_back(case: Case, step: Step, pair: Pair) -> bool:
    """Tell whether an edge's source is the last unit to run and its target the first.

    What lies within the source may run after it, what the target lies within before it.
    """
    source, target = pair
    starts, uses = step.entries["forward"][source], step.entries["forward"][target]
    order = [(i, u) for i, u in step.order("forward") if u not in case.recording.roots]
    after = {unit for index, unit in order if index > starts[-1]}
    before = {unit for index, unit in order if index < uses[0]}
    return all(contains(case.recording, source, unit) for unit in after) and all(
        contains(case.recording, unit, target) for unit in before
    )


def _wasted_anyway(path: PathCase, step: Step, target: int) -> bool:
    """Tell whether the model without edges throws away as many all-gathers of a unit."""
    return path.twin is not None and path.twin.unused[target] >= max(1, step.unused[target])


def _misses_some(
    step: Step, pair: Pair, starts: list[int], uses: list[int], direction: Direction
) -> bool:
    """Tell whether the source runs again before the all-gather it started was used.

    One that is used soon all the same, and that nothing had to queue for, is early and no more: the
    source runs twice in a row, and keeps its parameters after forward.
    """
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        started = [
            g
            for g in step.gathers
            if g.edge == (*pair, direction) and _fires_at(g, start, following)
        ]
        used = any(start < use and (following is None or use < following) for use in uses)
        if not used and any(not _used_soon(step, gather, direction) for gather in started):
            return True
    return False


def _used_soon(step: Step, gather: Gather, direction: Direction) -> bool:
    if gather.waited is None or gather.wait_phase != direction:
        return False
    entered = [i for i, _ in step.order(direction) if gather.issued < i <= gather.waited]
    queued_for = any(early == gather for _, early in step.inversions)
    return len(entered) <= MOST_AHEAD and not queued_for


def _fires_at(gather: Gather, start: int, following: int | None) -> bool:
    return start < gather.issued and (following is None or gather.issued < following)


def _described(
    case: Case, direction: Direction, rule: Rule, pairs: dict[Pair, list[PathCase]]
) -> Finding:
    listed = list(pairs)
    names = [path.name for paths in pairs.values() for path in paths]
    where = in_paths(names, len(case.paths))
    shown, path, gather = _worst(case, direction, pairs)
    step = path.hooked
    assert step is not None
    if gather is None:
        event, cost = "", _NO_COST
    else:
        event, cost = case.shown(step, gather.issued), _cost(case, step, gather)
    following = _following(case, step, shown[0], direction)
    verb = f"the {direction} edge {case.arrow(shown)} is wrong: {_WHAT[rule].format(where=where)}"
    return case.finding(
        rule,
        direction,
        [shown, *(pair for pair in listed if pair != shown)],
        f"{verb}{also(listed)}",
        paths=names,
        event=event,
        cost=cost + _stale(case, shown, direction),
        instead=_INSTEAD[rule].format(source=case.quoted(shown[0]), following=following),
    )


def _worst(
    case: Case, direction: Direction, pairs: dict[Pair, list[PathCase]]
) -> tuple[Pair, PathCase, Gather | None]:
    """Return the first edge that costs an all-gather, with it; else the first edge."""
    for pair, paths in pairs.items():
        for path in paths:
            for gather in path.hooked.gathers if path.hooked is not None else ():
                late = gather.waited is None or gather.wait_phase != gather.phase
                if gather.edge == (*pair, direction) and late:
                    return pair, path, gather
    pair, paths = next(iter(pairs.items()))
    for gather in paths[0].hooked.gathers if paths[0].hooked is not None else ():
        if gather.edge == (*pair, direction):
            return pair, paths[0], gather
    return pair, paths[0], None


def _cost(case: Case, step: Step, gather: Gather) -> str:
    held = case.held(step, gather)
    if gather.waited is None:
        return f"an all-gather that nobody uses, {held}"
    if gather.wait_phase != gather.phase:
        return f"an all-gather that only {gather.wait_phase} uses, {held}"
    return f"an all-gather, {held}"


def _stale(case: Case, pair: Pair, direction: Direction) -> str:
    """Return what an evaluation leaves behind because of an edge."""
    for path in case.paths:
        step = path.evaluated
        if step is not None and pair[1] in step.recorded.pending:
            fired = [g for g in step.gathers if g.edge == (*pair, direction) and g.waited is None]
            if fired:
                return (
                    "; after an evaluation the all-gather stays pending and the next use of "
                    f"{case.quoted(pair[1])} takes it, stale weights if they changed meanwhile"
                )
    return ""


def _following(case: Case, step: Step, source: int, direction: Direction) -> str:
    starts = step.entries[direction].get(source, [])
    later = [
        unit
        for index, unit in step.order(direction)
        if starts
        and index > starts[-1]
        and not case.recording.units[unit].empty
        and not contains(case.recording, source, unit)
        and not contains(case.recording, unit, source)
    ]
    return case.quoted(later[0]) if later else "there is none, so set no edge"


def _too_far(case: Case, direction: Direction, settled: set[Pair]) -> Iterator[Finding]:
    if case.recording.hook.doc is not None:
        return
    far: dict[Pair, tuple[int, str]] = {}
    for pair in case.pairs(direction):
        if pair in settled:
            continue
        for path in case.paths:
            if path.hooked is None:
                continue
            ahead = lookahead(case.recording, path.hooked, pair, direction)
            if ahead > max(MOST_AHEAD, far.get(pair, (0, ""))[0]):
                far[pair] = ahead, path.name
    if not far:
        return
    pair = max(far, key=lambda pair: far[pair][0])
    ahead, name = far[pair]
    pairs = [pair, *(other for other in far if other != pair)]
    settled.update(pairs)
    step = next(path.hooked for path in case.paths if path.name == name)
    assert step is not None
    fired = [g for g in step.gathers if g.edge == (*pair, direction)]
    yield case.finding(
        "lookahead",
        direction,
        pairs,
        f"the {direction} edge {case.arrow(pair)} reaches {ahead} units ahead{also(pairs)}, more "
        f"than {MOST_AHEAD}, and the hook does not say why",
        paths=[name],
        event=case.shown(step, fired[0].issued) if fired else "",
        cost=case.held(step, fired[0]) if fired else "",
        instead=f"reach at most {MOST_AHEAD} units ahead, or give the reason in the hook's "
        "docstring, in a line with the word lookahead",
    )


def _not_nearest_first(case: Case, direction: Direction, settled: set[Pair]) -> Iterator[Finding]:
    wrong: dict[int, tuple[list[int], PathCase]] = {}
    harmful: list[tuple[int, PathCase, Gather]] = []
    for source, targets in case.lists(direction).items():
        sound = [target for target in targets if (source, target) not in settled]
        for path in case.paths:
            uses = _next_uses(path.hooked, source, sound, direction)
            nearest = [target for target, _ in sorted(uses, key=lambda use: use[1])]
            if path.hooked is None or nearest == [target for target, _ in uses]:
                continue
            wrong.setdefault(source, (nearest, path))
            first = _issued_too_early(path.hooked, source, nearest, direction)
            if first is not None:
                harmful.append((source, path, first))
                break
    # A list in the wrong order costs nothing where all but one of its units are there already.
    if not harmful:
        return
    source, path, gather = harmful[0]
    sources = [source, *(other for other in wrong if other != source)]
    pairs = [(s, t) for s in sources for t in case.lists(direction)[s] if t in wrong[s][0]]
    pairs = list(dict.fromkeys(pair for pair in pairs if pair not in settled))
    settled.update(pairs)
    listed = ", ".join(case.quoted(t) for s, t in pairs if s == source)
    more = len(sources) - 1
    like = f" (and {more} more unit{'s' * (more > 1)} like it)" if more else ""
    assert path.hooked is not None
    yield case.finding(
        "farthest-first",
        direction,
        pairs,
        f"the {direction} list of {case.quoted(source)} is not nearest first: {listed}{like}",
        paths=[path.name, *(p.name for _, p, _ in harmful)],
        event=case.shown(path.hooked, gather.issued),
        cost="all-gathers run in the order of issue, so that the unit needed next waits for one "
        "that is needed later",
        instead=f"list {', '.join(case.quoted(target) for target in wrong[source][0])}",
    )


def _issued_too_early(
    step: Step, source: int, nearest: list[int], direction: Direction
) -> Gather | None:
    """Return an all-gather of a list that another one of it, needed sooner, has to wait for."""
    issued = [g for g in step.gathers if g.edge in {(source, t, direction) for t in nearest}]
    for place, early in enumerate(issued):
        for late in issued[place + 1 :]:
            waits = early.waited is None or early.waited > late.issued
            if waits and nearest.index(late.unit) < nearest.index(early.unit):
                return early
    return None


def _next_uses(
    step: Step | None, source: int, targets: list[int], direction: Direction
) -> list[tuple[int, int]]:
    if step is None:
        return []
    starts = step.entries[direction].get(source, [])
    if not starts:
        return []
    uses = []
    for target in targets:
        later = [i for i in step.entries[direction].get(target, []) if i > starts[0]]
        if later:
            uses.append((target, later[0]))
    return uses
