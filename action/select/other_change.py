"""What a change to anything but Python means: configs, pins, documents, data, links."""

from __future__ import annotations

from dataclasses import replace
from posixpath import dirname, join, normpath

from action.records import Location, Reason
from action.repository.diff import Change
from action.repository.syntax import UnparsableError
from action.repository.tree import Tree
from action.repository.yaml_file import Entry, read_yaml
from action.select.configs import compare_configs
from action.select.pins import is_pin_file, pin_line, pins
from action.select.python_change import Judged, happened
from action.select.recipe import RecipeAt
from action.select.source_change import listing

_DOCUMENTS = (".md", ".rst", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".pdf", ".ipynb")
_PIN_WORDS = {"index": "index of torch", "image": "base image"}
YAML = (".yaml", ".yml")


def config_reasons(change: Change, old: RecipeAt, new: RecipeAt) -> Judged:
    """Return what a changed YAML file of a recipe, or one that the recipe names, means for it."""
    came_from = change.old_path if change.old_path and change.old_path.endswith(YAML) else None
    if new.owns(change.path) and not new.owns(came_from):
        came_from = None  # it moved here from elsewhere: new to this recipe
    goes_to = None if change.status == "deleted" else change.path
    if new.owns(came_from) and not new.owns(change.path):
        goes_to = None
    try:
        before, after = _entries(old.tree, came_from), _entries(new.tree, goes_to)
    except UnparsableError as trouble:
        detail = f"`{trouble.location.path}` cannot be compared: {trouble.why}"
        where = Location(path=change.path, line=trouble.location.line)
        return [Reason(rule="unparsable", detail=detail, location=where)], ""
    difference = compare_configs(before, after, old.reach.config_reads | new.reach.config_reads)
    if difference.selecting:
        detail = listing(difference.selecting)
        if came_from is None or goes_to is None:
            detail = f"the config was {'added' if came_from is None else 'deleted'}"
        where = Location(path=change.path, line=difference.line)
        return [Reason(rule="config", detail=detail, location=where)], ""
    if difference.harmless:
        changed = listing(difference.harmless)
        return [], f"only {changed} changed, which decides neither model nor sharding"
    if change.status == "renamed":
        return [], "it was renamed" + ("" if change.same_content else "; its data is the same")
    return [], "only comments or formatting changed"


class PinChange:
    """The releases of torch and transformers that a file asked for before and asks for now."""

    def __init__(self, change: Change, old: Tree, new: Tree) -> None:
        self.change = change
        self.trouble: UnparsableError | None = None
        after = None if change.status == "deleted" else change.path
        self._content = _content(new, after)
        try:
            self.before = _pins(old, change.old_path)
            self.after = _pins(new, after)
        except UnparsableError as trouble:
            self.trouble = trouble
            self.before = self.after = {}

    @property
    def says_nothing(self) -> bool:
        """Whether neither side states a release."""
        return self.trouble is None and not self.before and not self.after

    def reasons(self, recipe: RecipeAt) -> Judged:
        """Return the reasons that this gives a recipe."""
        if self.trouble is not None:
            detail = f"`{self.change.path}` cannot be compared: {self.trouble.why}"
            where = Location(path=self.change.path, line=self.trouble.location.line)
            return [Reason(rule="unparsable", detail=detail, location=where)], ""
        changed = [
            what
            for what in sorted(self.before.keys() | self.after.keys())
            if self.before.get(what) != self.after.get(what)
        ]
        reasons = [self._reason(what) for what in changed if _may_use(recipe, what)]
        if not changed:
            return [], "the releases of torch and transformers that it asks for are the same"
        return reasons, "no recipe imports transformers, whose pin changed"

    def _reason(self, what: str) -> Reason:
        detail = (
            f"the {_PIN_WORDS.get(what, f'pin of {what}')} changed: "
            f"{_stated(self.before.get(what))} → {_stated(self.after.get(what))}"
        )
        line = pin_line(self.change.path, self._content, what)
        where = Location(path=self.change.path, line=line)
        return Reason(rule="dependency-pin", detail=detail, location=where)


