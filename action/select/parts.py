"""A module taken apart into what can change on its own: definitions, imports, module-level code."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from action.repository.syntax import Function, dotted, fingerprint, is_bare_string

MODULE_LEVEL = "<module level>"
"""Name of the part that holds the statements which are no definitions."""
MAIN_GUARD = "__main__"
"""Name of the part that runs only when the file is run as a script."""

_ENGINE_METHODS = ("prepare_model", "forward_step", "prepare_optimizer", "prepare_dataloader")
# Decorators that keep what they decorate to themselves; any other may put it into a registry.
_QUIET_DECORATORS = frozenset(
    (
        "abstractmethod", "asynccontextmanager", "autocast", "cache", "cached_property",
        "classmethod", "compile", "contextmanager", "custom_bwd", "custom_fwd", "dataclass",
        "deprecated", "disable", "enable_grad", "final", "fixture", "inference_mode", "lru_cache",
        "no_grad", "override", "overload", "parametrize", "property", "runtime_checkable", "setter",
        "staticmethod", "total_ordering", "wraps",
    )
)  # fmt: skip
_QUIET_CALLS = frozenset(
    (
        "NewType", "TypeVar", "cast", "dict", "field", "frozenset", "getLogger", "list",
        "namedtuple", "partial", "set", "sorted", "tuple",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """One part of a module: its name there, its line, a hash of its meaning, and its nodes.

    `pieces` are the statements of a class body by name, so that a change can be told to be one of
    the hook's binding and not of `forward()`. `registers` tells that importing the module may make
    the part known elsewhere, under another name.
    """

    name: str
    line: int
    print: str
    nodes: tuple[ast.AST, ...]
    pieces: dict[str, str]
    registers: bool

    @property
    def short(self) -> str:
        """The last component of the name, as other code would mention it."""
        return self.name.rpartition(".")[2]

    @property
    def node(self) -> ast.AST:
        """The (last) syntax node."""
        return self.nodes[-1]

    @property
    def is_import(self) -> bool:
        """Whether this is an imported name."""
        return all(isinstance(node, ast.Import | ast.ImportFrom) for node in self.nodes)

    @cached_property
    def mentions(self) -> frozenset[str]:
        """Every name, attribute, keyword and word-like string in it."""
        return frozenset(mention for node in self.nodes for mention in mentions(node))

    @property
    def methods(self) -> frozenset[str]:
        """The names that the body of a class binds, without those that Python calls itself."""
        return frozenset(name for name in self.pieces if name and not name.startswith("__"))

    @cached_property
    def stores(self) -> frozenset[str]:
        """The attributes of `self` that it sets."""
        return frozenset(
            inner.attr
            for node in self.nodes
            for inner in ast.walk(node)
            if isinstance(inner, ast.Attribute)
            and isinstance(inner.ctx, ast.Store)
            and isinstance(inner.value, ast.Name)
            and inner.value.id == "self"
        )

    @cached_property
    def strings(self) -> frozenset[str]:
        """Every string constant in it."""
        return frozenset(
            inner.value
            for node in self.nodes
            for inner in ast.walk(node)
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
        )


def module_parts(root: ast.Module, engines: Collection[str] = ()) -> dict[str, Part]:
    """Return the parts of a module by name.

    The methods of the classes `engines` are parts of their own, since building the model and, say,
    preparing the optimizer are different things; other classes are one part each.
    """
    nodes: dict[str, list[ast.AST]] = {}
    for name, node in _named_nodes(root.body, engines):
        nodes.setdefault(name, []).append(node)
    defined = {name for name, found in nodes.items() if isinstance(found[-1], _DEFINITIONS)}
    return {name: _part(name, tuple(found), defined) for name, found in nodes.items()}


def is_engine_class(node: ast.AST) -> bool:
    """Tell whether a class statement looks like an engine: it is registered, or has its methods."""
    return isinstance(node, ast.ClassDef) and (
        any(isinstance(item, Function) and item.name in _ENGINE_METHODS for item in node.body)
        or any(_decorator_name(d).endswith("register_engine") for d in node.decorator_list)
    )


def mentions(node: ast.AST) -> Iterator[str]:
    """Yield every name, attribute, keyword and word-like string within `node`."""
    for inner in ast.walk(node):
        match inner:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.alias(name=name, asname=other):
                yield from name.split(".")
                if other is not None:
                    yield other
            case ast.Constant(value=str(text)) if len(text) < 200:
                # A registry or a lazy table knows its entries by name.
                yield from (word for word in text.split(".") if word.isidentifier())
            case _:
                pass


_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _named_nodes(body: list[ast.stmt], engines: Collection[str]) -> Iterator[tuple[str, ast.AST]]:
    for statement in body:
        match statement:
            case ast.ClassDef(name=name) if name in engines:
                yield from _engine_nodes(statement)
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield statement.name, statement
            case ast.Import():
                for alias in statement.names:
                    name = alias.asname or alias.name.split(".")[0]
                    yield name, ast.copy_location(ast.Import([alias]), statement)
            case ast.ImportFrom():
                everything = statement.module == "__future__"
                for alias in statement.names:
                    name = alias.asname or alias.name
                    single = ast.ImportFrom(statement.module, [alias], statement.level)
                    yield (
                        MODULE_LEVEL if everything or name == "*" else name,
                        ast.copy_location(single, statement),
                    )
            case ast.Assign(targets=targets) if all(isinstance(t, ast.Name) for t in targets):
                for target in targets:
                    assert isinstance(target, ast.Name)
                    yield target.id, statement
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, statement
            case ast.If(test=test) if _is_main_guard(test):
                yield MAIN_GUARD, statement
            case _ if is_bare_string(statement) or isinstance(statement, ast.Pass):
                pass
            case _:
                bodies = list(_bodies(statement))
                if not bodies:
                    yield MODULE_LEVEL, statement
                for field in ("test", "items", "iter", "subject"):
                    value = getattr(statement, field, None) if bodies else None
                    for node in value if isinstance(value, list) else [value]:
                        if isinstance(node, ast.AST):
                            yield MODULE_LEVEL, node
                for inner in bodies:
                    yield from _named_nodes(inner, engines)


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        if isinstance(inner := getattr(statement, name, None), list):
            yield inner
    for inside in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield inside.body


def _engine_nodes(cls: ast.ClassDef) -> Iterator[tuple[str, ast.AST]]:
    rest: list[ast.stmt] = []
    for statement in cls.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{cls.name}.{statement.name}", statement
        else:
            rest.append(statement)
    shell = ast.ClassDef(
        cls.name, cls.bases, cls.keywords, rest or [ast.Pass()], cls.decorator_list
    )
    yield cls.name, ast.copy_location(shell, cls)


def _part(name: str, nodes: tuple[ast.AST, ...], defined: Collection[str]) -> Part:
    pieces: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            for label, statement in class_pieces(node):
                pieces[label] = pieces.get(label, "") + fingerprint(statement)
    line = next((node.lineno for node in nodes if hasattr(node, "lineno")), 1)
    prints = "".join(fingerprint(node) for node in nodes)
    return Part(
        name=name,
        line=line,
        print=hashlib.sha256(prints.encode()).hexdigest(),
        nodes=nodes,
        pieces=pieces,
        registers=any(_registers(node, defined) for node in nodes),
    )


def class_pieces(cls: ast.ClassDef) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the statements of a class body with the name that each binds, "" for none."""
    for statement in cls.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, statement
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, statement
            case _ if is_bare_string(statement):
                pass
            case _:
                yield "", statement


def _registers(node: ast.AST, defined: Collection[str]) -> bool:
    if isinstance(node, _DEFINITIONS):
        return any(_decorator_name(d) not in _QUIET_DECORATORS for d in node.decorator_list)
    value = getattr(node, "value", None)
    if not isinstance(node, ast.Assign | ast.AnnAssign) or value is None:
        return False
    return any(
        isinstance(call, ast.Call)
        and (dotted(call.func) or "").split(".")[-1] not in _QUIET_CALLS
        and any(isinstance(given, ast.Name) and given.id in defined for given in call.args)
        for call in ast.walk(value)
    )


def _decorator_name(node: ast.expr) -> str:
    called = node.func if isinstance(node, ast.Call) else node
    return (dotted(called) or "?").split(".")[-1]


def _is_main_guard(test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == "__name__"
    )
