"""Imports that a module makes by calling a function, and the tables of lazy exports."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from action.repository.syntax import dotted, statements


def is_import_call(node: ast.AST) -> bool:
    """Tell whether a node calls `importlib.import_module` or `__import__`."""
    if not isinstance(node, ast.Call):
        return False
    name = dotted(node.func) or ""
    return name.split(".")[-1] in ("import_module", "__import__")


def literal_argument(node: ast.AST) -> str | None:
    """Return the first argument of a call if it is a literal string."""
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        value = node.args[0].value
        return value if isinstance(value, str) else None
    return None


def literal_imports(root: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield (module, line) of imports by a call or a lazy table, a relative one with its dots."""
    for node in ast.walk(root):
        if is_import_call(node):
            name = literal_argument(node)
            if name and isinstance(node, ast.Call):
                yield name, node.lineno
    if replaces_itself(root) or any(
        isinstance(s, ast.FunctionDef) and s.name == "__getattr__" for s in root.body
    ):
        for _, module in lazy_table(root):
            yield module if module.startswith(".") else f".{module}", 1
            yield module, 1


def replaces_itself(root: ast.Module) -> bool:
    """Tell whether a module puts another object in its own place in `sys.modules`."""
    return any(
        isinstance(statement, ast.Assign)
        and any(
            isinstance(t, ast.Subscript) and dotted(t.value) == "sys.modules"
            for t in statement.targets
        )
        for statement in statements(root.body)
    )


def lazy_table(root: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield (exported name, module) from literal tables.

    `{"Name": ".module"}`, `{"Name": (".module", "Name")}` and `{"module": ["Name", …]}`.
    """
    for statement in statements(root.body):
        value = getattr(statement, "value", None)
        if not isinstance(value, ast.Dict):
            continue
        for key, entry in zip(value.keys, value.values, strict=True):
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                continue
            match entry:
                case ast.Constant(value=str(module)):
                    yield key.value, module
                case ast.Tuple(elts=[ast.Constant(value=str(module)), *_]):
                    yield key.value, module
                case ast.List(elts=names):
                    for item in names:
                        if isinstance(item, ast.Constant) and isinstance(item.value, str):
                            yield item.value, key.value
