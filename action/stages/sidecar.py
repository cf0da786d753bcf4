"""What the plugin in the recipe's pytest wrote down while the tests ran."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from action.processes.output import read_regular

_SIDECAR_LIMIT = 32 * 2**20


@dataclass(frozen=True)
class Course:
    """The course of one pytest session.

    `loaded`: pytest itself started; `session`: it read its configuration and the conftest files;
    `collected`: number of tests about to run, None before that; `deselected`: tests that options
    left out. By node id: `reported` have a result, `ended` are through with their teardown,
    `failed` have a failure, `xpassed` passed though expected to fail; collection could not read
    `uncollected` and skipped `skipped_files` as a whole. `running` is the test in flight.
    `finished`: pytest came to its end, with `status`.
    """

    loaded: bool = False
    session: bool = False
    collected: int | None = None
    deselected: int = 0
    reported: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    xpassed: frozenset[str] = frozenset()
    uncollected: frozenset[str] = frozenset()
    skipped_files: frozenset[str] = frozenset()
    running: str | None = None
    finished: bool = False
    status: int | None = None


def read_sidecar(path: Path) -> Course:
    """Return the course in the file at `path`.

    Lines that make no sense are left out: a missing event can only turn a pass into a crash.
    """
    data = read_regular(path, _SIDECAR_LIMIT)
    lines = [] if isinstance(data, str) else data.split(b"\n")
    loaded = session = finished = False
    collected: int | None = None
    status: int | None = None
    running: str | None = None
    deselected = 0
    tests: dict[str, set[str]] = {
        name: set() for name in ("reported", "ended", "failed", "xpassed", "uncollected", "skipped")
    }
    for line in lines:
        try:
            event = json.loads(line)
            kind = event["event"]
            if kind == "loaded":
                loaded = True
            elif kind == "session":
                session = True
            elif kind == "collect":
                name = "uncollected" if event["outcome"] == "failed" else "skipped"
                tests[name].add(str(event["test"]))
            elif kind == "deselected":
                deselected += int(event["count"])
            elif kind == "collected":
                collected = int(event["count"])
            elif kind == "start":
                running = str(event["test"])
            elif kind == "report":
                tests["reported"].add(str(event["test"]))
                if event["outcome"] in ("failed", "xpassed"):
                    tests[event["outcome"]].add(str(event["test"]))
            elif kind == "end":
                running = None
                tests["ended"].add(str(event["test"]))
            elif kind == "finish":
                finished = True
                status = None if event["status"] is None else int(event["status"])
        except (ValueError, RecursionError, TypeError, KeyError):
            continue
    return Course(
        loaded=loaded,
        session=session,
        collected=collected,
        deselected=deselected,
        reported=frozenset(tests["reported"]),
        ended=frozenset(tests["ended"]),
        failed=frozenset(tests["failed"]),
        xpassed=frozenset(tests["xpassed"] - tests["failed"]),
        uncollected=frozenset(tests["uncollected"]),
        skipped_files=frozenset(tests["skipped"]),
        running=running,
        finished=finished,
        status=status,
    )
