"""The classes that a model's source uses, directly or through others."""

from __future__ import annotations

import ast
from collections import deque
from dataclasses import dataclass

from action.records import Symbol
from action.repository.python import Definition, External, PythonTree, Unresolved, is_foreign
from action.repository.syntax import UnparsableError, dotted

# Of these packages it is known that what they hold contains no class that a recipe would name.
_TRANSPARENT = ("torch", "einops", "numpy", "math")
# Except for these, which build modules of other classes of torch.
_COMPOSITE = ("Transformer", "TransformerEncoder", "TransformerDecoder")
_LOOKUPS = ("getattr", "__import__", "import_module", "globals", "eval", "exec")


@dataclass(frozen=True)
class Reachable:
    """Classes in the tree, names from outside, and what may bring in further classes.

    `classes` are those that some code mentions, which a class that is only inherited from is not:
    the runtime compares the exact names of classes.
    """

    python: PythonTree
    classes: tuple[Definition, ...]
    externals: dict[str, Definition]
    outside: str | None

    def matches(self, class_name: str) -> tuple[Symbol, ...]:
        """Return what a wrap target matches; an outside class stands where it is named."""
        own = [
            cls.symbol
            for cls in self.classes
            if cls.name.rpartition(".")[2] == class_name
            and self.python.is_module_class(cls) is not False
        ]
        foreign = [
            Symbol(name=name, location=user.location)
            for name, user in self.externals.items()
            if name.rpartition(".")[2] == class_name
        ]
        return (*own, *foreign)


def reachable_classes(python: PythonTree, starts: tuple[Definition, ...]) -> Reachable:
    """Return the classes that the source of `starts` uses, its bases and functions included.

    `outside` names a class or function from outside the tree (torch aside) or a computed one: what
    it instantiates is not known.
    """
    used: dict[str, Definition] = {cls.qualified: cls for cls in starts}
    externals: dict[str, Definition] = {}
    outside: str | None = None
    queue = deque(starts)
    seen = {definition.qualified for definition in starts}
    while queue:
        current = queue.popleft()
        if current.is_class:
            for base in python.bases(current):
                if isinstance(base, Unresolved):
                    outside = outside or base.why
                elif isinstance(base, External) and not is_foreign(base, _TRANSPARENT):
                    outside = outside or base.name
                elif isinstance(base, Definition) and base.qualified not in seen:
                    seen.add(base.qualified)
                    queue.append(base)
        for name in _names(current.node):
            try:
                target = python.resolve(current.path, name)
            except UnparsableError as trouble:
                outside = outside or trouble.location.path
                continue
            if isinstance(target, Definition):
                if target.is_class:
                    used[target.qualified] = target
                if target.qualified not in seen:
                    seen.add(target.qualified)
                    queue.append(target)
            elif isinstance(target, External):
                externals.setdefault(target.name, current)
                short = target.name.rpartition(".")[2]
                if short in _COMPOSITE or not is_foreign(target, _TRANSPARENT):
                    outside = outside or target.name
            elif isinstance(target, Unresolved) and "run time" in target.why and "." in name:
                outside = outside or target.why
        outside = outside or _lookup(current.node)
    return Reachable(python, tuple(used.values()), externals, outside)


def _names(node: ast.AST) -> list[str]:
    """Return the dotted names that a definition mentions, the longest form of each.

    The bases of a class statement and annotations are no use of a class.
    """
    found: dict[str, None] = {}
    stack: list[ast.AST] = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, ast.Name | ast.Attribute):
            name = dotted(item)
            if name is not None:
                if not name.startswith(("self.", "cls.")):
                    found[name] = None
                continue
        skipped: list[ast.AST | None] = []
        if isinstance(item, ast.ClassDef):
            skipped += item.bases
        if isinstance(item, ast.arg | ast.AnnAssign):
            skipped.append(item.annotation)
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
            skipped.append(item.returns)
        stack += [child for child in ast.iter_child_nodes(item) if child not in skipped]
    return list(found)


def _lookup(node: ast.AST) -> str | None:
    """Return what looks a class up by a name that is known only at run time, if something does."""
    for inner in ast.walk(node):
        if not isinstance(inner, ast.Call):
            continue
        name = (dotted(inner.func) or "").rpartition(".")[2]
        literal = len(inner.args) > 1 and isinstance(inner.args[1], ast.Constant)
        if name in _LOOKUPS and not (name == "getattr" and literal):
            return f"`{ast.unparse(inner)[:60]}`, a look-up at run time"
    return None
