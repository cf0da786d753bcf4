"""Which revision a change starts from when nobody says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from action.repository.git import Git, GitError

_DEFAULT_BRANCHES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")


@dataclass(frozen=True)
class Base:
    """The revision to compare with; None when there is none, and then `why` says so."""

    revision: str | None
    why: str


def default_base(git: Git, head: str, environ: Mapping[str, str]) -> Base:
    """Return the base of the change that ends at `head`.

    In a GitHub job the event decides. A pull request's checkout is the merge commit, whose first
    parent is the base as GitHub merged it; the event's own `base.sha` goes stale. `before` of a
    push may be zeros or gone after a force push. A scheduled or manual run has no base. Outside
    GitHub the default branch is the base.

    Raises:
        GitError: outside GitHub, and no default branch is found.
    """
    event = environ.get("GITHUB_EVENT_NAME", "")
    if event.startswith("pull_request"):
        if len(git.output("rev-list", "--parents", "-n", "1", head).split()) == 3:
            return Base(f"{head}^1", "the first parent of the pull request's merge commit")
        branch = environ.get("GITHUB_BASE_REF", "")
        if branch:
            return Base(f"origin/{branch}", f"the pull request's base branch `{branch}`")
    if event == "merge_group":
        return _from_event(git, environ, ("merge_group", "base_sha"))
    if event == "push":
        return _from_event(git, environ, ("before",))
    if event:
        return Base(None, f"a run on `{event}` has no base to compare with")
    for branch in _DEFAULT_BRANCHES:
        if exists(git, branch):
            return Base(branch, f"the default branch `{branch}`")
    raise GitError(
        "no base to compare with: neither origin/HEAD, main nor master exists here; "
        "name one with --base, or take every recipe with --all"
    )


def exists(git: Git, revision: str) -> bool:
    """Tell whether `revision` names a commit in this repository."""
    try:
        git.commit(revision)
    except GitError:
        return False
    return True


def _from_event(git: Git, environ: Mapping[str, str], keys: tuple[str, ...]) -> Base:
    name = ".".join(keys)
    try:
        value = json.loads(Path(environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
        for key in keys:
            value = value[key]
        revision = str(value)
    except (KeyError, TypeError, OSError, ValueError):
        return Base(None, f"the event file does not say `{name}`")
    if not revision.strip("0") or not exists(git, revision):
        return Base(None, f"`{name}` of the event, {revision[:12]}, is no commit of this clone")
    return Base(revision, f"`{name}` of the event")
