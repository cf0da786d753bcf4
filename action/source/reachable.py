"""The classes that a model's source mentions, directly or through others."""

from __future__ import annotations

import ast
from collections import deque
from dataclasses import dataclass

from action.records import Symbol
from action.repository.python import Definition, External, PythonTree, Unresolved, is_foreign
from action.repository.syntax import UnparsableError, dotted

# Of these packages it is known that their classes hold no classes that a recipe would name.
_TRANSPARENT = ("torch",)


@dataclass(frozen=True)
class Reachable:
    """Classes in the tree, names from outside, and a name that may bring in further classes."""

    classes: tuple[Definition, ...]
    externals: dict[str, Definition]
    outside: str | None

    def matches(self, class_name: str) -> tuple[Symbol, ...]:
        """Return what a wrap target matches; an outside class stands where it is named."""
        own = [cls.symbol for cls in self.classes if cls.name.rpartition(".")[2] == class_name]
        foreign = [
            Symbol(name=name, location=user.location)
            for name, user in self.externals.items()
            if name.rpartition(".")[2] == class_name
        ]
        return (*own, *foreign)


def reachable_classes(python: PythonTree, starts: tuple[Definition, ...]) -> Reachable:
    """Return the classes that the source of `starts` mentions, its bases and functions included.

    `outside` names a class or function from outside the tree (torch aside) or a computed one: what
    it instantiates is not known.
    """
    classes: dict[str, Definition] = {}
    externals: dict[str, Definition] = {}
    outside: str | None = None
    queue = deque(starts)
    seen = {definition.qualified for definition in starts}
    while queue:
        current = queue.popleft()
        if current.is_class:
            classes[current.qualified] = current
        for name in _names(current.node):
            try:
                target = python.resolve(current.path, name)
            except UnparsableError as trouble:
                outside = outside or trouble.location.path
                continue
            if isinstance(target, Definition):
                if target.qualified not in seen:
                    seen.add(target.qualified)
                    queue.append(target)
            elif isinstance(target, External):
                externals.setdefault(target.name, current)
                if not is_foreign(target, _TRANSPARENT):
                    outside = outside or target.name
        if current.is_class:
            for base in python.bases(current):
                if isinstance(base, Unresolved):
                    outside = outside or base.why
    return Reachable(tuple(classes.values()), externals, outside)


def _names(node: ast.AST) -> list[str]:
    """Return the dotted names that a definition mentions, the longest form of each."""
    found: dict[str, None] = {}
    stack = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, ast.Name | ast.Attribute):
            name = dotted(item)
            if name is not None:
                if not name.startswith(("self.", "cls.")):
                    found[name] = None
                continue
        stack += ast.iter_child_nodes(item)
    return list(found)
