"""Where a recipe's source binds the prefetch hook, to what, and what calling it takes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from action.records import ClassAttribute, Hook, Location
from action.repository.python import Definition, PythonTree
from action.repository.syntax import Function, dotted, statements

HOOK = "APPLY_FSDP2_CUSTOM_PREFETCHING"


def attributes_of(
    python: PythonTree, cls: Definition, names: tuple[str, ...]
) -> Iterator[tuple[ClassAttribute, ast.AST]]:
    """Yield the attributes of these names that a class body binds, with the bound node."""
    for name in names:
        for binding in python.class_bindings(cls, name)[-1:]:
            if isinstance(binding.node, ast.AST):
                at = Location(path=cls.path, line=binding.line)
                yield _attribute(name, cls, at, binding.node), binding.node


def late_bindings(
    python: PythonTree, path: str, names: tuple[str, ...]
) -> Iterator[tuple[ClassAttribute, ast.AST]]:
    """Yield attributes set on a class after its body: `Model.NAME = value` at module level."""
    for statement in statements(python.syntax(path).body):
        if not isinstance(statement, ast.Assign):
            continue
        for target in statement.targets:
            if isinstance(target, ast.Attribute) and target.attr in names:
                owner = dotted(target.value)
                cls = python.resolve(path, owner) if owner is not None else None
                if isinstance(cls, Definition) and cls.is_class:
                    at = Location(path=path, line=statement.lineno)
                    yield _attribute(target.attr, cls, at, statement.value), statement.value


def read_hook(python: PythonTree, attribute: ClassAttribute, node: ast.AST) -> Hook:
    """Return what is known of a binding of the hook."""
    path = attribute.location.path
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        name = f"{attribute.owner.name.removeprefix(f'{python.module_name(path)}.')}.{node.name}"
        function = Definition(path, python.module_name(path), name, node)
        decorators = {dotted(decorator) for decorator in node.decorator_list}
        for kind in ("staticmethod", "classmethod"):
            if kind in decorators:
                return _hook(attribute, function, kind)
        if decorators & {"property", "functools.cached_property", "cached_property"}:
            return Hook(binding=attribute, function=function.symbol, kind="not callable")
        return _hook(attribute, function, "method" if not decorators else "unknown")
    if isinstance(node, ast.Lambda):
        return Hook(binding=attribute, kind="lambda", takes_model_alone=_accepts(node.args, 1))
    if isinstance(node, ast.Constant | ast.List | ast.Tuple | ast.Dict | ast.Set | ast.JoinedStr):
        return Hook(binding=attribute, kind="not callable")
    if isinstance(node, ast.Call):
        return _called(python, attribute, node)
    value = dotted(node) if isinstance(node, ast.expr) else None
    target = python.resolve(path, value) if value is not None else None
    if isinstance(target, Definition):
        if target.is_function:
            return _hook(attribute, target, "function")
        if isinstance(target.node, ast.Lambda):
            accepts = _accepts(target.node.args, 1)
            return Hook(binding=attribute, kind="lambda", takes_model_alone=accepts)
        if isinstance(target.node, ast.Constant):
            return Hook(binding=attribute, function=target.symbol, kind="not callable")
    return Hook(binding=attribute)


def _called(python: PythonTree, attribute: ClassAttribute, node: ast.Call) -> Hook:
    """`staticmethod(f)`, `classmethod(f)`, `functools.partial(f, …)`, or some other call."""
    wrapper = dotted(node.func)
    path = attribute.location.path
    name = dotted(node.args[0]) if node.args else None
    target = python.resolve(path, name) if name is not None else None
    if not (isinstance(target, Definition) and target.is_function) or wrapper is None:
        return Hook(binding=attribute)
    if wrapper in ("staticmethod", "classmethod"):
        return _hook(attribute, target, wrapper)
    if wrapper.split(".")[-1] == "partial":
        assert isinstance(target.node, ast.FunctionDef | ast.AsyncFunctionDef)
        given = {keyword.arg for keyword in node.keywords}
        accepts = None if None in given else _accepts(target.node.args, len(node.args), given)
        return _hook(attribute, target, "partial", accepts=accepts)
    return Hook(binding=attribute)


def _hook(
    attribute: ClassAttribute, function: Definition, kind: str, *, accepts: bool | None = None
) -> Hook:
    node = function.node
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    if kind in ("function", "method", "staticmethod"):
        accepts = _accepts(node.args, 1)
    elif kind == "classmethod":
        accepts = _accepts(node.args, 2)
    checks, sets, flag = _flag(function.path, node)
    return Hook.model_validate(
        {
            "binding": attribute,
            "function": function.symbol,
            "kind": kind,
            "parameters": tuple(a.arg for a in (*node.args.posonlyargs, *node.args.args)),
            "takes_model_alone": accepts,
            "flag": flag,
            "checks_flag": checks,
            "sets_flag": sets,
        }
    )


def _accepts(
    arguments: ast.arguments, positional: int, given: Set[str | None] = frozenset()
) -> bool:
    """Tell whether a call with so many positional arguments (and `given` by name) is accepted."""
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    required = names[: len(names) - len(arguments.defaults)]
    missing = [name for name in required[positional:] if name not in given]
    keywords = [
        a.arg
        for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None and a.arg not in given
    ]
    fits = positional <= len(names) or arguments.vararg is not None
    return fits and not missing and not keywords


def _flag(path: str, node: Function) -> tuple[Location | None, Location | None, str | None]:
    """Return where a hook tests and sets its flag on the model, and the flag's name."""
    checks = dict(_checks(node))
    sets = dict(_sets(node))
    shared = [name for name in checks if name in sets]
    name = next(iter([*shared, *checks, *sets]), None)
    if name is None:
        return None, None, None

    def at(line: int | None) -> Location | None:
        return None if line is None else Location(path=path, line=line)

    return at(checks.get(name)), at(sets.get(name)), name


def _checks(node: Function) -> Iterator[tuple[str, int]]:
    for statement in statements(node.body):
        if not isinstance(statement, ast.If):
            continue
        for inner in ast.walk(statement.test):
            match inner:
                case ast.Call(func=ast.Name(id="getattr" | "hasattr"), args=args) if len(args) > 1:
                    if isinstance(args[1], ast.Constant) and isinstance(args[1].value, str):
                        yield args[1].value, statement.lineno
                case ast.Attribute(attr=name) if "config" in name and name.startswith("_"):
                    yield name, statement.lineno
                case _:
                    pass


def _sets(node: Function) -> Iterator[tuple[str, int]]:
    for statement in statements(node.body):
        match statement:
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=ast.Constant(value=True)):
                yield name, statement.lineno
            case ast.Expr(
                value=ast.Call(
                    func=ast.Name(id="setattr"),
                    args=[_, ast.Constant(value=str(name)), ast.Constant(value=True)],
                )
            ):
                yield name, statement.lineno
            case _:
                pass


def _attribute(name: str, cls: Definition, location: Location, value: ast.AST) -> ClassAttribute:
    if isinstance(value, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        text = value.name
    else:
        text = ast.unparse(value)
    text = " ".join(text.split())
    shown = text if len(text) <= 120 else f"{text[:119]}…"
    return ClassAttribute(name=name, owner=cls.symbol, location=location, value=shown)
