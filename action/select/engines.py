"""The engine classes of a module, and where its source cannot tell what runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from action.records import Location
from action.repository.python import Definition, ModuleRef, PythonTree
from action.repository.syntax import dotted
from action.select.parts import is_engine_class


@dataclass(frozen=True)
class Blind:
    """A place where the source cannot tell what runs, and a sentence about it."""

    location: Location
    why: str


def engine_names(python: PythonTree, path: str) -> frozenset[str]:
    """Return the names of the engine classes in a file, those that only inherit included."""
    return frozenset(
        cls.name
        for cls in python.classes(path)
        if any(
            isinstance(ancestor, Definition) and is_engine_class(ancestor.node)
            for ancestor in python.linearized(cls)
        )
        and python.is_module_class(cls) is not True
    )


def blind_spots(python: PythonTree, path: str, root: ast.Module) -> Iterator[Blind]:
    """Yield where a module imports, runs or looks up what only running it would tell."""
    for location in python.dynamic_imports(path):
        yield Blind(location, f"{location} imports a module whose name is made at run time")
    engines = engine_names(python, path)
    for node in ast.walk(root):
        if isinstance(node, ast.Call):
            at = Location(path=path, line=node.lineno)
            name = (dotted(node.func) or "").split(".")[-1]
            if isinstance(node.func, ast.Name) and name in ("exec", "eval", "globals"):
                yield Blind(at, f"{at} calls {name}()")
            elif name in ("spec_from_file_location", "run_path", "run_module"):
                yield Blind(at, f"{at} loads code by its path")
            elif name == "getattr" and _looks_up_module(python, path, node):
                yield Blind(at, f"{at} looks a name up at run time")
        elif isinstance(node, ast.ClassDef) and node.name in engines:
            for inner in ast.walk(node):
                if (
                    isinstance(inner, ast.Call)
                    and isinstance(inner.func, ast.Name)
                    and inner.func.id == "getattr"
                    and isinstance(inner.args[0] if inner.args else None, ast.Name)
                    and dotted(inner.args[0]) == "self"
                    and not isinstance(inner.args[1] if inner.args[1:] else None, ast.Constant)
                ):
                    at = Location(path=path, line=inner.lineno)
                    yield Blind(at, f"{at} looks a method up at run time")


def _looks_up_module(python: PythonTree, path: str, call: ast.Call) -> bool:
    """Tell whether `getattr(module, name)` looks into a module of the tree by a computed name."""
    if len(call.args) < 2 or isinstance(call.args[1], ast.Constant):
        return False
    if isinstance(call.args[0], ast.Subscript):
        return dotted(call.args[0].value) == "sys.modules"
    name = dotted(call.args[0])
    if name is None:
        return False
    return isinstance(python.resolve(path, name), ModuleRef)
