"""Which engine class the configs of a recipe name."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable, Mapping

from action.records import Location, TrailEnd
from action.repository.python import Definition, PythonTree
from action.repository.syntax import UnparsableError, dotted, statements
from action.repository.yaml_file import Entry


def find_engines(
    python: PythonTree,
    modules: tuple[str, ...],
    configs: Mapping[str, Mapping[str, Entry]],
    path: str,
) -> tuple[tuple[Definition, ...], tuple[Location, ...], tuple[TrailEnd, ...]]:
    """Return the engine classes, the lines that name them, and where the trail ends.

    A config's `engine` is the name under which a class is registered, by a decorator or a call
    named like `register…`, or a dotted path to it. Without any such key it is the recipe's only
    class that has a `prepare_model()`.
    """
    named: dict[str, Location] = {}
    for file, entries in configs.items():
        if "engine" in entries:
            where = Location(path=file, line=entries["engine"].line)
            named.setdefault(str(entries["engine"].value), where)
    found: dict[str, Definition] = {}
    ends: list[TrailEnd] = []
    reached = imported_modules(python, modules) if named else ()
    for name, where in named.items():
        target = _registered(python, reached, name) or _by_path(python, name)
        if target is not None:
            found.setdefault(target.qualified, target)
        else:
            why = f"no class that {path} imports is registered as the engine `{name}`"
            ends.append(TrailEnd(location=where, why=why))
    if not named:
        for module in modules:
            for cls in python.classes(module):
                if python.class_bindings(cls, "prepare_model"):
                    found[cls.qualified] = cls
        if not found:
            where = Location(path=next(iter(modules), path))
            why = "no config names an engine, and no class has a `prepare_model()`"
            ends.append(TrailEnd(location=where, why=why))
    return tuple(found.values()), tuple(named.values()), tuple(ends)


def imported_modules(python: PythonTree, starts: Iterable[str]) -> tuple[str, ...]:
    """Return some files and every file of the tree that importing them may run, nearest first."""
    found = dict.fromkeys(starts)
    queue = deque(found)
    while queue:
        try:
            imported = python.imports(queue.popleft())
        except (KeyError, UnparsableError):
            continue
        for module in imported:
            if module.path not in found:
                found[module.path] = None
                queue.append(module.path)
    return tuple(found)


def _registered(python: PythonTree, modules: Iterable[str], name: str) -> Definition | None:
    for module in modules:
        try:
            root = python.syntax(module)
            classes = python.classes(module)
        except (KeyError, UnparsableError):
            continue
        for cls in classes:
            assert isinstance(cls.node, ast.ClassDef)
            if any(_registers(python, module, d, name) for d in cls.node.decorator_list):
                return cls
        for statement in statements(root.body):
            # register_engine("name")(Class), or register_engine("name", Class)
            if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
                continue
            call = statement.value
            if _registers(python, module, call.func, name) or _registers(
                python, module, call, name
            ):
                for argument in call.args:
                    target = _class(python, module, dotted(argument))
                    if target is not None:
                        return target
    return None


def _registers(python: PythonTree, path: str, node: ast.expr, name: str) -> bool:
    if not isinstance(node, ast.Call) or "register" not in ast.unparse(node.func).lower():
        return False
    arguments = [*node.args[:1], *(k.value for k in node.keywords if k.arg in ("name", "key"))]
    return any(_text(python, path, argument) == name for argument in arguments)


def _text(python: PythonTree, path: str, node: ast.expr) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    written = dotted(node)
    target = python.resolve(path, written) if written is not None else None
    if isinstance(target, Definition) and isinstance(target.node, ast.Constant):
        return target.node.value
    return None


def _by_path(python: PythonTree, name: str) -> Definition | None:
    module, _, cls = name.replace(":", ".").rpartition(".")
    path = python.module_path(module) if module else None
    return _class(python, path, cls) if path is not None else None


def _class(python: PythonTree, path: str, name: str | None) -> Definition | None:
    if name is None:
        return None
    try:
        target = python.resolve(path, name)
    except UnparsableError:
        return None
    return target if isinstance(target, Definition) and target.is_class else None
