"""A recording as the report has it: units, edges as runs, traffic by path, findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from action.probe.gathers import Step
from action.probe.judge import judge
from action.probe.judge.case import Case, PathCase
from action.probe.nesting import lookahead
from action.probe.recording import Answer, Direction, Recording
from action.probe.runs import runs
from action.processes.text import first_line
from action.records import (
    Change,
    Edge,
    Finding,
    Observation,
    ObservedPath,
    ObservedUnit,
    Traffic,
)

_OUTCOMES = get_args(Observation.model_fields["outcome"].annotation)
_LONGEST_NAME = 300


def observation_of(answer: Answer) -> Observation:
    """Return what the report says of a worker's answer."""
    if answer.recording is None:
        return _nothing_seen(answer)
    return _seen(answer.recording, answer)


def _nothing_seen(answer: Answer) -> Observation:
    outcome = answer.outcome if answer.outcome in _OUTCOMES else "cannot build"
    where = "" if answer.place is None else f" ({_plain(answer.place[0])}:{answer.place[1]})"
    tried = ""
    if answer.fake_stop is not None and answer.outcome != "observed":
        tried = f"; fake tensors stopped at: {first_line(answer.fake_stop.message)}"
        if first_line(answer.fake_stop.message) in answer.sentence:
            tried = ""
    return Observation.model_validate(
        {
            "outcome": outcome,
            "summary": f"{answer.sentence}{where}{tried}",
            "tail": answer.tail or answer.output,
        }
    )


def _seen(recording: Recording, answer: Answer) -> Observation:
    case = Case(recording)
    findings = tuple(_cleaned(finding) for finding in judge(recording))
    paths = tuple(_path(case, path) for path in case.paths)
    problems = [path for path in paths if path.problem is not None and path.with_hook is None]
    called = any(call.in_hook for call in recording.calls)
    again = recording.second_call
    return Observation(
        outcome="observed",
        summary=_summary(case, findings, len(problems)),
        mode=recording.mode,
        why_not_fake=_why_not_fake(recording),
        torch=_plain(recording.torch),
        mesh=", ".join(f"{_plain(name)} {size}" for name, size in recording.mesh.items()),
        shard=recording.shard,
        config=None if recording.config is None else _plain(recording.config),
        top_class=_plain(recording.top_class),
        hook_called=called,
        second_call_sets=again is not None and bool(again.calls),
        units=tuple(_units(case)),
        forward=_runs(case, "forward"),
        backward=_runs(case, "backward"),
        forward_edges=len(case.pairs("forward")),
        backward_edges=len(case.pairs("backward")),
        lookahead=(_reach(case, "forward"), _reach(case, "backward")),
        lookahead_reason=None if recording.hook.doc is None else first_line(recording.hook.doc),
        paths=paths,
        findings=findings,
        tail=answer.output if problems else "",
        seconds=round(recording.seconds, 1),
        peak_memory=recording.peak_rss,
    )


def change_of(commit: str, before: Answer | None, after: Answer | None) -> Change | None:
    """Return what a change did to a recipe's edges and paths; None when nothing is seen now."""
    if after is None or after.recording is None:
        return None
    if before is None:
        return Change(base=commit, problem="the recipe had no probe file there")
    if before.recording is None:
        return Change(base=commit, problem=_nothing_seen(before).summary)
    old, new = edges_of(before.recording), edges_of(after.recording)
    case = Case(before.recording)
    return Change(
        base=commit,
        added=tuple(edge for edge in new if edge not in set(old)),
        removed=tuple(edge for edge in old if edge not in set(new)),
        before=tuple(_path(case, path) for path in case.paths),
    )


def edges_of(recording: Recording) -> tuple[Edge, ...]:
    """Return every edge of a recording, forward ones first."""
    case = Case(recording)
    directions: tuple[Direction, ...] = ("forward", "backward")
    return tuple(_cleaned_edge(case.edge(pair, d)) for d in directions for pair in case.pairs(d))


def _summary(case: Case, findings: Sequence[Finding], problems: int) -> str:
    units = sum(not unit.outside for unit in case.recording.units)
    edges = sum(len(case.pairs(d)) for d in ("forward", "backward"))
    parts = [f"{units} units", f"{edges} edges", f"{len(case.paths)} training path"]
    parts[-1] += "s" * (len(case.paths) > 1)
    failed = sum(finding.verdict == "fail" for finding in findings)
    text = f"{', '.join(parts)}; {failed or 'no'} finding{'' if failed == 1 else 's'}"
    if problems:
        text += f"; {problems} path{'s' * (problems > 1)} could not be run"
    return text


