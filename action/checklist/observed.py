"""What the probe saw, put to the verdict that the source alone allows.

A failure stays one whoever found it. What the source leaves open is settled by what was seen, and
by nothing else: a probe that could not look settles nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from action.checklist.context import at, result
from action.records import CheckId, CheckResult, Evidence, Finding, Observation

_EDGES: dict[CheckId, str] = {"forward-edges": "forward", "backward-edges": "backward"}
_DECIDED: tuple[CheckId, ...] = ("hook-bound", "wrap-targets", "idempotent", *_EDGES)


def decide(static: CheckResult, observation: Observation | None) -> CheckResult:
    """Return the verdict on an item from the source's and from what the probe saw."""
    if observation is None or static.id not in _DECIDED:
        return static
    if observation.outcome != "observed":
        return _unobserved(static, observation)
    findings = [finding for finding in observation.findings if finding.item == static.id]
    failing = [finding for finding in findings if finding.verdict == "fail"]
    if static.verdict == "fail":
        evidence = [*static.evidence, *_evidence(findings)]
        return static.model_copy(update={"evidence": tuple(evidence)})
    if failing:
        return result(
            static.id, "fail", _headline(failing), _evidence([*failing, *findings]), by="probe"
        )
    doubts = _doubts(static, observation)
    if findings or doubts:
        summary = findings[0].summary if findings else doubts[0].text
        return result(static.id, "unknown", summary, [*_evidence(findings), *doubts], by="probe")
    return _confirmed(static, observation)


def _unobserved(static: CheckResult, observation: Observation) -> CheckResult:
    if static.verdict != "unknown":
        return static
    # The order of execution is nothing that the source could have told.
    summary = (
        f"not observed: {observation.summary}"
        if static.id in _EDGES
        else f"{static.summary}; nor was it observed: {observation.summary}"
    )
    return static.model_copy(update={"summary": summary})


def _headline(findings: Sequence[Finding]) -> str:
    more = len(findings) - 1
    rest = f"; and {more} more finding{'s' if more > 1 else ''}" if more else ""
    return f"{findings[0].summary}{rest}"


def _evidence(findings: Sequence[Finding]) -> list[Evidence]:
    return [at(described(finding), finding.location) for finding in dict.fromkeys(findings)]


def described(finding: Finding) -> str:
    """Return a finding as one line: what happens, what shows it, what it costs, what to do."""
    parts = [finding.summary]
    if finding.event:
        parts.append(f"seen: `{finding.event.replace('`', chr(39))}`")
    if finding.cost:
        parts.append(f"cost: {finding.cost}")
    if finding.instead:
        parts.append(f"instead: {finding.instead}")
    return ". ".join(part[0].upper() + part[1:] for part in parts)


def _doubts(static: CheckResult, observation: Observation) -> list[Evidence]:
    if static.verdict == "not applicable":
        return []
    top = (observation.top_class or "").rpartition(".")[2]
    if static.id in _EDGES:
        any_edge = observation.forward_edges + observation.backward_edges
        if not observation.hook_called and not any_edge:
            why = f"no hook was called on the `{top}` that `probe.py` builds: no edge was seen"
            return [at(why, None)]
        return [
            at(f"path `{path.name}` could not be run: {path.problem}", None)
            for path in observation.paths
            if path.problem is not None and path.with_hook is None
        ]
    if static.id == "hook-bound" and not observation.hook_called:
        return [at(f"`probe.py` builds a `{top}`, on which no hook was called", None)]
    return []


def _confirmed(static: CheckResult, observation: Observation) -> CheckResult:
    match static.id:
        case "hook-bound":
            return _hook_called(static, observation)
        case "wrap-targets":
            return _wrapped(static, observation)
        case "idempotent":
            return _called_twice(static, observation)
        case "forward-edges":
            return _edges(static, observation, observation.forward_edges, 0)
        case _:
            return _edges(static, observation, observation.backward_edges, 1)


def _hook_called(static: CheckResult, observation: Observation) -> CheckResult:
    if static.verdict == "not applicable":
        return static
    top = (observation.top_class or "").rpartition(".")[2]
    summary = f"the runtime found the hook on the wrapped `{top}` and called it"
    return result("hook-bound", "pass", summary, static.evidence, by="probe")


def _wrapped(static: CheckResult, observation: Observation) -> CheckResult:
    counts: dict[str, int] = {}
    for unit in observation.units:
        counts[unit.class_name] = counts.get(unit.class_name, 0) + 1
    listed = ", ".join(f"{count} `{name}`" for name, count in list(counts.items())[:6])
    more = f" and {len(counts) - 6} more classes" if len(counts) > 6 else ""
    summary = f"seen as units: {listed}{more}; none is empty, no named class was left out"
    return result("wrap-targets", "pass", summary, static.evidence, by="probe")


def _called_twice(static: CheckResult, observation: Observation) -> CheckResult:
    if static.verdict == "not applicable" or not observation.hook_called:
        return static
    did = "set the same edges again" if observation.second_call_sets else "set nothing"
    summary = f"a second call {did}; every list kept its units, by identity"
    return result("idempotent", "pass", summary, static.evidence, by="probe")


def _edges(
    static: CheckResult, observation: Observation, count: int, direction: int
) -> CheckResult:
    name = _EDGES[static.id]
    if count == 0:
        if static.verdict == "not applicable":
            return static
        summary = f"no {name} edge is set on the wrapped model"
        return result(static.id, "not applicable", summary, static.evidence, by="probe")
    paths = ", ".join(f"`{path.name}`" for path in observation.paths)
    ahead = observation.lookahead[direction]
    reach = f"at most {ahead} unit{'s' if ahead > 1 else ''} ahead"
    reason = observation.lookahead_reason
    if ahead > 2 and reason is not None:
        reach += f", of which the hook says: {reason}"
    summary = (
        f"{count} edge{'s' if count > 1 else ''} seen in {paths}: each target runs after its "
        f"source, {reach}; no all-gather unused, repeated or out of order"
    )
    runs = observation.forward if direction == 0 else observation.backward
    evidence = [at(f"`{run}`", None) for run in runs]
    return result(static.id, "pass", summary, [*evidence, *static.evidence], by="probe")
