"""One recipe at one commit: its files by kind, what they import, and what in them counts."""

from __future__ import annotations

import re
from functools import cached_property

from action.repository.python import External, PythonTree
from action.repository.syntax import UnparsableError, imports_in
from action.repository.tree import Tree
from action.repository.yaml_file import Entry, read_yaml
from action.select.closure import Closure, import_closure
from action.select.reach import Reach, reach_of

_MARKS = re.compile(r"^(engine|model|models|modeling[^/]*)(\.py$|/.*\.py$)|^configs?/.*\.ya?ml$")
_PREFETCH_TESTS = re.compile(
    r"^tests/(test_structure\.py|test_smoke\.py|skills/fsdp2-prefetching/.+|(.+/)?conftest\.py)$"
)


def recipe_names(tree: Tree, recipes_root: str) -> tuple[str, ...]:
    """Return the names of the folders under `recipes_root` that hold a recipe.

    A recipe has an engine, a model or configs; a folder without any is shared code.
    """
    names: set[str] = set()
    for path in tree.paths():
        inner = path.removeprefix(f"{recipes_root}/")
        name, slash, rest = inner.partition("/")
        if inner != path and slash and _MARKS.match(rest):
            names.add(name)
    return tuple(sorted(names))


class RecipeAt:
    """A recipe in a tree; everything is computed when first asked for, and kept."""

    def __init__(self, tree: Tree, python: PythonTree, path: str) -> None:
        self.tree = tree
        self.python = python
        self.path = path

    @cached_property
    def files(self) -> frozenset[str]:
        """All files of the recipe."""
        return frozenset(p for p in self.tree.paths() if p.startswith(f"{self.path}/"))

    @cached_property
    def source(self) -> tuple[str, ...]:
        """The recipe's own modules, tests left out."""
        return tuple(sorted(p for p in self.files if p.endswith(".py") and not self.is_test(p)))

    @cached_property
    def prefetch_tests(self) -> tuple[str, ...]:
        """The Python files of the tests that validate prefetching."""
        return tuple(
            sorted(p for p in self.files if p.endswith(".py") and self.is_prefetch_test(p))
        )

    def is_test(self, path: str) -> bool:
        """Tell whether a file lies in the recipe's `tests/`."""
        return path.startswith(f"{self.path}/tests/")

    def is_prefetch_test(self, path: str) -> bool:
        """Tell whether a file belongs to the structure, smoke or edge tests."""
        inner = path.removeprefix(f"{self.path}/")
        return inner != path and _PREFETCH_TESTS.match(inner) is not None

    @cached_property
    def closure(self) -> Closure:
        """What the recipe's modules and prefetch tests import."""
        return import_closure(self.python, (*self.source, *self.prefetch_tests))

    @cached_property
    def reach(self) -> Reach:
        """What counts in the recipe's own modules."""
        return reach_of(self.python, self.source)

    @cached_property
    def target_names(self) -> frozenset[str]:
        """The class names that FSDP2 is told to wrap, by configs and by the models' lists."""
        names: set[str] = set()
        for path in self.files:
            if path.endswith((".yaml", ".yml")):
                try:
                    entries = read_yaml(path, self.tree.read(path))
                except (UnparsableError, KeyError):
                    continue
                names.update(_listed(entries))
        for parts in self.reach.parts.values():
            for part in parts.values():
                if "_no_split_modules" in part.mentions:
                    names.update(part.mentions)
        return frozenset(names)

    @cached_property
    def external_packages(self) -> frozenset[str]:
        """The top-level packages outside the repository that the recipe's closure imports."""
        found: set[str] = set()
        for path in self.closure.importer:
            try:
                root = self.python.syntax(path)
            except UnparsableError:
                continue
            for imported in imports_in(root):
                name = self.python.absolute(path, imported.module)
                if self.python.module(name, path) is None:
                    found.add(External(name).name.split(".")[0])
        return frozenset(found)

    @cached_property
    def _text(self) -> str:
        readable = (p for p in sorted(self.files) if p.endswith((".py", ".yaml", ".yml")))
        found = []
        for path in readable:
            try:
                found.append(self.tree.read(path).decode(errors="replace"))
            except KeyError:
                continue
        return "\n".join(found)

    def names_file(self, path: str) -> bool:
        """Tell whether the recipe's code or configs mention a file by its base name."""
        return path.rpartition("/")[2] in self._text


def _listed(entries: dict[str, Entry]) -> set[str]:
    return {
        str(entry.value)
        for key, entry in entries.items()
        if re.search(r"\.fsdp2\.(target_classes|high_precision_modules)\[\d+\]$", key)
    }
