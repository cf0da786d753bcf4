"""What a name in Python source can turn out to be."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from action.records import Location, Symbol
from action.repository.syntax import Function


@dataclass(frozen=True)
class Definition:
    """A class, a function or an assigned value in a module of the tree.

    `name` is its name within the module (`Outer.Inner`), `module` the module's dotted name.
    """

    path: str
    module: str
    name: str
    node: ast.ClassDef | Function | ast.expr

    @property
    def qualified(self) -> str:
        """The dotted name from the root of the tree."""
        return f"{self.module}.{self.name}"

    @property
    def location(self) -> Location:
        """Where it is defined."""
        return Location(path=self.path, line=self.node.lineno)

    @property
    def symbol(self) -> Symbol:
        """The same as a record."""
        return Symbol(name=self.qualified, location=self.location)

    @property
    def is_class(self) -> bool:
        """Whether this is a class."""
        return isinstance(self.node, ast.ClassDef)

    @property
    def is_function(self) -> bool:
        """Whether this is a function."""
        return isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef)


@dataclass(frozen=True)
class ModuleRef:
    """A module or package of the tree; `path` is None for a folder without `__init__.py`."""

    name: str
    path: str | None


@dataclass(frozen=True)
class External:
    """A name from outside the tree, such as `torch.nn.Module`."""

    name: str


@dataclass(frozen=True)
class Unresolved:
    """A name that the source alone does not settle."""

    location: Location
    why: str


Target: TypeAlias = Definition | ModuleRef | External | Unresolved


def is_foreign(target: External, packages: Iterable[str] = ()) -> bool:
    """Tell whether a name comes from the standard library or from one of `packages`."""
    top = target.name.split(".")[0]
    return (
        top == "builtins"
        or top in sys.stdlib_module_names
        or any(target.name == p or target.name.startswith(f"{p}.") for p in packages)
    )
