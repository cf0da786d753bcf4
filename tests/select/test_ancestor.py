"""Finding what a change starts from, in whole, shallow and unrelated histories."""

import subprocess

import pytest

from action.repository.git import Git
from action.select import select

from .conftest import MODEL, Repository

CHANGED = {"recipes/toy/model.py": MODEL.replace("range(3)", "range(4)")}


@pytest.fixture
def history(repository):
    """`main` moves on for 60 commits after `topic` left it."""
    repository.commit(CHANGED)
    repository.git("checkout", "--quiet", "main")
    for number in range(60):
        repository.commit({"README.md": f"# {number}\n"})
    repository.git("checkout", "--quiet", "topic")
    return repository


def shallow(history, tmp_path, depth="1"):
    path = tmp_path / "shallow"
    subprocess.run(
        ["git", "clone", "--quiet", "--depth", depth, "--no-single-branch", "--branch", "topic",
         f"file://{history.path}", str(path)],
        check=True,
    )  # fmt: skip
    return Repository(path)


def test_what_main_did_meanwhile_is_not_the_change(history):
    selection = history.select()
    assert [recipe.name for recipe in selection.recipes] == ["toy"]
    assert selection.unaffected == ()
    assert selection.merge_base == history.git("merge-base", "main", "topic")
    assert selection.base == history.git("rev-parse", "main")


def test_a_shallow_clone_is_deepened(history, tmp_path):
    clone = shallow(history, tmp_path)
    selection = clone.select("origin/main", "origin/topic")
    assert selection.mode == "diff"
    assert selection.merge_base == history.git("merge-base", "main", "topic")
    assert selection.notes == ("The clone was shallow; `git fetch --deepen=200` found the base.",)


def test_a_shallow_clone_without_a_remote_selects_all_and_says_so(history, tmp_path):
    clone = shallow(history, tmp_path)
    main, topic = clone.git("rev-parse", "origin/main"), clone.git("rev-parse", "origin/topic")
    clone.git("remote", "remove", "origin")
    selection = select(Git(clone.path), main, topic)
    assert selection.mode == "fail-open"
    assert [recipe.name for recipe in selection.recipes] == ["plain", "toy"]
    assert {r.rule for recipe in selection.recipes for r in recipe.reasons} == {"no-merge-base"}
    assert selection.notes == ("The clone is shallow and has no remote to deepen it from.",)


def test_a_remote_that_does_not_answer_selects_all_and_says_so(history, tmp_path):
    clone = shallow(history, tmp_path)
    clone.git("remote", "set-url", "origin", f"file://{tmp_path}/gone")
    selection = clone.select("origin/main", "origin/topic")
    assert selection.mode == "fail-open"
    assert selection.notes[0].startswith(
        "The clone is shallow and could not be deepened: git fetch"
    )


def test_unrelated_histories_select_all(repository):
    repository.git("checkout", "--quiet", "--orphan", "island")
    repository.commit()
    selection = repository.select("main", "island")
    assert selection.mode == "fail-open"
    assert selection.notes == ("The two commits have no common ancestor.",)


def test_a_merge_commits_first_parent_is_the_base(history):
    history.git("checkout", "--quiet", "-b", "merged", "main")
    history.git("merge", "--quiet", "--no-edit", "topic")
    selection = history.select("HEAD^1", "HEAD")
    assert [recipe.name for recipe in selection.recipes] == ["toy"]
    assert selection.merge_base == history.git("rev-parse", "main")


def test_a_criss_cross_history_has_a_base(repository):
    one = repository.commit(CHANGED)
    repository.git("checkout", "--quiet", "-b", "other", "main")
    two = repository.commit({"README.md": "# two\n"})
    repository.git("merge", "--quiet", "--no-edit", one)
    repository.git("checkout", "--quiet", "topic")
    repository.git("merge", "--quiet", "--no-edit", two)
    selection = repository.select("other", "topic")
    assert selection.mode == "diff"
    assert selection.merge_base in (one, two)
