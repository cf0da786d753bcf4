"""What a name in a builder's source may hold: classes, their instances, functions, or unknown."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from action.records import Location
from action.repository.python import Definition, ModuleRef
from action.repository.syntax import Function


class TooMuchError(Exception):
    """The source asks for more steps than any builder or hook needs."""


@dataclass(frozen=True)
class Instance:
    """An object of a class of the tree.

    `hidden` are the wrappers put around it before it was sharded, each with its call; `sharded`
    tells whether it went through `parallelize_model`.
    """

    cls: Definition
    hidden: tuple[tuple[Location, str], ...] = ()
    sharded: bool = False


@dataclass(frozen=True)
class ClassValue:
    """A class of the tree."""

    cls: Definition


@dataclass(frozen=True)
class FunctionValue:
    """A function or lambda of the tree, bound to `receiver` when it is a method.

    `owner` is the class whose body defines it, where `super()` goes on from; `frame` the call
    within which a nested function was defined.
    """

    path: str
    node: Function | ast.Lambda
    receiver: Instance | ClassValue | None = None
    owner: Definition | None = None
    frame: Frame | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Foreign:
    """Something from outside the tree, by name; `receiver` when it was found on a class of ours."""

    name: str
    receiver: Instance | ClassValue | None = None


@dataclass(frozen=True)
class ModuleValue:
    """A module of the tree."""

    module: ModuleRef


@dataclass(frozen=True)
class Parent:
    """What `super()` returns: the attributes that come after `owner`."""

    receiver: Instance | ClassValue
    owner: Definition


@dataclass(frozen=True)
class Items:
    """A tuple or a list of known length."""

    items: tuple[Values, ...]

    @cached_property
    def size(self) -> int:
        """How many values it holds, those of inner ones included."""
        return 1 + sum(size(values) for values in self.items)


@dataclass(frozen=True)
class Table:
    """A literal dictionary; a key that is no string is None."""

    entries: tuple[tuple[str | None, Values], ...]

    @cached_property
    def size(self) -> int:
        """How many values it holds, those of inner ones included."""
        return 1 + sum(size(values) for _, values in self.entries)


@dataclass(frozen=True)
class Constant:
    """A literal."""

    value: str | int | float | bool | None


@dataclass(frozen=True)
class Unknown:
    """A value that the source does not settle, with the line where the trail ends."""

    location: Location
    why: str


Value: TypeAlias = (
    Instance
    | ClassValue
    | FunctionValue
    | Foreign
    | ModuleValue
    | Parent
    | Items
    | Table
    | Constant
    | Unknown
)
Values: TypeAlias = tuple[Value, ...]
"""The alternatives: one for each branch that the source takes."""

Heap: TypeAlias = dict[tuple[str, str], Values]
"""Attributes that were set, by class and name; a builder has one object of each class."""


@dataclass(eq=False)
class Frame:
    """One call: the names it has set, what it may return, and the attributes at each return."""

    path: str
    depth: int = 0
    owner: Definition | None = None
    receiver: Instance | ClassValue | None = None
    parent: Frame | None = None
    names: dict[str, Values] = field(default_factory=dict)
    returned: list[Value] = field(default_factory=list)
    exits: list[Heap] = field(default_factory=list)

    def at(self, node: ast.AST) -> Location:
        """Return the place of a node in the file of this call."""
        return Location(path=self.path, line=getattr(node, "lineno", None))

    def get(self, name: str) -> Values | None:
        """Return what a local name holds, here or in an enclosing function."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.names:
                return frame.names[name]
            frame = frame.parent
        return None


def size(values: Values) -> int:
    """Return how many values there are, those within tuples, lists and tables included."""
    return sum(v.size if isinstance(v, Items | Table) else 1 for v in values)


def union(alternatives: Iterable[Values]) -> Values:
    """Return the alternatives of several values, each once, in order."""
    return tuple(dict.fromkeys(value for values in alternatives for value in values))


def truth(values: Values) -> bool | None:
    """Return whether all alternatives count as true, or all as false; None when not known."""
    answers = {_truth(value) for value in values}
    return answers.pop() if len(answers) == 1 else None


def _truth(value: Value) -> bool | None:
    if isinstance(value, Constant):
        return bool(value.value)
    return True if isinstance(value, ClassValue | FunctionValue) else None
