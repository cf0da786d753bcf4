"""From the git objects of two commits to the recipes that a change affects, each with reasons."""

from __future__ import annotations

from action.records import Reason, SelectedRecipe, Selection, printable
from action.repository.diff import changes
from action.repository.git import Git
from action.repository.tree import CommitTree
from action.select.ancestor import find_merge_base
from action.select.comparison import Comparison, selected
from action.select.recipe import recipe_names as names_in

__all__ = ["recipe_names", "select", "select_all"]


def select(git: Git, base: str, head: str, *, recipes_root: str = "recipes") -> Selection:
    """Return the recipes that the change from `base` to `head` (full commit ids) affects.

    The change is what `head` has on top of the merge base. Without one every recipe is selected.

    Raises:
        GitError: git cannot read the repository.
    """
    ancestor = find_merge_base(git, base, head)
    notes = () if ancestor.note is None else (ancestor.note,)
    if ancestor.commit is None:
        every = _every(git, head, recipes_root, "no-merge-base", ancestor.note or "")
        return printable(
            Selection(
                mode="fail-open",
                base=base,
                head=head,
                recipe_count=len(every),
                recipes=every,
                notes=notes,
            )
        )
    with CommitTree(git, ancestor.commit) as old, CommitTree(git, head) as new:
        comparison = Comparison(old, new, recipes_root)
        outcome = comparison.outcome(changes(git, ancestor.commit, head))
        if not comparison.names:
            outcome.notes.append(f"There is no recipe under `{recipes_root}/`.")
        elif not outcome.reasons and not outcome.unaffected:
            outcome.notes.append("The two commits have the same files.")
        return printable(
            Selection(
                mode="diff",
                base=base,
                head=head,
                merge_base=ancestor.commit,
                recipe_count=len(comparison.names),
                recipes=selected(outcome, recipes_root),
                unaffected=tuple(outcome.unaffected),
                notes=(*notes, *outcome.notes),
            )
        )


def select_all(
    git: Git, head: str, *, recipes_root: str = "recipes", why: str | None = None
) -> Selection:
    """Return every recipe at `head`; `why` is the reason when nobody asked for all of them."""
    reason = "every recipe was asked for" if why is None else f"every recipe is taken: {why}"
    notes = () if why is None else (f"Every recipe is selected: {why}.",)
    every = _every(git, head, recipes_root, "all", reason)
    if not every:
        notes = (*notes, f"There is no recipe under `{recipes_root}/`.")
    return printable(
        Selection(mode="all", head=head, recipe_count=len(every), recipes=every, notes=notes)
    )


def recipe_names(git: Git, commit: str, *, recipes_root: str = "recipes") -> tuple[str, ...]:
    """Return the names of the recipes at a commit."""
    with CommitTree(git, commit) as tree:
        return names_in(tree, recipes_root)


def _every(git: Git, head: str, root: str, rule: str, why: str) -> tuple[SelectedRecipe, ...]:
    reason = Reason.model_validate({"rule": rule, "detail": why})
    return tuple(
        SelectedRecipe(name=name, path=f"{root}/{name}", reasons=(reason,))
        for name in recipe_names(git, head, recipes_root=root)
    )
