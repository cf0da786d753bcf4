"""Where a process was when it was stopped or crashed, out of what `faulthandler` printed."""

from __future__ import annotations

import re
from pathlib import Path

from .recorder import is_library
from .target import relative

_HERE = str(Path(__file__).resolve().parent)
_HEAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):$", re.M)
_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in .*$')
_MOST_FRAMES = 24
_LINES_BEFORE = 12


def last_stack(output: str, root: Path) -> tuple[str, tuple[str, int] | None] | None:
    """Return the main thread's stack with some output before it, and its place in the repository.

    None where no stack was printed. The innermost call comes first, and frames of the worker are
    left out.
    """
    heads = list(_HEAD.finditer(output))
    if not heads:
        return None
    frames: list[str] = []
    place: tuple[str, int] | None = None
    # Threads are printed from the newest to the main one.
    for line in output[heads[-1].end() + 1 :].splitlines():
        found = _FRAME.match(line)
        if found is None:
            break
        file = found["file"]
        if file.startswith((_HERE, "<")):
            continue
        frames.append(line)
        if place is None and not is_library(file) and (known := relative(file, root)) is not None:
            place = (known, int(found["line"]))
    before = output[: heads[0].start()].rstrip().splitlines()[-_LINES_BEFORE:]
    shown = [*before, "most recent call first:", *frames[:_MOST_FRAMES]]
    return "\n".join(shown), place