def pin_change(change: Change, old: Tree, new: Tree) -> PinChange | None:
    """Return what changed in a file that states dependencies, None for any other file."""
    paths = [path for path in (change.path, change.old_path) if path is not None]
    if not any(is_pin_file(path) for path in paths):
        return None
    if change.old_path is not None and not is_pin_file(change.old_path):
        change = replace(change, old_path=None)
    return PinChange(change, old, new)


def other_reasons(change: Change, old: RecipeAt, new: RecipeAt) -> Judged:
    """Return what a changed file of any other kind means for a recipe."""
    where = Location(path=change.path)
    if is_document(change.path):
        return [], "documentation, which no recipe runs"
    if new.is_prefetch_test(change.path) or old.is_prefetch_test(change.old_path):
        detail = f"`{change.path}`, a file of the prefetch tests, {happened(change)}"
        return [Reason(rule="prefetch-test", detail=detail, location=where)], ""
    if change.path.removeprefix("src/").startswith("mvp_engine/distributed/"):
        detail = f"the runtime's file `{change.path}` {happened(change)}"
        return [Reason(rule="runtime", detail=detail, location=where)], ""
    mention = new.mention_of(change.path) or old.mention_of(change.old_path or change.path)
    if mention is not None and mention.counts:
        detail = f"`{change.path}` {happened(change)}, and {mention.place} names it"
        return [Reason(rule="unknown", detail=detail, location=where)], ""
    if mention is not None:
        return (
            [],
            f"only {mention.place} names it, which nothing that builds or runs the model mentions",
        )
    if new.owns(change.path):
        return [], "no code or config of the recipe names this file"
    return [], ""


def link_reasons(change: Change, new: RecipeAt) -> Judged:
    """Return what a changed symbolic link or submodule means: its content is not compared."""
    dotted = change.path.removesuffix(".py").replace("/", ".")
    package = change.path.rpartition("/")[2]
    if (
        new.owns(change.path)
        or new.imports_external(dotted)
        or new.imports_external(package)
        or new.mention_of(change.path) is not None
    ):
        detail = (
            f"`{change.path}`, a link or submodule whose content is not compared, "
            f"{happened(change)}"
        )
        return [Reason(rule="unknown", detail=detail, location=Location(path=change.path))], ""
    return [], "a link or submodule that no recipe names"


def linked_reasons(change: Change, new: RecipeAt) -> list[Reason]:
    """Return the reasons of a change to a file that the recipe sees through a symbolic link."""
    for link, target in new.tree.links().items():
        place = normpath(join(dirname(link), target))
        for path in (change.path, change.old_path or change.path):
            if path != place and not path.startswith(f"{place}/"):
                continue
            alias = (link + path[len(place) :]).removesuffix(".py").replace("/", ".")
            if new.owns(link) or new.imports_external(alias):
                detail = f"`{path}` {happened(change)}, and the link `{link}` leads to it"
                where = Location(path=change.path)
                return [Reason(rule="unknown", detail=detail, location=where)]
    return []


def is_document(path: str) -> bool:
    """Tell whether a file is prose or a picture."""
    name = path.rpartition("/")[2].lower()
    return name.endswith(_DOCUMENTS) or name in ("license", "notice", "authors", "codeowners")


def _entries(tree: Tree, path: str | None) -> dict[str, Entry]:
    if path is None or not path.endswith(YAML) or path in tree.links():
        return {}
    try:
        return read_yaml(path, tree.read(path))
    except KeyError:
        raise UnparsableError(Location(path=path), "it is too large to be read") from None


def _content(tree: Tree, path: str | None) -> bytes:
    if path is None or path not in tree:
        return b""
    try:
        return tree.read(path)
    except KeyError:
        return b""


def _pins(tree: Tree, path: str | None) -> dict[str, tuple[str, ...]]:
    content = _content(tree, path)
    return pins(path, content) if path is not None and content else {}


def _stated(releases: tuple[str, ...] | None) -> str:
    if releases is None:
        return "nothing"
    return ", ".join(f"`{release[:80]}`" if release else "any" for release in releases[:3])


def _may_use(recipe: RecipeAt, what: str) -> bool:
    if what != "transformers":
        return True
    unsure = bool(recipe.blind or recipe.closure.unreadable)
    return unsure or recipe.imports_external("transformers")
