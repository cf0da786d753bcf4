"""Where a recipe's source binds the prefetch hook, to what, and what calling it takes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from action.contract import HOOK
from action.records import ClassAttribute, Hook, Location, Symbol
from action.repository.python import Definition, External, PythonTree, Unresolved
from action.repository.syntax import Function, UnparsableError, dotted, statements
from action.source.follower import Follower
from action.source.guard import read_guard
from action.source.values import (
    Constant,
    Frame,
    FunctionValue,
    Instance,
    Items,
    Table,
    Value,
    Values,
)

# Decorators after which a function is still called with the arguments that it was written for.
_KEEPING = (
    "no_grad", "enable_grad", "inference_mode", "disable", "cache", "lru_cache", "override",
    "no_type_check", "record_function",
)  # fmt: skip


def attributes_of(
    python: PythonTree, cls: Definition, names: tuple[str, ...]
) -> Iterator[tuple[ClassAttribute, ast.AST]]:
    """Yield the attributes of these names that a class body binds, with the bound node."""
    for name in names:
        for binding in python.class_bindings(cls, name)[-1:]:
            if isinstance(binding.node, ast.AST):
                at = Location(path=cls.path, line=binding.line)
                yield attribute_record(name, cls, at, binding.node), binding.node


def late_bindings(
    python: PythonTree, path: str, names: tuple[str, ...]
) -> Iterator[tuple[ClassAttribute, ast.AST]]:
    """Yield attributes set on a class after its body, at module level.

    `Model.NAME = value`, or `setattr(Model, "NAME", value)`.
    """
    for statement in statements(python.syntax(path).body):
        for holder, name, value in set_attributes(statement):
            owner = dotted(holder) if name in names else None
            target = python.resolve(path, owner) if owner is not None else None
            if isinstance(target, Definition) and target.is_class:
                at = Location(path=path, line=statement.lineno)
                yield attribute_record(name, target, at, value), value


def set_attributes(statement: ast.AST) -> Iterator[tuple[ast.expr, str, ast.expr]]:
    """Yield (object, attribute, value) for what a statement sets on an object."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                if isinstance(target, ast.Attribute):
                    yield target.value, target.attr, value
        case ast.AnnAssign(
            target=ast.Attribute(value=holder, attr=name), value=ast.expr() as value
        ):
            yield holder, name, value
        case ast.Expr(
            value=ast.Call(
                func=ast.Name(id="setattr"), args=[holder, ast.Constant(value=str(name)), value]
            )
        ):
            yield holder, name, value
        case _:
            pass


