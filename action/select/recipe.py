"""One recipe at one commit: its files by kind, what they import, and what in them counts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from action.repository.python import PythonTree
from action.repository.syntax import UnparsableError, imports_in
from action.repository.tree import Tree
from action.repository.yaml_file import Entry, read_yaml
from action.select.closure import Closure, import_closure
from action.select.engines import Blind, engine_names
from action.select.parts import module_parts
from action.select.reach import Reach, reach_of

_MARKS = re.compile(r"^(engine|model|models|modeling[^/]*)(\.py$|/.*\.py$)|^configs?/.*\.ya?ml$")
_START = re.compile(r"^(engine|model|models|modeling[^/]*|__init__)(\.py$|/)")
_PREFETCH_TESTS = re.compile(
    r"^tests/(test_structure\.py|test_smoke\.py|skills/fsdp2-prefetching/.+|(.+/)?conftest\.py)$"
)
_ANY_FILE = "\0"
_LISTING = frozenset(("glob", "iglob", "rglob", "iterdir", "listdir", "scandir", "walk"))


def recipe_names(tree: Tree, recipes_root: str) -> tuple[str, ...]:
    """Return the names of the folders under `recipes_root` that hold a recipe.

    A recipe has an engine, a model or configs; a folder without any is shared code.
    """
    names: set[str] = set()
    for path in (*tree.paths(), *tree.links()):
        inner = path.removeprefix(f"{recipes_root}/")
        name, slash, rest = inner.partition("/")
        if inner != path and slash and _MARKS.match(rest):
            names.add(name)
    return tuple(sorted(names))


@dataclass(frozen=True)
class Mention:
    """Where a recipe names a file, and whether that place counts for the model or its tests."""

    place: str
    counts: bool


class RecipeAt:
    """A recipe in a tree; everything is computed when first asked for, and kept."""

    def __init__(self, tree: Tree, python: PythonTree, path: str) -> None:
        self.tree = tree
        self.python = python
        self.path = path

    @cached_property
    def files(self) -> frozenset[str]:
        """All files of the recipe."""
        return frozenset(p for p in self.tree.paths() if self.owns(p))

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

    @cached_property
    def outer_conftests(self) -> tuple[str, ...]:
        """The `conftest.py` files above the recipe's tests, which pytest loads with them."""
        if not self.prefetch_tests:
            return ()
        folders = self.path.split("/")
        above = ["/".join(folders[:end]) for end in range(len(folders) + 1)]
        found = (f"{folder}/conftest.py".removeprefix("/") for folder in above)
        return tuple(path for path in found if path in self.tree)

    def owns(self, path: str | None) -> bool:
        """Tell whether a path lies in the recipe's folder."""
        return path is not None and path.startswith(f"{self.path}/")

    def is_test(self, path: str) -> bool:
        """Tell whether a file lies in the recipe's `tests/`."""
        return path.startswith(f"{self.path}/tests/")

    def is_prefetch_test(self, path: str | None) -> bool:
        """Tell whether a file belongs to the structure, smoke or edge tests."""
        return self.owns(path) and bool(
            _PREFETCH_TESTS.match(str(path).removeprefix(f"{self.path}/"))
        )

    @cached_property
    def configs(self) -> dict[str, dict[str, Entry]]:
        """The recipe's YAML files that can be read, as data."""
        found: dict[str, dict[str, Entry]] = {}
        for path in sorted(self.files):
            if path.endswith((".yaml", ".yml")) and not self.is_test(path):
                try:
                    found[path] = read_yaml(path, self.tree.read(path))
                except (UnparsableError, KeyError):
                    continue
        return found

    @cached_property
    def engine_modules(self) -> tuple[str, ...]:
        """The modules of engines outside the recipe, which configs name as `package.module:Class`.

        A registered name is looked for where the recipe's own engine module would be missing.
        """
        found: dict[str, None] = {}
        for entries in self.configs.values():
            name = str(entries["engine"].value) if "engine" in entries else ""
            module = re.split(r"[:.](?=[^:.]*$)", name)[0] if re.search(r"[.:]", name) else ""
            path = self.python.module_path(module) if module else None
            if path is not None and not self.owns(path):
                found[path] = None
            elif name and not module and not self._has_engine_module:
                found.update(dict.fromkeys(self._registering(name)))
        return tuple(found)

    @cached_property
    def _has_engine_module(self) -> bool:
        return any(re.match(r"engine(\.py$|/)", p[len(self.path) + 1 :]) for p in self.source)

    def _registering(self, name: str) -> Iterator[str]:
        decorator = re.compile(rf"register_engine\(\s*['\"]{re.escape(name)}['\"]".encode())
        for path in self.python.paths:
            try:
                if decorator.search(self.tree.read(path)):
                    yield path
            except KeyError:
                continue

    @cached_property
    def starts(self) -> tuple[str, ...]:
        """The recipe's own modules that define models or engines; other files may be scripts."""
        found = [path for path in self.source if self._is_start(path)]
        return tuple(found) or self.source

    def _is_start(self, path: str) -> bool:
        if _START.match(path.removeprefix(f"{self.path}/")):
            return True
        try:
            classes = self.python.classes(path)
            engines = engine_names(self.python, path)
        except (UnparsableError, KeyError):
            return True
        return bool(engines) or any(self.python.is_module_class(cls) for cls in classes)

    @cached_property
    def closure(self) -> Closure:
        """What the recipe's models, its engine and its prefetch tests import."""
        starts = (*self.starts, *self.prefetch_tests, *self.engine_modules, *self.outer_conftests)
        return import_closure(self.python, starts)

    @cached_property
    def reach(self) -> Reach:
        """What counts in the recipe's own modules."""
        return reach_of(self.python, self.source, frozenset(self.closure.importer))

    @cached_property
    def blind(self) -> tuple[Blind, ...]:
        """Where the source cannot tell what the recipe imports or reaches, with a sentence."""
        return self.reach.blind

    @cached_property
    def target_names(self) -> frozenset[str]:
        """The class names that FSDP2 is told to wrap, by configs and by the models' lists."""
        listed = (
            str(entry.value)
            for entries in self.configs.values()
            for key, entry in entries.items()
            if re.search(r"\.fsdp2\.(target_classes|high_precision_modules)\[\d+\]$", key)
        )
        return self.reach.targets | frozenset(listed)

    @cached_property
    def external_modules(self) -> frozenset[str]:
        """The dotted names of modules outside the repository that the recipe's closure imports."""
        found: set[str] = set()
        for path in self.closure.importer:
            if path in self.closure.unreadable:
                continue
            for imported in imports_in(self.python.syntax(path)):
                name = self.python.absolute(path, imported.module)
                if self.python.module(name, path) is None:
                    found.add(name if imported.name in (None, "*") else f"{name}.{imported.name}")
        return frozenset(found)

    def imports_external(self, package: str) -> bool:
        """Tell whether the recipe's closure imports `package` or something of it."""
        return any(
            name == package or name.startswith(f"{package}.") for name in self.external_modules
        )

    @cached_property
    def _texts(self) -> tuple[tuple[str, Mention], ...]:
        """Every string of the configs and of the code that the recipe runs, with its place."""
        found: list[tuple[str, Mention]] = []
        for path, entries in self.configs.items():
            found += [(str(e.value), Mention(f"{path}:{e.line}", True)) for e in entries.values()]
        for path, parts in self.reach.parts.items():
            for name, part in parts.items():
                mention = Mention(f"`{name}` in {path}", (path, name) in self.reach.reached)
                found += [(text, mention) for text in part.strings]
                if _LISTING & part.mentions and mention.counts:
                    found.append(
                        (_ANY_FILE, Mention(f"{mention.place}, which lists folders,", True))
                    )
        for path in self.closure.importer:
            if path not in self.reach.parts and path not in self.closure.unreadable:
                for part in module_parts(self.python.syntax(path)).values():
                    found += [(text, Mention(path, True)) for text in part.strings]
        return tuple(found)

    def mention_of(self, path: str) -> Mention | None:
        """Return where the recipe names a file by its base name, a place that counts first.

        In the recipe's own folder, code that lists folders names every file, and a bare suffix
        (`f"{name}.json"`) all files that end in it. A config may be named without its suffix.
        """
        name = path.rpartition("/")[2]
        suffix = PurePosixPath(name).suffix
        named = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")
        found = [
            mention
            for text, mention in self._texts
            if (text == _ANY_FILE and self.owns(path))
            or (suffix and text in (suffix, f"*{suffix}") and self.owns(path))
            or named.search(text)
            or (suffix in (".yaml", ".yml") and text.rpartition("/")[2] == PurePosixPath(name).stem)
        ]
        return max(found, key=lambda mention: mention.counts, default=None)
