"""From the changes between two commits to the affected recipes, each with its reasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from action.records import Location, Reason, SelectedRecipe, Unaffected
from action.repository.diff import Change
from action.repository.python import PythonTree
from action.repository.tree import Tree
from action.select.other_change import (
    YAML,
    config_reasons,
    link_reasons,
    linked_reasons,
    other_reasons,
    pin_change,
)
from action.select.python_change import (
    NO_MEANING,
    Judged,
    cannot_parse,
    python_reasons,
    same_meaning,
)
from action.select.recipe import RecipeAt, recipe_names

_Judge = Callable[[RecipeAt, RecipeAt], Judged]


@dataclass
class Outcome:
    """The reasons found so far by recipe, and for each change why it selects nothing."""

    reasons: dict[str, list[Reason]] = field(default_factory=dict)
    unaffected: list[Unaffected] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Comparison:
    """Two trees of one repository, `old` at the merge base and `new` at the head."""

    def __init__(self, old: Tree, new: Tree, recipes_root: str) -> None:
        self.old, self.new = old, new
        self.root = recipes_root
        self.old_python, self.new_python = PythonTree(old), PythonTree(new)
        self.names = recipe_names(new, recipes_root)
        before = recipe_names(old, recipes_root)
        self.gone = [name for name in before if name not in self.names]
        self.fresh = [name for name in self.names if name not in before]
        places = [(name, f"{recipes_root}/{name}") for name in self.names]
        self._after = {name: RecipeAt(new, self.new_python, place) for name, place in places}
        self._before = {name: RecipeAt(old, self.old_python, place) for name, place in places}

    def outcome(self, changes: tuple[Change, ...]) -> Outcome:
        """Return the reasons of every change; each ends as a reason or as unaffected."""
        found = Outcome()
        for name in self.fresh:
            found.reasons[name] = [self._new_recipe(name, changes)]
        for change in changes:
            reasons, why_not = self._of(change)
            for name, reason in reasons:
                kept = found.reasons.setdefault(name, [])
                if reason not in kept:
                    kept.append(reason)
            if not reasons and self._owner(change.path) not in self.fresh:
                found.unaffected.append(Unaffected(path=change.path, reason=why_not))
        found.notes += [f"Recipe `{name}` was deleted." for name in self.gone]
        return found

    def _new_recipe(self, name: str, changes: tuple[Change, ...]) -> Reason:
        origins = {self._owner(c.old_path) for c in changes if self._owner(c.path) == name}
        renamed = sorted(str(origin) for origin in origins if origin in self.gone)
        detail = "the recipe is new" + (f", renamed from `{renamed[0]}`" if renamed else "")
        where = Location(path=f"{self.root}/{name}")
        return Reason(rule="new-recipe", detail=detail, location=where)

    def _of(self, change: Change) -> tuple[list[tuple[str, Reason]], str]:
        """Return (recipe, reason) pairs, and why there are none."""
        owner = self._owner(change.path)
        if change.same_content and change.status == "modified":
            return [], "only its file mode changed"
        judge, nobody = self._judge(change)
        found: list[tuple[str, Reason]] = []
        why_not: list[str] = []
        for name in self.names:
            if name == owner and name in self.fresh:
                continue
            old, new = self._before[name], self._after[name]
            reasons, why = judge(old, new)
            if nobody != NO_MEANING:
                reasons = reasons or linked_reasons(change, new)
            found += [(name, reason) for reason in reasons]
            if why and why not in why_not:
                why_not.append(why)
        if owner in self.gone:
            return found, f"recipe `{owner}` was deleted"
        return found, "; ".join(why_not) or nobody

    def _judge(self, change: Change) -> tuple[_Judge, str]:
        """Return what judges a change for one recipe, and what to say when none has an opinion."""
        pinned = pin_change(change, self.old, self.new) if change.is_file else None
        owner = self._owner(change.path)
        if not change.is_file:
            return lambda old, new: link_reasons(change, new), "a link or submodule"
        if pinned is not None and not (pinned.says_nothing and change.path.endswith(".py")):
            only = owner if owner in self.names else None
            if pinned.says_nothing:
                return lambda old, new: ([], ""), "it states no release of torch or transformers"
            return (
                lambda old, new: pinned.reasons(new) if only in (None, _name(new)) else ([], ""),
                "the releases of torch and transformers that it asks for are the same",
            )
        if change.path.endswith(".py"):
            return self._python_judge(change)
        if change.path.endswith(YAML):
            return lambda old, new: self._yaml(change, old, new), "no recipe names this file"
        return (
            lambda old, new: other_reasons(change, old, new),
            "not Python, not a recipe's config, not a pinned dependency",
        )

    def _python_judge(self, change: Change) -> tuple[_Judge, str]:
        trouble = cannot_parse(change, self.old_python, self.new_python)
        if trouble is None and same_meaning(change, self.old_python, self.new_python):
            return lambda old, new: ([], ""), NO_MEANING

        def judge(old: RecipeAt, new: RecipeAt) -> Judged:
            def of_other_recipe(path: str) -> bool:
                return self._owner(path) in self.names and not new.owns(path)

            return python_reasons(change, old, new, trouble, of_other_recipe)

        return judge, "no recipe imports it"

    def _yaml(self, change: Change, old: RecipeAt, new: RecipeAt) -> Judged:
        if new.is_prefetch_test(change.path) or old.is_prefetch_test(change.old_path):
            return other_reasons(change, old, new)
        owned = (new.owns(change.path) and not new.is_test(change.path)) or (
            old.owns(change.old_path) and not old.is_test(str(change.old_path))
        )
        if owned or new.mention_of(change.path) is not None:
            return config_reasons(change, old, new)
        if new.is_test(change.path):
            return [], "data of the tests that none of the prefetch tests names"
        return [], ""

    def _owner(self, path: str | None) -> str | None:
        """Return the folder under the recipes' root that a path lies in."""
        if path is None or not path.startswith(f"{self.root}/"):
            return None
        name, slash, _ = path.removeprefix(f"{self.root}/").partition("/")
        return name if slash else None


def selected(outcome: Outcome, root: str) -> tuple[SelectedRecipe, ...]:
    """Return the recipes that have reasons, by name."""
    return tuple(
        SelectedRecipe(name=name, path=f"{root}/{name}", reasons=tuple(reasons))
        for name, reasons in sorted(outcome.reasons.items())
    )


def _name(recipe: RecipeAt) -> str:
    return recipe.path.rpartition("/")[2]
