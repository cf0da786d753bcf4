"""A folder that holds exactly one commit, for the tests to run in."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from action.repository.git import Git

# An ignored file of these kinds can make a test pass that fails for everybody else; ignored data
# and folders (environments, caches) are what a folder serves for.
_CODE = (".py", ".pth", ".yaml", ".yml", ".toml", ".cfg", ".ini")


@dataclass(frozen=True)
class Checkout:
    """Where the commit's files lie; `note` says so when that is not the user's own folder."""

    root: Path
    note: str | None = None


@contextmanager
def checked_out(git: Git, commit: str, ours: Path | None = None) -> Iterator[Checkout]:
    """Give a folder with the files of `commit` (a full id).

    The repository's own folder serves when that commit is checked out there, no tracked file
    differs from it, and neither an untracked file nor ignored code could change what the tests do;
    files below `ours`, the output folder, do not count. Otherwise the commit is checked out into a
    scratch repository that borrows the objects and is deleted afterwards: the user's files and
    index are never touched.

    Raises:
        GitError: git cannot read the repository or write the clone.
    """
    why = _why_not_here(git, commit, ours)
    if why is None:
        yield Checkout(git.repo)
        return
    scratch = Path(tempfile.mkdtemp(prefix="fsdp2-prefetch-"))
    try:
        root = scratch / "checkout"
        _borrow(git, root)
        Git(root, git.run).output("checkout", "--quiet", "--detach", commit)
        yield Checkout(
            root,
            f"The stages worked in a scratch checkout of `{commit[:12]}`, "
            f"since the working tree {why}.",
        )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _borrow(git: Git, root: Path) -> None:
    """Make an empty repository at `root` that reads the objects of another, shallow ones too.

    A clone would do for a whole history, but of a shallow repository it takes only what its
    branches reach.
    """
    kind = git.output("rev-parse", "--show-object-format").decode().strip()
    git.output("init", "--quiet", f"--object-format={kind}", "--", str(root))
    objects = _git_path(git, "objects")
    (root / ".git" / "objects" / "info" / "alternates").write_bytes(os.fsencode(objects) + b"\n")
    shallow = _git_path(git, "shallow")
    if shallow.exists():
        shutil.copyfile(shallow, root / ".git" / "shallow")


def _git_path(git: Git, name: str) -> Path:
    path = git.output("rev-parse", "--git-path", name).removesuffix(b"\n")
    return git.repo / os.fsdecode(path)


def _why_not_here(git: Git, commit: str, ours: Path | None) -> str | None:
    if git.commit("HEAD") != commit:
        return "is at another commit"
    status = git.output(
        "status", "--porcelain", "-z", "--untracked-files=normal", "--ignored", "--no-renames"
    )
    for entry in status.decode(errors="surrogateescape").split("\0"):
        code, path = entry[:2], entry[3:]
        if not code or (ours is not None and _holds(git.repo / path, ours)):
            continue
        shown = path.encode(errors="surrogateescape").decode(errors="replace")
        if code == "!!":
            if path.endswith(_CODE):
                return f"holds `{shown}`, which git ignores"
        elif code == "??":
            return f"holds `{shown}`, which is not committed"
        else:
            return "has uncommitted changes"
    return None


def _holds(path: Path, ours: Path) -> bool:
    ours = ours.resolve()
    return path == ours or path in ours.parents or ours in path.parents
