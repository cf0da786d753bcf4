"""The base of a change in a GitHub job, in the clones that such jobs have."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from action.repository.git import Git, GitError
from action.repository.revisions import default_base
from action.select import select

_IDENTITY = ("-c", "user.name=author", "-c", "user.email=author@example.invalid")
_ENVIRONMENT = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *_IDENTITY, *arguments],
        cwd=folder, env=_ENVIRONMENT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


def commit(folder: Path, path: str, text: str) -> str:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "change")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def server(tmp_path):
    """A server with a pull request that left `main` 70 commits ago, and its merge commit."""
    folder = tmp_path / "server"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    commit(folder, "recipes/toy/model.py", "from torch import nn\n\n\nclass T(nn.Module): pass\n")
    git(folder, "checkout", "--quiet", "-b", "topic")
    commit(folder, "recipes/toy/model.py", "from torch import nn\n\n\nclass T(nn.Module): x = 1\n")
    git(folder, "checkout", "--quiet", "main")
    for number in range(70):
        commit(folder, "recipes/other/model.py", f"X = {number}\n")
    git(folder, "checkout", "--quiet", "--detach")
    git(folder, "merge", "--quiet", "--no-ff", "--no-edit", "topic")
    git(folder, "update-ref", "refs/pull/1/merge", "HEAD")
    git(folder, "update-ref", "refs/pull/1/head", "topic")
    git(folder, "checkout", "--quiet", "main")
    return folder


def checkout(server: Path, path: Path, ref: str) -> Git:
    """Check out as actions/checkout does by default: one commit of one ref, detached."""
    path.mkdir()
    git(path, "init", "--quiet")
    git(path, "remote", "add", "origin", f"file://{server}")
    git(path, "fetch", "--quiet", "--no-tags", "--depth=1", "origin", f"+{ref}:refs/remotes/{ref}")
    git(path, "checkout", "--quiet", "--detach", f"refs/remotes/{ref}")
    return Git(path)


PULL = {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_BASE_REF": "main"}


def test_a_merge_commit_of_depth_one(server, tmp_path):
    here = checkout(server, tmp_path / "clone", "pull/1/merge")
    base = default_base(here, "HEAD", {**PULL, "GITHUB_SHA": here.commit("HEAD")})
    assert base.revision == git(server, "rev-parse", "main")
    assert base.why == "the first parent of the pull request's merge commit"
    selection = select(here, here.commit(base.revision), here.commit("HEAD"))
    assert (selection.mode, selection.merge_base) == ("diff", base.revision)
    assert [recipe.name for recipe in selection.recipes] == ["toy"]
    assert selection.unaffected == ()


def test_a_pull_requests_own_head_of_depth_one(server, tmp_path):
    here = checkout(server, tmp_path / "clone", "pull/1/head")
    base = default_base(here, "HEAD", PULL)
    assert base.revision == "origin/main"
    selection = select(here, here.commit(base.revision), here.commit("HEAD"))
    assert selection.mode == "diff"
    assert selection.merge_base == git(server, "merge-base", "main", "topic")
    assert [recipe.name for recipe in selection.recipes] == ["toy"]
    assert selection.notes == ("The clone was shallow; `git fetch --deepen=200` found the base.",)


def test_a_base_that_cannot_be_fetched_is_named(server, tmp_path):
    here = checkout(server, tmp_path / "clone", "pull/1/merge")
    git(here.repo, "remote", "set-url", "origin", f"file://{tmp_path}/gone")
    base = default_base(here, "HEAD", {**PULL, "GITHUB_SHA": here.commit("HEAD")})
    assert (base.revision, base.why) == (
        None,
        "the first parent of the pull request's merge commit is not in this clone and could not be "
        "fetched",
    )


def event(tmp_path, name, content):
    path = tmp_path / "event.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return {"GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(path)}


def test_a_push_starts_from_what_was_there_before(server, tmp_path):
    before = git(server, "rev-parse", "main~3")
    base = default_base(Git(server), "HEAD", event(tmp_path, "push", {"before": before}))
    assert (base.revision, base.why) == (before, "`before` of the event")


def test_a_merge_group_starts_from_its_base(server, tmp_path):
    sha = git(server, "rev-parse", "main~3")
    content = {"merge_group": {"base_sha": sha}}
    base = default_base(Git(server), "HEAD", event(tmp_path, "merge_group", content))
    assert base.revision == sha


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("push", {"before": "0" * 40}, "`before` of the event, 000000000000, is no commit of"),
        ("push", {"before": "f" * 40}, "`before` of the event, ffffffffffff, is no commit of"),
        ("push", {}, "the event file does not say `before`"),
        ("push", "not json", "the event file does not say `before`"),
        ("schedule", {}, "a run on `schedule` has no base to compare with"),
    ],
)
def test_no_base_says_why(server, tmp_path, name, content, why):
    base = default_base(Git(server), "HEAD", event(tmp_path, name, content))
    assert base.revision is None
    assert base.why.startswith(why)


def test_outside_github_the_default_branch(server, tmp_path):
    assert default_base(Git(server), "HEAD", {}).revision == "main"
    git(server, "branch", "--move", "main", "trunk")
    with pytest.raises(GitError, match="no base to compare with"):
        default_base(Git(server), "HEAD", {})
