"""A job's answer: its file, and what becomes of it where fake tensors could not go on."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

REAL_AT_MOST = 200_000_000
"""Parameters above which values are not made real without a tiny config."""
_LARGEST = 512 * 2**20
_SOUGHT = (FileNotFoundError, NotADirectoryError)


class ForgedError(Exception):
    """The file of an answer holds something else than the worker writes."""


def write_answer(path: Path, answer: Mapping[str, Any]) -> None:
    """Put an answer in the place of whatever has its name."""
    whole = path.with_name(path.name + ".part")
    whole.unlink(missing_ok=True)
    whole.write_text(json.dumps(answer), encoding="utf-8")
    whole.replace(path)


def read_answer(path: Path) -> dict[str, Any] | None:
    """Return what a child wrote, None where it wrote nothing.

    Raises:
        ForgedError: the recipe's code put something else there.
    """
    try:
        answer = json.loads(read_small(path, _LARGEST))
    except _SOUGHT:
        return None
    except (OSError, ValueError, RecursionError, MemoryError) as trouble:
        raise ForgedError from trouble
    if not isinstance(answer, dict):
        raise ForgedError
    return answer


def read_small(path: Path, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes.

    Raises:
        OSError: it is not there, no regular file (a named pipe would never end), or too large.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_size > limit:
            raise OSError(f"{path} is no regular file of at most {limit} bytes")
        return file.read(limit)


def fake_stop(answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what kept fake tensors from going on; None where nothing did."""
    if answer.get("outcome") in ("cannot build", "needs real"):
        return {
            "message": answer["sentence"],
            "operator": answer.get("operator"),
            "place": answer.get("place"),
        }
    for _, error in _stops(answer):
        return {key: error[key] for key in ("message", "operator", "place")}
    return None


def _stops(answer: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield passes without edges, with the error that a run on real values may not have.

    An evaluation may raise by itself (a path that needs targets); there an operator must tell.
    """
    for path in answer.get("paths", ()):
        for one in path["passes"]:
            error = one["error"]
            if error is None or error["ours"] or one["edges"] != "none":
                continue
            if one["kind"] == "train" or error["operator"] is not None:
                yield one, error


def real_job(job: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the job that tries with real values what fake tensors could not do.

    None where fake tensors could do it, and where the model is too large: without a tiny config,
    `most_parameters` ends the building of a model that turns out to be.
    """
    if job["mode"] != "fake" or job.get("only_fake") or fake_stop(answer) is None:
        return None
    tiny = bool(answer.get("has_tiny"))
    if not tiny and parameters(answer) > REAL_AT_MOST:
        return None
    most = None if tiny else REAL_AT_MOST
    return {**job, "mode": "real", "fake_answer": dict(answer), "most_parameters": most}


def parameters(answer: Mapping[str, Any]) -> int:
    """Return how many parameters the units of an answer have, 0 where none was built."""
    return sum(int(unit.get("parameters", 0)) for unit in answer.get("units", ()))


def not_tried(count: int) -> str:
    """Return why real values were not tried."""
    return (
        f"real values were not tried: the model has {count / 1e6:,.0f} million parameters (at most "
        f"{REAL_AT_MOST / 1e6:.0f} million are made real); `TINY_CONFIG` in probe.py, the path of "
        "a small config, would allow them"
    )


def better(fake: dict[str, Any], real: dict[str, Any]) -> dict[str, Any]:
    """Return the answer that saw more; it says what stopped the other one."""
    stop = fake_stop(fake)
    if real.get("outcome") == "observed" and (
        fake.get("outcome") != "observed" or _failures(real) < _failures(fake)
    ):
        return {**real, "fake_stop": stop}
    if fake.get("outcome") == "needs real":
        return real
    said = real.get("sentence") or (again["message"] if (again := fake_stop(real)) else "")
    if stop is not None and said == stop["message"]:
        return {**fake, "real_failed": said}
    return explained(fake, f"with real values: {said}") | {"real_failed": said}


def _failures(answer: Mapping[str, Any]) -> int:
    return sum(1 for _ in _stops(answer))


def explained(answer: dict[str, Any], why: str) -> dict[str, Any]:
    """Return an answer whose sentences name the operator, and `why` real values did not help."""
    for one, error in _stops(answer):
        doing = "its evaluation" if one["kind"] == "eval" else "its step"
        raised = f"{doing} raised {error['message']}"
        error["message"] = f"{_stopped(error, raised)}; {why}"
        error["ours"] = True
    if answer.get("outcome") == "cannot build":
        begin = "the model cannot be built: "
        text = _stopped(answer, str(answer["sentence"]).removeprefix(begin))
        return {**answer, "sentence": f"{begin}{text}; {why}", "place": None}
    return answer


def _stopped(error: Mapping[str, Any], otherwise: str) -> str:
    operator, place = error.get("operator"), error.get("place")
    where = f" ({place[0]}:{place[1]})" if place else ""
    what = f"fake tensors cannot run `{operator}`" if operator else otherwise
    return f"{what}{where}"
