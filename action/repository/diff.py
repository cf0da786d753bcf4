"""What changed between two commits, from git's objects."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Literal

from action.repository.git import Git

Status = Literal["added", "modified", "deleted", "renamed", "type changed"]

_STATUS: dict[str, Status] = {
    "A": "added",
    "C": "added",
    "M": "modified",
    "D": "deleted",
    "R": "renamed",
    "T": "type changed",
}
_HUNK = re.compile(rb"^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
_FILE_MODES = ("100644", "100755")


@dataclass(frozen=True)
class Change:
    """One changed path.

    `path` is the new path, the old one for a deleted file; `old_path` the path in the older commit,
    None for an added file. `same_content` is true for a pure rename or a change of mode. `is_file`
    is false when the newer side (the older for a deletion) is a symbolic link or a submodule.
    """

    status: Status
    path: str
    old_path: str | None
    same_content: bool = False
    is_file: bool = True


def changes(git: Git, base: str, head: str) -> tuple[Change, ...]:
    """Return what differs between two commits, renames followed, in the order of paths."""
    fields = (
        git.output(
            "diff-tree", "-r", "-z", "--raw", "-M", "--no-ext-diff", "--no-textconv", base, head
        )
        .decode(errors="surrogateescape")
        .split("\0")
    )
    found: list[Change] = []
    position = 0
    while position < len(fields) and fields[position].startswith(":"):
        old_mode, new_mode, old_blob, new_blob, code = fields[position][1:].split()
        status = _STATUS.get(code[0], "modified")
        paths = fields[position + 1 : position + (3 if code[0] in "RC" else 2)]
        position += 1 + len(paths)
        mode = old_mode if status == "deleted" else new_mode
        found.append(
            Change(
                status=status,
                path=_native(paths[-1]),
                old_path=None if status == "added" else _native(paths[0]),
                same_content=old_blob == new_blob,
                is_file=mode in _FILE_MODES,
            )
        )
    return tuple(sorted(found, key=lambda change: change.path))


def added_lines(git: Git, base: str, head: str, change: Change) -> frozenset[int]:
    """Return the numbers, from 1, of the lines that a change added to the new file."""
    if change.status == "deleted" or change.same_content:
        return frozenset()
    paths = {change.path, change.old_path or change.path}
    text = git.output(
        "diff-tree", "-p", "-U0", "-M", "--no-color", "--no-ext-diff", "--no-textconv", "--text",
        base, head, "--", *(f":(literal){path}" for path in sorted(paths)),
    )  # fmt: skip
    lines: set[int] = set()
    for hunk in _HUNK.finditer(text):
        begin, count = int(hunk[1]), int(hunk[2] or b"1")
        lines.update(range(begin, begin + count))
    return frozenset(lines)


def _native(path: str) -> str:
    return os.fsdecode(path.encode(errors="surrogateescape"))
