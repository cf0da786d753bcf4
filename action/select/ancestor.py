"""The merge base of two commits, also in a clone whose history was cut off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from action.repository.git import Git, GitError

# Each step fetches that many more commits; the last takes all of the history.
_STEPS: tuple[str, ...] = ("--deepen=50", "--deepen=200", "--deepen=1000", "--unshallow")


@dataclass(frozen=True)
class Ancestor:
    """The merge base, or None; `note` is a sentence about what it took or why there is none."""

    commit: str | None
    note: str | None = None


def find_merge_base(git: Git, base: str, head: str, steps: Sequence[str] = _STEPS) -> Ancestor:
    """Return the merge base of two commits, deepening a shallow clone while that can help."""
    found = git.merge_base(base, head)
    if found is not None:
        return Ancestor(found, _several(git, base, head, found))
    if not git.is_shallow():
        return Ancestor(None, "The two commits have no common ancestor.")
    remote = git.remote()
    if remote is None:
        return Ancestor(None, "The clone is shallow and has no remote to deepen it from.")
    for step in steps:
        try:
            _fetch(git, step, remote, base, head)
        except GitError as trouble:
            return Ancestor(None, f"The clone is shallow and could not be deepened: {trouble}.")
        found = git.merge_base(base, head)
        if found is not None:
            return Ancestor(found, f"The clone was shallow; `git fetch {step}` found the base.")
        if not git.is_shallow():
            break
    return Ancestor(None, "The clone was deepened to the end without finding a common ancestor.")


def _several(git: Git, base: str, head: str, taken: str) -> str | None:
    """Say so when branches that merged each other have several merge bases."""
    count = len(git.output("merge-base", "--all", base, head).split())
    if count < 2:
        return None
    return f"The two commits have {count} merge bases; {taken[:12]} was taken."


def _fetch(git: Git, step: str, remote: str, base: str, head: str) -> None:
    """Deepen from the two commits; a pull request's merge commit hangs from no branch."""
    options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", step)
    try:
        git.output("fetch", *options, "--", remote, base, head)
    except GitError:  # a server may refuse to serve a commit by its id
        git.output("fetch", *options, "--", remote)
