"""Which modules of the repository a recipe imports, and through which files."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from action.records import Location
from action.repository.python import PythonTree
from action.repository.syntax import UnparsableError


@dataclass(frozen=True)
class Closure:
    """The import closure of some files.

    `importer` maps every file reached to the file that imports it, None for the files started from;
    `unknown` are places in the starting files where an import cannot be known.
    """

    importer: dict[str, str | None]
    unknown: tuple[Location, ...]

    def chain(self, path: str) -> tuple[str, ...]:
        """Return the files from `path` to one of those started from, in the order of imports."""
        found = [path]
        while (following := self.importer[found[-1]]) is not None:
            found.append(following)
        return tuple(found)


def import_closure(python: PythonTree, starts: Iterable[str]) -> Closure:
    """Return every file that importing the files `starts` may run; shortest chains win."""
    importer: dict[str, str | None] = dict.fromkeys(starts)
    unknown: list[Location] = []
    queue = deque(importer)
    while queue:
        path = queue.popleft()
        try:
            imported = python.imports(path)
            if importer[path] is None:
                unknown += python.dynamic_imports(path)
        except UnparsableError as trouble:
            if importer[path] is None:
                unknown.append(trouble.location)
            continue
        for module in imported:
            if module.path not in importer:
                importer[module.path] = path
                queue.append(module.path)
    return Closure(importer, tuple(unknown))