def _why_not_fake(recording: Recording) -> str | None:
    stop = recording.fake_stop
    if stop is None:
        return None
    where = "" if stop.place is None else f" at {_plain(stop.place[0])}:{stop.place[1]}"
    what = f"`{_plain(stop.operator)}`" if stop.operator else first_line(stop.message)
    return f"fake tensors cannot run {what}{where}" if stop.operator else f"{what}{where}"


def _units(case: Case) -> list[ObservedUnit]:
    first = next((path.hooked or path.twin for path in case.paths), None)
    order: dict[int, int] = {}
    if first is not None:
        for place, (_, unit) in enumerate(first.order("forward")):
            order.setdefault(unit, place)
    units = [
        ObservedUnit(
            name=_plain(case.name(number)),
            class_name=_plain(" + ".join(dict.fromkeys(unit.classes))),
            parameters=unit.parameters,
            bytes=case.size(number),
            dtypes=tuple(_plain(dtype) for dtype in unit.dtypes),
            empty=unit.empty,
            frozen=unit.tensors > 0 and unit.trainable == 0,
            order=order.get(number),
        )
        for number, unit in enumerate(case.recording.units)
        if not unit.outside
    ]
    last = len(order) + len(units)
    return sorted(units, key=lambda unit: last if unit.order is None else unit.order)


def _runs(case: Case, direction: Direction) -> tuple[str, ...]:
    recording = case.recording
    names = [_plain(recording.name(number)) for number in range(len(recording.units))]
    first = next((path.hooked for path in case.paths if path.hooked is not None), None)
    lists = case.lists(direction)
    if first is not None:
        place = {u: i for i, (_, u) in reversed(list(enumerate(first.order(direction))))}
        lists = dict(sorted(lists.items(), key=lambda entry: place.get(entry[0], len(place))))
    return runs(lists, names)


def _reach(case: Case, direction: Direction) -> int:
    return max(
        (
            lookahead(case.recording, path.hooked, pair, direction)
            for path in case.paths
            if path.hooked is not None
            for pair in case.pairs(direction)
        ),
        default=0,
    )


def _path(case: Case, path: PathCase) -> ObservedPath:
    errors = [one for one in path.passes if one.error is not None]
    problem = None
    if errors:
        one, error = errors[0], errors[0].error
        assert error is not None
        doing = "its evaluation" if one.kind == "eval" else "its step"
        place = "" if error.place is None else f" ({_plain(error.place[0])}:{error.place[1]})"
        message = first_line(error.message)
        problem = message if error.ours else f"{doing} raised {message}{place}"
    evaluated = path.evaluated
    stale = evaluated.recorded.pending if evaluated is not None else ()
    return ObservedPath(
        name=_plain(path.name),
        with_hook=None if path.hooked is None else _traffic(case, path.hooked, stale),
        without=None if path.twin is None else _traffic(case, path.twin, ()),
        problem=problem,
    )


def _traffic(case: Case, step: Step, stale: Sequence[int]) -> Traffic:
    peak, at = step.peak(case.sizes)
    running = step.running(at)
    phases = [gather.phase for gather in step.gathers]
    return Traffic(
        forward=phases.count("forward"),
        backward=phases.count("backward"),
        unused=sum(step.unused.values()),
        repeated=sum(_beyond_two(step)),
        inversions=len(step.inversions),
        peak_bytes=peak,
        peak_at=f"{'start' if running is None else _plain(case.name(running))}, {step.phase(at)}",
        stale=tuple(_plain(case.name(unit)) for unit in stale),
    )


def _beyond_two(step: Step) -> list[int]:
    per_phase: dict[tuple[int, str], int] = {}
    for gather in step.gathers:
        key = (gather.unit, gather.phase)
        per_phase[key] = per_phase.get(key, 0) + 1
    return [count - 1 for count in per_phase.values()]


def _cleaned(finding: Finding) -> Finding:
    location = finding.location
    if location is not None:
        location = location.model_copy(update={"path": _plain(location.path)})
    texts: dict[str, Any] = {
        name: first_line(getattr(finding, name), length=1_000)
        for name in ("summary", "event", "cost", "instead")
    }
    return finding.model_copy(
        update={
            **texts,
            "edges": tuple(_cleaned_edge(edge) for edge in finding.edges),
            "paths": tuple(_plain(path) for path in finding.paths),
            "location": location,
        }
    )


def _cleaned_edge(edge: Edge) -> Edge:
    return edge.model_copy(update={"source": _plain(edge.source), "target": _plain(edge.target)})


def _plain(text: str) -> str:
    return first_line(text, length=_LONGEST_NAME)
