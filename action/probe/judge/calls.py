"""Setter calls: lists that a later call replaced, and what a second call of the hook does."""

from __future__ import annotations

from collections.abc import Iterator

from action.probe.judge.case import Case
from action.probe.recording import SetterCall
from action.records import Finding, Location


def find(case: Case) -> Iterator[Finding]:
    """Yield what is wrong with the calls, as findings of `idempotent`."""
    yield from _replaced(case)
    again = case.recording.second_call
    if again is None:
        return
    if again.error is not None:
        place = again.error.place
        yield Finding(
            rule="second-call-raises",
            item="idempotent",
            verdict="fail",
            summary="a second call of the hook raises",
            event=again.error.message,
            cost="whoever shards or loads the model a second time is stopped",
            instead="test a flag on the model first, and return when it is set",
            location=None if place is None else Location(path=place[0], line=place[1]),
        )
    elif again.changed and any(call.in_hook for call in case.recording.calls):
        unit, direction = again.changed[0]
        more = len(again.changed) - 1
        like = f" (and {more} more list{'s' if more > 1 else ''})" if more else ""
        call = next((c for c in again.calls if (c.source, c.direction) == (unit, direction)), None)
        yield Finding(
            rule="second-call-changes",
            item="idempotent",
            verdict="fail",
            summary=f"a second call of the hook changes the {direction} list of "
            f"{case.quoted(unit)}{like}",
            event="" if call is None else _shown(case, call),
            cost="edges depend on how often the hook was called",
            instead="test a flag on the model first, set it last, and let the edges depend on the "
            "model alone",
            location=None if call is None else _location(call),
        )


def _replaced(case: Case) -> Iterator[Finding]:
    replaced = [(call, lost) for call in case.recording.calls if (lost := _lost(case, call))]
    if not replaced:
        return
    first = replaced[0][0]
    more = len({(call.source, call.direction) for call, _ in replaced}) - 1
    like = f" (and {more} more list{'s' if more > 1 else ''})" if more else ""
    grouped = len(case.recording.units[first.source].paths) > 1
    targets = (*first.before, *(t for t in first.targets if t not in first.before))
    wanted = ", ".join(case.quoted(target) for target in targets)
    edges = dict.fromkeys(
        case.edge((call.source, target), call.direction)
        for call, lost in replaced
        for target in lost
    )
    yield Finding(
        rule="list-replaced",
        item="idempotent",
        verdict="fail",
        summary=f"the {first.direction} list of {case.quoted(first.source)} replaces one that was "
        f"set before{like}" + ("; modules wrapped together share one list" if grouped else ""),
        edges=tuple(edges),
        event=_shown(case, first),
        cost="the earlier edges are lost without a word",
        instead=f"set one list with all that is wanted: {wanted}",
        location=_location(first),
    )


def _lost(case: Case, call: SetterCall) -> list[int]:
    """Return what a call took off a list, and no later call put back."""
    kept = (*call.targets, *case.lists(call.direction).get(call.source, ()))
    return [target for target in call.before if target not in kept]


def _shown(case: Case, call: SetterCall) -> str:
    before = ", ".join(case.name(target) for target in call.before) or "nothing"
    after = ", ".join(case.name(target) for target in call.targets) or "nothing"
    return f"{case.name(call.source)}: {before} became {after}"


def _location(call: SetterCall) -> Location | None:
    if call.file is None or call.file.startswith("/"):
        return None
    return Location(path=call.file, line=call.line)
