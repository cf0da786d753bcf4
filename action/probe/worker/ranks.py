"""Two ranks with real values and real collectives: processes of their own that talk over gloo.

Either both run every path, and what they did is compared; or each runs one step of a path of its
own (`mix`), which shows what ranks that part do to each other.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import FileStore

from .answers import ForgedError, read_answer, write_answer

RANKS = 2
_PATIENCE = timedelta(seconds=20)
"""How long a rank waits for the others in a collective before it counts as hung."""
_GAVE_UP = "Timed out waiting"
TOGETHER = "ran together"
"""Outcome of a job with `mix`: there is no recording, only how each rank ended."""

Job = Mapping[str, Any]


def run_together(job: Job, observed: Callable[[Job], dict[str, Any]]) -> dict[str, Any]:
    """Let `observed` work on a job in each rank, and return one answer for all of them."""
    result = str(job["result"])
    store = result + ".store"
    Path(store).unlink(missing_ok=True)
    jobs = [
        {**job, "rank": rank, "store": store, "result": f"{result}.rank{rank}"}
        for rank in range(RANKS)
    ]
    jobs[0]["at"] = result + ".at"
    sys.stdout.flush()
    sys.stderr.flush()
    children = [_start(one, observed) for one in jobs]
    statuses = [os.waitpid(child, 0)[1] for child in children]
    answers = [_answer(one, status) for one, status in zip(jobs, statuses, strict=True)]
    return _mixed(job, answers) if job.get("mix") else _same(answers)


def _start(job: Job, observed: Callable[[Job], dict[str, Any]]) -> int:
    child = os.fork()
    if child != 0:
        return child
    code = 1
    try:
        answer = observed(job)
        write_answer(Path(job["result"]), answer)
        if _ended_well(answer):
            # A rank that exits early would break the connection under one that still reads.
            dist.barrier()
        sys.stdout.flush()
        sys.stderr.flush()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _ended_well(answer: Mapping[str, Any]) -> bool:
    if answer["outcome"] == TOGETHER:
        return bool(answer["end"]["how"] == "ended")
    passes = [one for path in answer.get("paths", ()) for one in path["passes"]]
    return answer["outcome"] == "observed" and all(one["error"] is None for one in passes)


def _answer(job: Job, status: int) -> dict[str, Any]:
    found = None
    with suppress(ForgedError):
        found = read_answer(Path(job["result"])) if status == 0 else None
    if found is not None:
        return found
    if os.WIFSIGNALED(status):
        how = f"was killed by {signal.Signals(os.WTERMSIG(status)).name}"
    else:
        how = f"exited with code {os.WEXITSTATUS(status)}"
    return {"outcome": "crashed", "sentence": f"rank {job['rank']} {how}", "how": how}


def _mixed(job: Job, answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how each rank ended its own path, or why one never came to run it."""
    for answer in answers:
        if answer["outcome"] != TOGETHER and "how" not in answer:
            return answer
    ends = [
        {"path": path, **(answer.get("end") or {"how": "killed", "message": answer["how"]})}
        for path, answer in zip(job["mix"], answers, strict=True)
    ]
    return {"outcome": TOGETHER, "rank_run": {"paths": list(job["mix"]), "ranks": ends}}


def _same(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the first rank's answer, with the paths in which another did something else."""
    stopped = next((one for one in answers if one["outcome"] != "observed"), None)
    if stopped is not None:
        return stopped
    first, other = answers
    runs = []
    for path, again in zip(first["paths"], other["paths"], strict=True):
        parted = next(filter(None, map(_first_difference, path["passes"], again["passes"])), None)
        if parted is not None:
            ends = [{"path": p["name"], **_end_of_path(p)} for p in (path, again)]
            runs.append({"paths": [path["name"]] * RANKS, "ranks": ends, **parted})
    return {**first, "rank_runs": runs}


def _first_difference(here: Mapping[str, Any], there: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return where the collectives of a pass part on two ranks: the number, kinds and units."""
    pairs = zip_longest(_collectives(here), _collectives(there))
    for number, (one, other) in enumerate(pairs, start=1):
        if one != other:
            return {"edges": here["edges"], "collective": number, "issued": [one, other]}
    return None


def _collectives(one: Mapping[str, Any]) -> list[list[Any]]:
    return [list(event[:2]) for event in one["events"] if event[0] in ("gather", "reduce")]


def _end_of_path(path: Mapping[str, Any]) -> dict[str, Any]:
    failed = [one for one in path["passes"] if one["error"] is not None]
    return end_of((failed or path["passes"])[0], None)


def end_of(one: Mapping[str, Any], unit: str | None) -> dict[str, Any]:
    """Return how a rank's pass ended; `unit` is the last one that it was heard of in."""
    error = one["error"]
    if error is None:
        return {"how": "ended"}
    hung = _GAVE_UP in str(error["message"])
    return {
        "how": "hung" if hung else "raised",
        "message": "" if hung else str(error["message"]),
        "unit": unit,
        "phase": "backward" if ["loss"] in one["events"] else "forward",
    }


def last_unit(events: Sequence[Sequence[Any]]) -> int | None:
    """Return the unit that the last event of a pass is about."""
    units = [event[1] for event in events if len(event) > 1 and event[1] >= 0]
    return units[-1] if units else None


def start_gloo_rank(job: Job) -> None:
    """Make this process one of the ranks, until it exits."""
    # Ranks of one machine; the name of a container's host may not resolve.
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = FileStore(str(job["store"]), RANKS)
    dist.init_process_group(
        "gloo", store=store, rank=int(job["rank"]), world_size=RANKS, timeout=_PATIENCE
    )