def attribute_record(
    name: str, cls: Definition, location: Location, value: ast.AST
) -> ClassAttribute:
    """Return the record of an attribute bound on a class."""
    if isinstance(value, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        text = value.name
    else:
        text = ast.unparse(value)
    text = " ".join(text.split())
    shown = text if len(text) <= 120 else f"{text[:119]}…"
    return ClassAttribute(name=name, owner=cls.symbol, location=location, value=shown)


def read_hook(
    python: PythonTree, attribute: ClassAttribute, node: ast.AST, cls: Definition | None = None
) -> Hook:
    """Return what is known of a binding of the hook; `cls` is the class whose body binds it."""
    path = attribute.location.path
    if isinstance(node, ast.Name) and cls is not None:
        # In a class body, a name defined there comes before the module's.
        for binding in python.class_bindings(cls, node.id)[-1:]:
            if isinstance(binding.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                node = binding.node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        decorators = {dotted(decorator) for decorator in node.decorator_list}
        for kind in ("staticmethod", "classmethod"):
            if kind in decorators:
                return _function_hook(python, attribute, path, node, kind)
        if decorators & {"property", "functools.cached_property", "cached_property"}:
            return Hook(
                binding=attribute, function=_symbol(python, path, node), kind="not callable"
            )
        return _function_hook(python, attribute, path, node, "method")
    if isinstance(node, ast.Call) and node.args and dotted(node.func) is not None:
        wrapper = (dotted(node.func) or "").split(".")[-1]
        if wrapper in ("staticmethod", "classmethod", "partial"):
            inner = _one(Follower(python).value(node.args[0], Frame(path)))
            if not (isinstance(inner, FunctionValue) and not isinstance(inner.node, ast.Lambda)):
                return Hook(binding=attribute)
            if wrapper != "partial":
                return _function_hook(python, attribute, inner.path, inner.node, wrapper)
            given = {keyword.arg for keyword in node.keywords}
            count = len(node.args) - 1
            accepts = None if None in given else _accepts(inner.node.args, 1 + count, given)
            return _function_hook(
                python, attribute, inner.path, inner.node, "partial", accepts=accepts
            )
    if isinstance(node, ast.expr):
        return _value_hook(python, attribute, Follower(python).value(node, Frame(path)))
    return Hook(binding=attribute)


def _value_hook(python: PythonTree, attribute: ClassAttribute, values: Values) -> Hook:
    match _one(values):
        case FunctionValue(path=path, node=ast.Lambda() as node):
            accepts = _accepts(node.args, 1)
            return Hook(binding=attribute, kind="lambda", takes_model_alone=accepts)
        case FunctionValue(path=path, node=node) if not isinstance(node, ast.Lambda):
            return _function_hook(python, attribute, path, node, "function")
        case Constant() | Items() | Table():
            return Hook(binding=attribute, kind="not callable")
        case Instance(cls=cls):
            return _object_hook(python, attribute, cls)
        case _:
            return Hook(binding=attribute)


def _object_hook(python: PythonTree, attribute: ClassAttribute, cls: Definition) -> Hook:
    """An object is called through `__call__` of its class."""
    for ancestor in python.linearized(cls):
        if isinstance(ancestor, Definition):
            for binding in python.class_bindings(ancestor, "__call__")[-1:]:
                if isinstance(binding.node, ast.FunctionDef):
                    accepts = _accepts(binding.node.args, 2)
                    return _function_hook(
                        python, attribute, ancestor.path, binding.node, "object", accepts=accepts
                    )
        elif isinstance(ancestor, Unresolved) or (
            isinstance(ancestor, External) and ancestor.name != "builtins.object"
        ):
            return Hook(binding=attribute)
    return Hook(binding=attribute, kind="not callable")


def _one(values: Values) -> Value | None:
    return values[0] if len(values) == 1 else None


def _function_hook(
    python: PythonTree,
    attribute: ClassAttribute,
    path: str,
    node: Function,
    kind: str,
    *,
    accepts: bool | None = None,
) -> Hook:
    if kind in ("function", "method", "staticmethod"):
        accepts = _accepts(node.args, 1)
    elif kind == "classmethod":
        accepts = _accepts(node.args, 2)
    changing = [d for d in node.decorator_list if not _keeps(d)]
    if changing:
        accepts = None
    return Hook.model_validate(
        {
            "binding": attribute,
            "function": _symbol(python, path, node),
            "kind": "unknown" if changing else kind,
            "parameters": tuple(a.arg for a in (*node.args.posonlyargs, *node.args.args)),
            "takes_model_alone": accepts,
            "guard": read_guard(python, path, node),
        }
    )


def _keeps(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = (dotted(called) or "").split(".")[-1]
    return name in ("staticmethod", "classmethod", *_KEEPING)


def _symbol(python: PythonTree, path: str, node: Function) -> Symbol:
    name = _qualified(python.syntax(path), node) or node.name
    return Definition(path, python.module_name(path), name, node).symbol


def _qualified(root: ast.AST, node: ast.AST, prefix: str = "") -> str | None:
    """Return a function's name within its module, the classes and functions around it included."""
    for child in ast.iter_child_nodes(root):
        name = getattr(child, "name", "")
        if child is node:
            return f"{prefix}{name}"
        inner = prefix
        if isinstance(child, ast.ClassDef):
            inner = f"{prefix}{name}."
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = f"{prefix}{name}.<locals>."
        found = _qualified(child, node, inner)
        if found is not None:
            return found
    return None


def _accepts(
    arguments: ast.arguments, positional: int, given: Set[str | None] = frozenset()
) -> bool:
    """Tell whether a call with so many positional arguments (and `given` by name) is accepted."""
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    required = names[: len(names) - len(arguments.defaults)]
    missing = [name for name in required[positional:] if name not in given]
    twice = [name for name in names[:positional] if name in given]
    keywords = [
        a.arg
        for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None and a.arg not in given
    ]
    fits = positional <= len(names) or arguments.vararg is not None
    return fits and not missing and not keywords and not twice


def stray_hooks(python: PythonTree, path: str) -> Iterator[tuple[ast.expr, Location]]:
    """Yield (object, place) wherever a function or method of a file sets the hook on something."""
    try:
        root = python.syntax(path)
    except UnparsableError:
        return
    outside = set(statements(root.body))
    for node in ast.walk(root):
        if node in outside:
            continue
        for holder, name, _ in set_attributes(node):
            if name == HOOK:
                yield holder, Location(path=path, line=getattr(node, "lineno", None))
