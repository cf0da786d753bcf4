"""The probe: what FSDP2 really does with a recipe's hook, seen on a CPU.

A worker in the recipe's own interpreter builds the model, runs it with and without the hook's
edges, and records every all-gather; the rules of `judge` hold that against FSDP2's semantics.
"""

from __future__ import annotations

from collections.abc import Sequence

from action.probe.observation import observation_of
from action.probe.session import PROBE, Limits, Request, Surroundings, run_worker
from action.records import Observation

__all__ = ["PROBE", "Limits", "Request", "Surroundings", "observe"]


def observe(requests: Sequence[Request], limits: Limits, around: Surroundings) -> list[Observation]:
    """Return what was seen of each request, in their order; never raises for a recipe's sake.

    Raises:
        KeyboardInterrupt: the run was cancelled; no process is left.
        OSError: there is no place for temporary files.
    """
    found: dict[int, Observation] = {}
    present: list[tuple[int, Request]] = []
    for number, request in enumerate(requests):
        if request.probe.is_file():
            present.append((number, request))
        else:
            found[number] = Observation(outcome="no probe", summary=f"the recipe has no `{PROBE}`")
    if present:
        answers = run_worker([request for _, request in present], limits, around)
        for (number, _), answer in zip(present, answers, strict=True):
            found[number] = observation_of(answer)
    return [found[number] for number in range(len(requests))]
