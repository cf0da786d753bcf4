"""A folder that holds exactly one commit, for the tests to run in."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from action.repository.git import Git

# An untracked file of these kinds can make a test pass that fails for everybody else.
_CODE = (".py", ".yaml", ".yml", ".toml", ".cfg", ".ini")


@dataclass(frozen=True)
class Checkout:
    """Where the commit's files lie; `note` says so when that is not the user's own folder."""

    root: Path
    note: str | None = None


@contextmanager
def checked_out(git: Git, commit: str) -> Iterator[Checkout]:
    """Give a folder with the files of `commit` (a full id).

    The repository's own folder serves when that commit is checked out there, no tracked file
    differs from it, and no untracked file could change what the tests do; data that git does not
    track may lie there. Otherwise the commit is checked out into a scratch clone that shares the
    objects and is deleted afterwards: the user's files and index are never touched.

    Raises:
        GitError: git cannot read the repository or write the clone.
    """
    why = _why_not_here(git, commit)
    if why is None:
        yield Checkout(git.repo)
        return
    scratch = Path(tempfile.mkdtemp(prefix="fsdp2-prefetch-"))
    try:
        root = scratch / "checkout"
        git.output("clone", "--quiet", "--shared", "--no-checkout", "--", str(git.repo), str(root))
        Git(root, git.run).output("checkout", "--quiet", "--detach", commit)
        yield Checkout(
            root,
            f"The stages worked in a scratch checkout of `{commit[:12]}`, "
            f"since the working tree {why}.",
        )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _why_not_here(git: Git, commit: str) -> str | None:
    if git.commit("HEAD") != commit:
        return "is at another commit"
    status = git.output("status", "--porcelain", "-z", "--untracked-files=all", "--no-renames")
    for entry in status.decode(errors="surrogateescape").split("\0"):
        code, path = entry[:2], entry[3:]
        if code == "??" and path.endswith(_CODE):
            return f"holds `{path}`, which is not committed"
        if code not in ("", "??", "!!"):
            return "has uncommitted changes"
    return None
