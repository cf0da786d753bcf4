"""Which revision a change starts from when nobody says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from action.repository.git import Git, GitError, UnknownRevisionError

_DEFAULT_BRANCHES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")


@dataclass(frozen=True)
class Base:
    """The revision to compare with; None when there is none, and then `why` says so."""

    revision: str | None
    why: str


def default_base(git: Git, head: str, environ: Mapping[str, str]) -> Base:
    """Return the base of the change that ends at `head`.

    In a GitHub job the event decides. A pull request's checkout is the merge commit, whose first
    parent is the base as GitHub merged it; the event's own `base.sha` goes stale. Any other head,
    also one that merged the base branch itself, is compared with the base branch. A checkout of
    depth 1 lacks that parent, and the base branch too: they are fetched, and when they cannot be,
    there is no base. `before` of a push may be zeros or gone after a force push. A scheduled or
    manual run has no base. Outside GitHub the default branch is the base.

    Raises:
        UnknownRevisionError: outside GitHub, and no default branch is found.
    """
    event = environ.get("GITHUB_EVENT_NAME", "")
    if event.startswith("pull_request"):
        return _of_pull_request(git, head, environ)
    if event == "merge_group":
        return _from_event(git, environ, ("merge_group", "base_sha"))
    if event == "push":
        return _from_event(git, environ, ("before",))
    if event:
        return Base(None, f"a run on `{event}` has no base to compare with")
    for branch in _DEFAULT_BRANCHES:
        if exists(git, branch):
            return Base(branch, f"the default branch `{branch}`")
    raise UnknownRevisionError(
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


def _of_pull_request(git: Git, head: str, environ: Mapping[str, str]) -> Base:
    parents = _parents(git, head)
    if len(parents) == 2 and _is_merge_of_github(git.commit(head), parents[1], environ):
        if not exists(git, parents[0]):
            _fetch(git, "--deepen=1", git.commit(head))
        base = Base(parents[0], "the first parent of the pull request's merge commit")
    else:
        branch = environ.get("GITHUB_BASE_REF", "")
        if branch and not exists(git, f"origin/{branch}"):
            depth = ("--depth=1",) if git.is_shallow() else ()
            _fetch(git, *depth, f"+refs/heads/{branch}:refs/remotes/origin/{branch}")
        base = Base(f"origin/{branch}", f"the pull request's base branch `{branch}`")
    if exists(git, str(base.revision)):
        return base
    return Base(None, f"{base.why} is not in this clone and could not be fetched")


def _is_merge_of_github(head: str, second: str, environ: Mapping[str, str]) -> bool:
    """Tell GitHub's merge of a pull request from a head that merged something itself."""
    if environ.get("GITHUB_SHA") == head:
        return True
    try:
        event = json.loads(Path(environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
        return bool(event["pull_request"]["head"]["sha"] == second)
    except (KeyError, TypeError, OSError, ValueError):
        return False


def _parents(git: Git, commit: str) -> list[str]:
    """Return the parents that a commit names, also where a shallow clone hides them."""
    text = git.output("cat-file", "commit", git.commit(commit)).decode(errors="replace")
    header = text.partition("\n\n")[0].splitlines()
    return [line.removeprefix("parent ") for line in header if line.startswith("parent ")]


def _fetch(git: Git, *arguments: str) -> None:
    """Fetch without touching tags or FETCH_HEAD; whoever needs the result says that it lacks."""
    *options, what = arguments
    with suppress(GitError):
        git.output("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", *options,
                   "--", git.remote() or "origin", what)  # fmt: skip


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
