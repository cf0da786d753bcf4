"""Which modules of the repository a recipe imports, and through which files."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from action.repository.python import PythonTree
from action.repository.syntax import UnparsableError, dotted


@dataclass(frozen=True)
class Closure:
    """The import closure of some files.

    `importer` maps every file reached to the file that imports it, None for the files started from.
    `unreadable` are files whose own imports cannot be known, with the reason.
    """

    importer: dict[str, str | None]
    unreadable: dict[str, str]

    def chain(self, path: str) -> tuple[str, ...]:
        """Return the files from `path` to one of those started from, in the order of imports."""
        found = [path]
        while (following := self.importer[found[-1]]) is not None:
            found.append(following)
        return tuple(found)


def import_closure(python: PythonTree, starts: Iterable[str]) -> Closure:
    """Return every file that importing the files `starts` may run; shortest chains win.

    A package that imports its submodules by computed names imports all of them.
    """
    importer: dict[str, str | None] = dict.fromkeys(starts)
    unreadable: dict[str, str] = {}
    queue = deque(importer)
    while queue:
        path = queue.popleft()
        try:
            imported = [module.path for module in python.imports(path)]
            imported += _computed(python, path)
        except UnparsableError as trouble:
            unreadable[path] = trouble.why
            imported = []
        except KeyError:
            unreadable[path] = "it is too large to be read as source"
            imported = []
        for module in (*imported, *_packages_above(python, path)):
            if module not in importer:
                importer[module] = path
                queue.append(module)
    return Closure(importer, unreadable)


def _packages_above(python: PythonTree, path: str) -> Iterator[str]:
    """Yield the `__init__.py` files that Python runs before the module in `path`."""
    folder = path.rpartition("/")[0]
    while folder:
        package = f"{folder}/__init__.py"
        if package in python.tree and package != path:
            yield package
        folder = folder.rpartition("/")[0]


def _computed(python: PythonTree, path: str) -> Iterator[str]:
    """Yield the modules of the own package that a package may import by names made at run time."""
    if not path.endswith("/__init__.py"):
        return
    package = path.removesuffix("__init__.py")
    root = python.syntax(path)
    tables = {
        name
        for name, found in python.scope_bindings(root).names.items()
        if all(isinstance(binding.node, ast.Dict) for binding in found)
    }
    for node in ast.walk(root):
        if (
            isinstance(node, ast.Call)
            and (dotted(node.func) or "").split(".")[-1] in ("import_module", "__import__")
            and node.args
            and not isinstance(node.args[0], ast.Constant)
            and not _looked_up_in(node.args[0], tables)
        ):
            yield from (p for p in python.paths if p.startswith(package) and p != path)
            return


def _looked_up_in(node: ast.expr, tables: set[str]) -> bool:
    """Tell whether a module's name comes from a literal table, whose entries count as imports."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id in tables
    )
