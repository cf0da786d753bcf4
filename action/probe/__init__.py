"""The probe: what FSDP2 really does with a recipe's hook, seen on a CPU.

A worker in the recipe's own interpreter builds the model, runs it with and without the hook's
edges, and records every all-gather; the rules of `judge` hold that against FSDP2's semantics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from action.probe.judge import parted_paths
from action.probe.judge.case import Case
from action.probe.observation import change_of, observation_of
from action.probe.recording import Answer, RankRun
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
    after = _confirmed(requests, after, limits, around)
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


def _confirmed(
    requests: Sequence[Request],
    answers: Sequence[Answer | None],
    limits: Limits,
    around: Surroundings,
) -> list[Answer | None]:
    """Let two real ranks run each pair of paths that part, to see what becomes of them."""
    pairs = [
        (number, pair)
        for number, answer in enumerate(answers)
        if answer is not None and answer.recording is not None
        for pair in parted_paths(Case(answer.recording))
    ]
    tries = [replace(requests[number], mode="ranks", mix=pair) for number, pair in pairs]
    ran = run_worker(tries, limits, around) if tries else []
    runs: dict[int, list[RankRun]] = {}
    for (number, pair), answer in zip(pairs, ran, strict=True):
        run = answer.rank_run or RankRun(paths=pair, problem=answer.sentence)
        runs.setdefault(number, []).append(run)
    return [
        answer.with_rank_runs(runs[number]) if answer is not None and number in runs else answer
        for number, answer in enumerate(answers)
    ]


def _observation(answer: Answer | None) -> Observation:
    if answer is None:
        return Observation(outcome="no probe", summary=f"the recipe has no `{PROBE}`")
    return observation_of(answer)


def observe_and_draw(
    request: Request,
    limits: Limits,
    around: Surroundings,
    base: tuple[str, Request] | None = None,
    *,
    draw: bool,
) -> tuple[Observation, str | None]:
    """Return what was seen of one request, and the first path's step as an HTML page.

    The page is None when it is not wanted, or nothing was seen. `base` and errors as in `observe`.
    """
    older = () if base is None else (base[1],)
    answer, *before = _answers([request, *older], limits, around)
    (answer,) = _confirmed([request], [answer], limits, around)
    recording = None if answer is None else answer.recording
    page = timeline(recording, recording.paths[0].name) if draw and recording else None
    observation = _observation(answer)
    if base is not None:
        change = change_of(base[0], before[0], answer)
        observation = observation.model_copy(update={"change": change})
    return observation, page
