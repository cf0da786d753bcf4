"""The probe: what FSDP2 really does with a recipe's hook, seen on a CPU.

A worker in the recipe's own interpreter builds the model, runs it with and without the hook's
edges, and records every all-gather; the rules of `judge` hold that against FSDP2's semantics.
"""

from __future__ import annotations

from collections.abc import Sequence

from action.probe.observation import change_of, observation_of
from action.probe.recording import Answer
from action.probe.session import PROBE, Limits, Request, Surroundings, run_worker
from action.probe.timeline import timeline
from action.records import Observation

__all__ = ["PROBE", "Limits", "Request", "Surroundings", "observe", "observe_and_draw"]


def observe(
    requests: Sequence[Request],
    limits: Limits,
    around: Surroundings,
    base: tuple[str, Sequence[Request]] | None = None,
) -> list[Observation]:
    """Return what was seen of each request, in their order; never raises for a recipe's sake.

    `base` is a commit and the same recipes in its checkout: each observation then says what the
    change did to edges and traffic.

    Raises:
        KeyboardInterrupt: the run was cancelled; no process is left.
        OSError: there is no place for temporary files.
    """
    older = () if base is None else base[1]
    answers = _answers([*requests, *older], limits, around)
    after, before = answers[: len(requests)], answers[len(requests) :]
    if base is None:
        return [_observation(answer) for answer in after]
    return [
        _observation(new).model_copy(update={"change": change_of(base[0], old, new)})
        for old, new in zip(before, after, strict=True)
    ]


def _answers(
    requests: Sequence[Request], limits: Limits, around: Surroundings
) -> list[Answer | None]:
    """Return an answer for each request, None where there is no probe file."""
    present = [number for number, request in enumerate(requests) if request.probe.is_file()]
    found = run_worker([requests[n] for n in present], limits, around) if present else []
    answers = dict(zip(present, found, strict=True))
    return [answers.get(number) for number in range(len(requests))]


def _observation(answer: Answer | None) -> Observation:
    if answer is None:
        return Observation(outcome="no probe", summary=f"the recipe has no `{PROBE}`")
    return observation_of(answer)


def observe_and_draw(
    request: Request, limits: Limits, around: Surroundings, *, draw: bool
) -> tuple[Observation, str | None]:
    """Return what was seen of one request, and the first path's step as an HTML page.

    The page is None when it is not wanted, or nothing was seen. Raises as `observe` does.
    """
    (answer,) = _answers([request], limits, around)
    recording = None if answer is None else answer.recording
    page = timeline(recording, recording.paths[0].name) if draw and recording else None
    return _observation(answer), page
