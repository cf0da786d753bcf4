"""The Python modules of a tree: their files, their syntax, and what they import."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property

from action.records import Location
from action.repository.run_time_imports import (
    is_import_call,
    literal_argument,
    literal_imports,
)
from action.repository.syntax import (
    Bindings,
    Function,
    UnparsableError,
    bindings,
    imports_in,
    parse,
)
from action.repository.targets import ModuleRef
from action.repository.tree import Tree

_SOURCE_ROOTS = ("", "src/")


@dataclass(frozen=True)
class ImportedModule:
    """A module of the tree that a file imports, and the line on which it does."""

    path: str
    line: int


class ModuleTree:
    """The modules of one tree. Parsed files are kept for the tree's lifetime."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._syntax: dict[str, ast.Module | UnparsableError] = {}
        self._bindings: dict[int, tuple[ast.AST, Bindings]] = {}

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The paths of all Python files."""
        return tuple(path for path in self.tree.paths() if path.endswith(".py"))

    @cached_property
    def _folders(self) -> frozenset[str]:
        folders: set[str] = set()
        for path in self.paths:
            while "/" in path:
                path = path.rpartition("/")[0]
                folders.add(path)
        return frozenset(folders)

    def syntax(self, path: str) -> ast.Module:
        """Return a file's syntax tree.

        Raises:
            KeyError: the tree has no such file.
            UnparsableError: it is not Python that can be read.
        """
        if path not in self._syntax:
            try:
                self._syntax[path] = parse(path, self.tree.read(path))
            except UnparsableError as trouble:
                self._syntax[path] = trouble
        found = self._syntax[path]
        if isinstance(found, UnparsableError):
            raise found
        return found

    def module_path(self, name: str) -> str | None:
        """Return the file of a module by its dotted name, or None when the tree has none."""
        for root in _SOURCE_ROOTS:
            stem = root + name.replace(".", "/")
            for path in (f"{stem}/__init__.py", f"{stem}.py"):
                if path in self.tree:
                    return path
        return None

    def module_name(self, path: str) -> str:
        """Return the dotted name of the module in a file."""
        stem = path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__")
        return stem.replace("/", ".")

    def module(self, name: str, importer: str | None = None) -> ModuleRef | None:
        """Return the module that `name` means in the file `importer`, or None outside the tree.

        A script's own folder is searched too, as Python does for the file that it runs.
        """
        path = self.module_path(name)
        if path is not None:
            return ModuleRef(name, path)
        if any(root + name.replace(".", "/") in self._folders for root in _SOURCE_ROOTS):
            return ModuleRef(name, None)
        if importer is not None and "/" in importer:
            beside = f"{importer.rpartition('/')[0]}/{name.replace('.', '/')}"
            for path in (f"{beside}.py", f"{beside}/__init__.py"):
                if path in self.tree:
                    return ModuleRef(self.module_name(path), path)
        return None

    def absolute(self, path: str, module: str) -> str:
        """Return the absolute dotted name of `module` as written in an import of `path`."""
        level = len(module) - len(module.lstrip("."))
        if level == 0:
            return module
        parts = self.module_name(path).split(".")
        if not path.endswith("/__init__.py"):
            parts = parts[:-1]
        parts = parts[: len(parts) - (level - 1)]
        return ".".join([*parts, *filter(None, [module[level:]])])

    def imports(self, path: str) -> tuple[ImportedModule, ...]:
        """Return every module of the tree that running `path` may import, anywhere in the file.

        Packages on the way count, since Python runs their `__init__.py`; so do imports in functions
        and `if TYPE_CHECKING`, and `importlib.import_module` of a literal.
        """
        found: dict[str, int] = {}

        def add(name: str, line: int) -> None:
            parts = name.split(".")
            for end in range(1, len(parts) + 1):
                module = self.module(".".join(parts[:end]), path)
                if module is not None and module.path not in (None, path):
                    found.setdefault(str(module.path), line)

        root = self.syntax(path)
        for imported in imports_in(root):
            name = self.absolute(path, imported.module)
            add(name, imported.line)
            if imported.name not in (None, "*"):
                add(f"{name}.{imported.name}", imported.line)
        for name, line in literal_imports(root):
            add(self.absolute(path, name) if name.startswith(".") else name, line)
        return tuple(ImportedModule(module, line) for module, line in found.items())

    def dynamic_imports(self, path: str) -> tuple[Location, ...]:
        """Return the lines of `path` that import a module whose name is not a literal."""
        return tuple(
            Location(path=path, line=node.lineno)
            for node in ast.walk(self.syntax(path))
            if isinstance(node, ast.Call) and is_import_call(node) and not literal_argument(node)
        )

    def scope_bindings(self, scope: ast.Module | ast.ClassDef | Function) -> Bindings:
        """Return what a scope binds."""
        kept = self._bindings.get(id(scope))
        if kept is None:
            # The node is kept beside the result so that its id cannot be given to another.
            kept = self._bindings[id(scope)] = (scope, bindings(scope))
        return kept[1]
