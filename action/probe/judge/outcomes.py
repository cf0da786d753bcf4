"""What happened to whole passes: an error that only the edges bring, paths that part, one rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from action.probe.gathers import Step
from action.probe.judge.case import ITEM, Case, PathCase
from action.probe.recording import Direction, Pass, RankEnd, RankRun
from action.records import Finding, Location


def find(case: Case) -> Iterator[Finding]:
    """Yield the findings that are about paths as a whole."""
    for path in case.paths:
        yield from _raises(case, path)
    yield from _parting(case)
    yield from _same_path(case)
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


def parted_paths(case: Case) -> list[tuple[str, str]]:
    """Return pairs of paths that ranks run in one step, as declared, and that part on the way."""
    groups = case.recording.mixed_paths or ()
    return [(a.name, b.name) for a, b in _pairs(case, groups) if _first_difference(case, a, b)]


def _pairs(case: Case, groups: Sequence[Sequence[str]]) -> Iterator[tuple[PathCase, PathCase]]:
    known = {path.name: path for path in case.paths if path.hooked is not None}
    for group in groups:
        paths = [known[name] for name in group if name in known]
        yield from ((paths[0], other) for other in paths[1:])


def _parting(case: Case) -> Iterator[Finding]:
    """Compare the collectives of paths that ranks may run in one step, declared or possible."""
    declared = case.recording.mixed_paths
    groups = [[path.name for path in case.paths]] if declared is None else declared
    for first, other in _pairs(case, groups):
        parted = _first_difference(case, first, other)
        if parted is None:
            continue
        twin = _first_difference(case, first, other, twin=True)
        usual = "" if twin is None else ", with or without the hook"
        names = (first.name, other.name)
        if declared is None:
            yield Finding(
                rule="paths-differ",
                item="forward-edges",
                verdict="unknown",
                summary=f"paths `{names[0]}` and `{names[1]}` issue different collectives{usual}; "
                "`probe.py` does not say whether ranks may run both in one step",
                paths=names,
                event=parted,
                cost="if ranks do, they wait for each other for ever",
                instead="return `mixed_paths` from `build`: the groups of paths that ranks may "
                "run in one step, `[]` when all ranks always run the same",
            )
            return
        ran = next((run for run in case.recording.rank_runs if run.paths == names), None)
        yield Finding(
            rule="rank-divergence",
            item="forward-edges",
            verdict="fail",
            summary=f"ranks that run `{names[0]}` and `{names[1]}` in one step issue different "
            f"collectives{usual}",
            paths=names,
            event=parted if ran is None else f"{parted}; {_told(ran)}",
            cost="all-gathers of different units are matched with each other: wrong "
            "parameters, then a hang of every rank",
            instead="run every unit on every rank, with dummy inputs where a rank has none, "
            "and set the same edges in all paths",
        )


def _same_path(case: Case) -> Iterator[Finding]:
    """Yield a finding for each path on which two real ranks did not do the same."""
    for run in case.recording.rank_runs:
        if len(set(run.paths)) == 1:
            name = run.paths[0]
            yield Finding(
                rule="rank-divergence",
                item="forward-edges",
                verdict="fail",
                summary=f"two ranks that both run `{name}` issue different collectives"
                + (", with or without the hook" if run.edges == "none" else ""),
                paths=(name,),
                event=f"{_apart(case, run)}; {_told(run)}",
                cost="all-gathers of different units are matched with each other: wrong "
                "parameters, then a hang of every rank",
                instead="let neither the model nor the hook depend on the rank",
            )


def _apart(case: Case, run: RankRun) -> str:
    said = [f"{_issued(case, one)} on rank {rank}" for rank, one in enumerate(run.issued)]
    return f"collective {run.collective}: {', '.join(said)}"


def _issued(case: Case, one: tuple[str, int] | None) -> str:
    return "nothing more" if one is None else f"{one[0]} {case.name(one[1])}"


def _told(run: RankRun) -> str:
    """Return what two real ranks came to, as a sentence without its full stop."""
    if run.problem is not None:
        return f"not tried on two real ranks: {run.problem}"
    if all(end.how == "ended" for end in run.ranks):
        return "two real ranks ended the step, on whatever parameters they got"
    ends = [_end(rank, end) for rank, end in enumerate(run.ranks)]
    return f"tried on two real ranks: {', '.join(ends)}"


def _end(rank: int, end: RankEnd) -> str:
    where = "" if end.unit is None else f" in `{end.unit}` in {end.phase}"
    what = {
        "ended": "ended, on whatever parameters it got",
        "hung": f"hung{where}",
        "raised": f"raised {end.message}{where}",
        "killed": end.message,
    }[end.how]
    return f"rank {rank} (`{end.path}`) {what}"


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
            said = [_issued(case, one) for one in pair]
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
