"""The probe: what FSDP2 really does with a recipe's hook, seen on a CPU.

A worker in the recipe's own interpreter builds the model, runs it with and without the hook's
edges, and records every all-gather; the rules of `judge` hold that against FSDP2's semantics.
"""

from __future__ import annotations

from collections.abc import Sequence

from action.probe.observation import observation_of
from action.probe.session import PROBE, Limits, Request, Surroundings, run_worker
from action.probe.timeline import timeline
from action.records import Observation

__all__ = ["PROBE", "Limits", "Request", "Surroundings", "observe", "observe_and_draw"]


def observe(requests: Sequence[Request], limits: Limits, around: Surroundings) -> list[Observation]:
    """Return what was seen of each request, in their order; never raises for a recipe's sake.

    Raises:
        KeyboardInterrupt: the run was cancelled; no process is left.
        OSError: there is no place for temporary files.
    """
    present = [request for request in requests if request.probe.is_file()]
    answers = iter(run_worker(present, limits, around) if present else ())
    return [
        observation_of(next(answers)) if request in present else _without_probe()
        for request in requests
    ]


def observe_and_draw(
    request: Request, limits: Limits, around: Surroundings, *, draw: bool
) -> tuple[Observation, str | None]:
    """Return what was seen of one request, and the first path's step as an HTML page.

    The page is None when it is not wanted, or nothing was seen. Raises as `observe` does.
    """
    if not request.probe.is_file():
        return _without_probe(), None
    (answer,) = run_worker([request], limits, around)
    recording = answer.recording
    page = timeline(recording, recording.paths[0].name) if draw and recording else None
    return observation_of(answer), page


def _without_probe() -> Observation:
    return Observation(outcome="no probe", summary=f"the recipe has no `{PROBE}`")
