"""From the changes between two commits to the affected recipes, each with its reasons."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from action.records import Location, Reason, SelectedRecipe, Unaffected
from action.repository.diff import Change
from action.repository.python import PythonTree
from action.repository.syntax import UnparsableError, fingerprint
from action.repository.tree import Tree
from action.repository.yaml_file import Entry, read_yaml
from action.select.configs import compare_configs
from action.select.pins import is_pin_file, pins
from action.select.recipe import RecipeAt, recipe_names
from action.select.source_change import source_reasons

_DOCUMENTS = (".md", ".rst", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".pdf", ".ipynb")


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
        names = recipe_names(new, recipes_root)
        gone = [name for name in recipe_names(old, recipes_root) if name not in names]
        self.names, self.gone = names, gone
        self._after = {n: RecipeAt(new, self.new_python, f"{recipes_root}/{n}") for n in names}
        self._before = {n: RecipeAt(old, self.old_python, f"{recipes_root}/{n}") for n in names}

    def outcome(self, changes: tuple[Change, ...]) -> Outcome:
        """Return the reasons of every change; each ends as a reason or as unaffected."""
        found = Outcome()
        known = set(recipe_names(self.old, self.root))
        for change in changes:
            reasons, why_not = self._of(change, known)
            for name, reason in reasons:
                kept = found.reasons.setdefault(name, [])
                if reason not in kept:
                    kept.append(reason)
            if not reasons:
                found.unaffected.append(Unaffected(path=change.path, reason=why_not))
        found.notes += [f"Recipe `{name}` was deleted." for name in self.gone]
        return found

    def _of(self, change: Change, known: set[str]) -> tuple[list[tuple[str, Reason]], str]:
        """Return (recipe, reason) pairs, and why there are none."""
        owner = self._owner(change.path)
        before = self._owner(change.old_path) if change.old_path else None
        if owner in self.names and owner not in known:
            where = Location(path=change.path)
            origin = f", renamed from `{before}`" if before in self.gone else ""
            detail = f"the recipe is new{origin}"
            return [(str(owner), Reason(rule="new-recipe", detail=detail, location=where))], ""
        if change.same_content and change.status == "modified":
            return [], "only its file mode changed"
        if not change.is_file:
            return self._link(change)
        if is_pin_file(change.path):
            reasons = self._pin_reasons(change)
            if reasons is not None:
                return reasons
        if change.path.endswith(".py"):
            return self._python(change, owner)
        if change.path.endswith((".yaml", ".yml")):
            return self._yaml(change, owner)
        return self._other(change, owner)

    def _owner(self, path: str | None) -> str | None:
        if path is None or not path.startswith(f"{self.root}/"):
            return None
        name, slash, _ = path.removeprefix(f"{self.root}/").partition("/")
        return name if slash else None

    def _python(self, change: Change, owner: str | None) -> tuple[list[tuple[str, Reason]], str]:
        old_path = change.old_path
        trouble = _unparsable(self.new_python, None if change.status == "deleted" else change.path)
        trouble = trouble or _unparsable(self.old_python, old_path)
        if trouble is None and self._same_meaning(change):
            return [], "only comments, docstrings or formatting changed"
        runtime = _is_runtime(change.path) or _is_runtime(old_path or "")
        reasons: list[tuple[str, Reason]] = []
        why_not: list[str] = []
        for name in self.names:
            old, new = self._before[name], self._after[name]
            if owner == name or self._owner(old_path) == name:
                if new.is_test(change.path) and (old_path is None or old.is_test(old_path)):
                    found = list(_test_reasons(change, old, new, trouble))
                elif trouble is not None:
                    found = [_cannot_parse(trouble)]
                else:
                    found, why = source_reasons(change, old, new)
                    why_not += [why] if why else []
            elif trouble is None and runtime:
                found = [_runtime_reason(change, new)]
            else:
                found = list(_import_reasons(change, old, new, trouble))
            reasons += [(name, reason) for reason in found]
        if owner in self.gone:
            return reasons, f"recipe `{owner}` was deleted"
        default = "no recipe imports it" if owner is None else "no prefetch test imports it"
        return reasons, "; ".join(why_not) or default

    def _same_meaning(self, change: Change) -> bool:
        if change.status == "deleted" or change.old_path is None:
            return False
        if _moved(change):
            return False
        return fingerprint(self.old_python.syntax(change.old_path)) == fingerprint(
            self.new_python.syntax(change.path)
        )

    def _yaml(self, change: Change, owner: str | None) -> tuple[list[tuple[str, Reason]], str]:
        if owner in self.gone:
            return [], f"recipe `{owner}` was deleted"
        names = (
            [owner]
            if owner in self.names
            else [n for n in self.names if self._after[n].names_file(change.path)]
        )
        if not names:
            return [], "no recipe names this file"
        try:
            old = _entries(self.old, change.old_path)
            new = _entries(self.new, None if change.status == "deleted" else change.path)
        except UnparsableError as trouble:
            return [(str(n), _cannot_parse(trouble)) for n in names], ""
        difference = compare_configs(old, new)
        if difference.selecting:
            detail = _listing(difference.selecting)
            if change.status in ("added", "deleted"):
                detail = f"the config was {change.status}"
            where = Location(path=change.path, line=difference.line)
            reason = Reason(rule="config", detail=detail, location=where)
            return [(str(name), reason) for name in names], ""
        if difference.harmless:
            changed = _listing(difference.harmless)
            return [], f"only {changed} changed, which decides neither model nor sharding"
        if change.status == "renamed" and not change.same_content:
            return [], "it was renamed; its data is the same"
        if change.status == "renamed":
            return [], "it was renamed"
        return [], "only comments or formatting changed"

    def _pin_reasons(self, change: Change) -> tuple[list[tuple[str, Reason]], str] | None:
        old = _pins(self.old, change.old_path)
        new = _pins(self.new, None if change.status == "deleted" else change.path)
        if not old and not new:
            return None
        changed = [package for package in sorted(old.keys() | new.keys())
                   if old.get(package) != new.get(package)]  # fmt: skip
        if not changed:
            return [], "the releases of torch and transformers that it asks for are the same"
        found: list[tuple[str, Reason]] = []
        for package in changed:
            detail = (
                f"the {'base image' if package == 'image' else f'pin of {package}'} changed: "
                f"{_pinned(old.get(package))} → {_pinned(new.get(package))}"
            )
            reason = Reason(
                rule="dependency-pin", detail=detail, location=Location(path=change.path)
            )
            for name in self.names:
                recipe = self._after[name]
                if package == "transformers" and not _may_use(recipe, package):
                    continue
                found.append((name, reason))
        return found, "no recipe imports the package whose pin changed"

    def _other(self, change: Change, owner: str | None) -> tuple[list[tuple[str, Reason]], str]:
        if owner in self.gone:
            return [], f"recipe `{owner}` was deleted"
        where = Location(path=change.path)
        if owner in self.names:
            recipe = self._after[str(owner)]
            if recipe.is_prefetch_test(change.path):
                detail = f"`{change.path}`, a file of the prefetch tests, {_verb(change)}"
                return [
                    (str(owner), Reason(rule="prefetch-test", detail=detail, location=where))
                ], ""
        if _is_document(change.path):
            return [], "documentation, which no recipe runs"
        named = [n for n in self.names if self._after[n].names_file(change.path)]
        if owner in self.names and owner not in named:
            return [], "no code or config of the recipe names this file"
        if owner is None or owner not in self.names:
            return [], "not Python, not a recipe's config, not a pinned dependency"
        detail = f"`{change.path}` {_verb(change)}, and the recipe's code or configs name it"
        return [(n, Reason(rule="unknown", detail=detail, location=where)) for n in named], ""

    def _link(self, change: Change) -> tuple[list[tuple[str, Reason]], str]:
        """A symbolic link or a submodule: what it leads to lies outside what can be compared."""
        top = change.path.split("/")[0]
        where = Location(path=change.path)
        found: list[tuple[str, Reason]] = []
        for name in self.names:
            recipe = self._after[name]
            if (
                self._owner(change.path) == name
                or top in recipe.external_packages
                or recipe.names_file(change.path)
            ):
                detail = (
                    f"`{change.path}`, a link or submodule whose content is not compared, "
                    f"{_verb(change)}"
                )
                found.append((name, Reason(rule="unknown", detail=detail, location=where)))
        return found, "a link or submodule that no recipe names"


def selected(outcome: Outcome, root: str) -> tuple[SelectedRecipe, ...]:
    """Return the recipes that have reasons, by name."""
    return tuple(
        SelectedRecipe(name=name, path=f"{root}/{name}", reasons=tuple(reasons))
        for name, reasons in sorted(outcome.reasons.items())
    )


def _test_reasons(
    change: Change, old: RecipeAt, new: RecipeAt, trouble: UnparsableError | None
) -> Iterator[Reason]:
    if new.is_prefetch_test(change.path) or (
        change.old_path is not None and old.is_prefetch_test(change.old_path)
    ):
        if trouble is not None:
            yield _cannot_parse(trouble)
            return
        detail = f"the prefetch test `{change.path.rpartition('/')[2]}` {_verb(change)}"
        yield Reason(rule="prefetch-test", detail=detail, location=Location(path=change.path))
        return
    yield from _import_reasons(change, old, new, trouble)


def _import_reasons(
    change: Change, old: RecipeAt, new: RecipeAt, trouble: UnparsableError | None
) -> Iterator[Reason]:
    chain: tuple[str, ...] = ()
    if change.status != "deleted" and change.path in new.closure.importer:
        chain = new.closure.chain(change.path)
    elif change.old_path is not None and change.old_path in old.closure.importer:
        chain = old.closure.chain(change.old_path)
    if chain:
        if trouble is not None:
            yield _cannot_parse(trouble, chain)
        else:
            detail = f"the module `{change.path}` {_verb(change)}"
            yield Reason(
                rule="imported-module",
                detail=detail,
                location=Location(path=change.path),
                chain=chain,
            )
    elif new.closure.unknown:
        where = new.closure.unknown[0]
        detail = f"`{change.path}` {_verb(change)}, and what the recipe imports here is not known"
        yield Reason(rule="unknown", detail=detail, location=where)


def _runtime_reason(change: Change, recipe: RecipeAt) -> Reason:
    chain = recipe.closure.chain(change.path) if change.path in recipe.closure.importer else ()
    detail = f"the runtime `{change.path}`, which shards every recipe, {_verb(change)}"
    return Reason(rule="runtime", detail=detail, location=Location(path=change.path), chain=chain)


def _is_runtime(path: str) -> bool:
    """Tell whether a module lies in the package that wraps models, `<package>/distributed/`."""
    return re.match(r"(src/)?[^/]+/distributed/", path) is not None


def _cannot_parse(trouble: UnparsableError, chain: tuple[str, ...] = ()) -> Reason:
    detail = f"it cannot be compared: {trouble.why}"
    return Reason(rule="unparsable", detail=detail, location=trouble.location, chain=chain)


def _unparsable(python: PythonTree, path: str | None) -> UnparsableError | None:
    if path is None:
        return None
    try:
        python.syntax(path)
    except UnparsableError as trouble:
        return trouble
    except KeyError:
        return UnparsableError(Location(path=path), "it is too large to be read as source")
    return None


def _moved(change: Change) -> bool:
    return change.old_path is not None and change.old_path != change.path


def _verb(change: Change) -> str:
    match change.status:
        case "added":
            return "was added"
        case "deleted":
            return "was deleted"
        case "renamed":
            return f"was renamed from `{change.old_path}`"
        case _:
            return "changed"


def _entries(tree: Tree, path: str | None) -> dict[str, Entry]:
    if path is None or not path.endswith((".yaml", ".yml")):
        return {}
    try:
        return read_yaml(path, tree.read(path))
    except KeyError:
        raise UnparsableError(Location(path=path), "it is too large to be read") from None


def _pins(tree: Tree, path: str | None) -> dict[str, tuple[str, ...]]:
    if path is None or path not in tree:
        return {}
    try:
        return pins(path, tree.read(path).decode(errors="replace"))
    except KeyError:
        return {}


def _pinned(statements: tuple[str, ...] | None) -> str:
    if not statements:
        return "nothing"
    return ", ".join(f"`{statement[:80]}`" for statement in statements[:3])


def _may_use(recipe: RecipeAt, package: str) -> bool:
    return package in recipe.external_packages or bool(recipe.closure.unknown)


def _is_document(path: str) -> bool:
    name = path.rpartition("/")[2].lower()
    return name.endswith(_DOCUMENTS) or name in ("license", "notice", "authors", "codeowners")


def _listing(items: tuple[str, ...], most: int = 3) -> str:
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"
