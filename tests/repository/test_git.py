"""Git on real repositories, hostile ones among them."""

import os
import subprocess

import pytest

from action.repository.checkout import checked_out
from action.repository.diff import Change, added_lines, changes
from action.repository.git import Git, GitError
from action.repository.tree import CommitTree


@pytest.fixture
def repo(tmp_path):
    path = tmp_path / "repo"
    path.mkdir()
    git(path, "init", "--quiet", "--initial-branch", "main")
    (path / "a.py").write_text("one\ntwo\nthree\n")
    (path / "b.txt").write_text("same\n" * 20)
    commit(path)
    return path


def git(path, *arguments):
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.invalid")
    return subprocess.run(
        ["git", *identity, *arguments], cwd=path, check=True, capture_output=True, text=True
    ).stdout.strip()


def commit(path):
    git(path, "add", "--all")
    git(path, "commit", "--quiet", "--allow-empty", "--message", "x")
    return git(path, "rev-parse", "HEAD")


def test_not_a_repository_is_one_sentence(tmp_path):
    with pytest.raises(GitError) as trouble:
        Git(tmp_path)
    assert str(trouble.value).startswith(
        f"{tmp_path} is not a git repository; give one with --repo"
    )
    with pytest.raises(GitError, match="is not a folder"):
        Git(tmp_path / "nothing")


def test_a_folder_inside_a_repository_is_the_repository(repo):
    (repo / "deep").mkdir()
    assert Git(repo / "deep").repo == repo.resolve()


@pytest.mark.parametrize("revision", ["nope", "--all", "HEAD:a.py", "", "a..b"])
def test_a_revision_that_names_no_commit(repo, revision):
    with pytest.raises(GitError, match=r"names no commit in .*; fetch it, or correct --base"):
        Git(repo).commit(revision)


def test_git_that_is_not_there(repo):
    def run(*arguments, **options):
        raise FileNotFoundError("git")

    with pytest.raises(GitError, match="git is not installed, or not on PATH"):
        Git(repo, run)


def test_a_repositorys_own_programs_do_not_run(repo, tmp_path):
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    evil.chmod(0o755)
    hook = repo / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_bytes(evil.read_bytes())
    hook.chmod(0o755)
    git(repo, "config", "core.fsmonitor", str(evil))
    git(repo, "config", "diff.external", str(evil))
    git(repo, "config", "diff.x.textconv", str(evil))
    (repo / ".gitattributes").write_text("*.py diff=x\n")
    (repo / "a.py").write_text("other\n")
    git(repo, "-c", "core.fsmonitor=false", "add", "--all")
    git(repo, "-c", "core.fsmonitor=false", "commit", "--quiet", "--message", "x")
    ours = Git(repo)
    first, head = ours.commit("HEAD^"), ours.commit("HEAD")
    found = changes(ours, first, head)
    assert [
        added_lines(ours, first, head, change) for change in found if change.path == "a.py"
    ] == [frozenset({1})]
    with checked_out(ours, first) as checkout:
        assert (checkout.root / "a.py").read_text() == "one\ntwo\nthree\n"
    assert not (tmp_path / "ran").exists()


def test_a_scratch_checkout_of_a_shallow_clone(repo, tmp_path):
    git(repo, "checkout", "--quiet", "-b", "topic")
    (repo / "a.py").write_text("topic\n")
    topic = commit(repo)
    git(repo, "checkout", "--quiet", "main")
    shallow = tmp_path / "shallow"
    git(
        tmp_path, "clone", "--quiet", "--depth=1", "--no-single-branch", f"file://{repo}", "shallow"
    )
    with checked_out(Git(shallow), topic) as checkout:
        assert (checkout.root / "a.py").read_text() == "topic\n"
        assert git(checkout.root, "rev-parse", "HEAD") == topic


def test_a_foreign_owner_is_no_obstacle(repo):
    if os.getuid() != 0:
        pytest.skip("changing an owner needs root")
    for path in (repo, repo / ".git"):
        os.chown(path, 1001, 127)
    assert len(Git(repo).commit("HEAD")) == 40


def test_changes_of_every_kind(repo):
    ours = Git(repo)
    base = ours.commit("HEAD")
    (repo / "a.py").write_text("one\n2\nthree\nfour\n")
    (repo / "b.txt").rename(repo / "c.txt")
    (repo / "new\n.py").write_text("x\n")
    (repo / "link").symlink_to("a.py")
    head = commit(repo)
    assert changes(ours, base, head) == (
        Change("modified", "a.py", "a.py"),
        Change("renamed", "c.txt", "b.txt", same_content=True),
        Change("added", "link", None, is_file=False),
        Change("added", "new\n.py", None),
    )
    assert added_lines(ours, base, head, changes(ours, base, head)[0]) == {2, 4}
    deleted = changes(ours, head, base)
    assert [(c.status, c.path) for c in deleted if c.status == "deleted"] == [
        ("deleted", "link"),
        ("deleted", "new\n.py"),
    ]
    assert added_lines(ours, head, base, deleted[-1]) == frozenset()


def test_a_tree_holds_regular_files_only(repo):
    (repo / "link").symlink_to("a.py")
    (repo / "empty").write_bytes(b"")
    (repo / "binary").write_bytes(b"\0\n\xff")
    head = commit(repo)
    with CommitTree(Git(repo), head) as tree:
        assert tree.paths() == ("a.py", "b.txt", "binary", "empty")
        assert tree.read("empty") == b""
        assert tree.read("binary") == b"\0\n\xff"
        assert tree.read("a.py") == b"one\ntwo\nthree\n"
        assert "link" not in tree
        with pytest.raises(KeyError):
            tree.read("link")


def test_the_folder_itself_serves_when_it_is_the_commit(repo):
    (repo / ".gitignore").write_text("*.bin\n__pycache__/\n")
    head = commit(repo)
    (repo / "data.bin").write_bytes(b"not code")
    (repo / "__pycache__").mkdir()
    (repo / "__pycache__" / "a.pyc").write_bytes(b"")
    (repo / "out").mkdir()
    (repo / "out" / "old.py").write_text("")
    ours = Git(repo)
    with checked_out(ours, head, repo / "out" / "toy") as checkout:
        assert (checkout.root, checkout.note) == (repo.resolve(), None)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a.py", "has uncommitted changes"),
        ("untracked.py", "holds `untracked.py`, which is not committed"),
        ("untracked.so", "holds `untracked.so`, which is not committed"),
        ("ignored.py", "holds `ignored.py`, which git ignores"),
    ],
)
def test_otherwise_a_scratch_checkout_does_and_is_gone_afterwards(repo, name, why):
    (repo / ".gitignore").write_text("ignored.py\n")
    head = commit(repo)
    ours = Git(repo)
    (repo / name).write_text("changed\n")
    with checked_out(ours, head) as checkout:
        assert checkout.root != repo
        assert checkout.note == (
            f"The stages worked in a scratch checkout of `{head[:12]}`, "
            f"since the working tree {why}."
        )
        assert name == "a.py" or not (checkout.root / name).exists()
        assert (checkout.root / "a.py").read_text() == "one\ntwo\nthree\n"
    assert not checkout.root.parent.exists()
    assert (repo / name).read_text() == "changed\n"
