"""What happened to whole passes: an error that only the edges bring, paths that part, one rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from action.probe.gathers import Step
from action.probe.judge.case import ITEM, Case, PathCase
from action.probe.recording import Direction, Pass
from action.records import Finding, Location


def find(case: Case) -> Iterator[Finding]:
    """Yield the findings that are about paths as a whole."""
    for path in case.paths:
        yield from _raises(case, path)
    yield from _parting(case)
    yield from _one_rank(case)


def _raises(case: Case, path: PathCase) -> Iterator[Finding]:
    for one in path.passes:
        fine = [p for p in path.passes if p.edges == "none" and p.kind == one.kind and not p.error]
        if one.error is None or one.edges == "none" or not fine:
            continue
        direction = _phase(one)
        what = "evaluation" if one.kind == "eval" else "step"
        place = one.error.place
        yield Finding(
            rule="raises",
            item=ITEM[direction],
            verdict="fail",
            summary=f"with the hook's edges, path `{path.name}` raises in {direction}; without "
            "them it does not",
            paths=(path.name,),
            event=one.error.message,
            cost=f"no {what} of this path can be run",
            instead="take out the edges of the unit that ran last"
            + (f", {case.quoted(last)}" if (last := _last(one)) is not None else ""),
            location=None if place is None else Location(path=place[0], line=place[1]),
        )
        return


def _phase(one: Pass) -> Direction:
    return "backward" if any(event.kind == "loss" for event in one.events) else "forward"


def _last(one: Pass) -> int | None:
    return Step(one).running(len(one.events) - 1) if one.events else None


def _parting(case: Case) -> Iterator[Finding]:
    """Compare the collectives of paths that ranks may run in one step, declared or possible."""
    known = {path.name: path for path in case.paths if path.hooked is not None}
    declared = case.recording.mixed_paths
    groups: Sequence[Sequence[str]] = [list(known)] if declared is None else declared
    for group in groups:
        names = [name for name in group if name in known]
        for name in names[1:]:
            first, other = known[names[0]], known[name]
            parted = _first_difference(case, first, other)
            if parted is None:
                continue
            twin = _first_difference(case, first, other, twin=True)
            usual = "" if twin is None else ", with or without the hook"
            if declared is None:
                yield Finding(
                    rule="paths-differ",
                    item="forward-edges",
                    verdict="unknown",
                    summary=f"paths `{names[0]}` and `{name}` issue different collectives{usual}; "
                    "`probe.py` does not say whether ranks may run both in one step",
                    paths=(names[0], name),
                    event=parted,
                    cost="if ranks do, they wait for each other for ever",
                    instead="return `mixed_paths` from `build`: the groups of paths that ranks may "
                    "run in one step, `[]` when all ranks always run the same",
                )
                return
            yield Finding(
                rule="rank-divergence",
                item="forward-edges",
                verdict="fail",
                summary=f"ranks that run `{names[0]}` and `{name}` in one step issue different "
                f"collectives{usual}",
                paths=(names[0], name),
                event=parted,
                cost="all-gathers of different units are matched with each other: wrong "
                "parameters, then a hang of every rank",
                instead="run every unit on every rank, with dummy inputs where a rank has none, "
                "and set the same edges in all paths",
            )


def _first_difference(
    case: Case, first: PathCase, other: PathCase, *, twin: bool = False
) -> str | None:
    steps = [path.twin if twin else path.hooked for path in (first, other)]
    if steps[0] is None or steps[1] is None:
        return None
    here, there = (step.traffic() for step in steps if step is not None)
    for index in range(max(len(here), len(there))):
        pair = [t[index] if index < len(t) else None for t in (here, there)]
        if pair[0] != pair[1]:
            said = [
                "nothing more" if one is None else f"{one[0]} {case.name(one[1])}" for one in pair
            ]
            return (
                f"collective {index + 1}: {said[0]} in `{first.name}`, {said[1]} in `{other.name}`"
            )
    return None


def _one_rank(case: Case) -> Iterator[Finding]:
    recording = case.recording
    if recording.configured_mesh is None or recording.shard != 1:
        return
    for direction, item in ITEM.items():
        if case.pairs(direction):
            yield Finding(
                rule="not-sharded",
                item=item,
                verdict="unknown",
                summary=f"the config shards over one rank, so that {direction} edges do nothing",
                cost="order and targets were seen, but no parameter is ever gathered",
                instead="probe a config whose shard axis is larger than 1",
            )
