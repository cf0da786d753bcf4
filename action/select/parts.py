"""A module taken apart into what can change on its own: definitions, imports, module-level code."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from action.repository.syntax import Function, docstring_node, fingerprint, statements

MODULE_LEVEL = "<module level>"
"""Name of the part that holds the statements which are no definitions."""

_ENGINE_METHODS = ("prepare_model", "forward_step", "prepare_optimizer", "prepare_dataloader")
_COMPOUND = (ast.If, ast.Try, ast.With, ast.AsyncWith, ast.For, ast.AsyncFor, ast.While, ast.Match)


@dataclass(frozen=True)
class Part:
    """One part: its name in the module, its line, a hash of its meaning, the names it mentions.

    `pieces` are the statements of a class body by name, so that a change can be told to be one of
    the hook's binding and not of `forward()`.
    """

    name: str
    line: int
    print: str
    mentions: frozenset[str]
    nodes: tuple[ast.AST, ...]
    pieces: dict[str, str]

    @property
    def short(self) -> str:
        """The last component of the name, as other code would mention it."""
        return self.name.rpartition(".")[2]

    @property
    def node(self) -> ast.AST:
        """The (last) syntax node."""
        return self.nodes[-1]


def module_parts(root: ast.Module) -> dict[str, Part]:
    """Return the parts of a module by name.

    The methods of an engine are parts of their own, since building the model and, say, preparing
    the optimizer are different things; other classes are one part each.
    """
    nodes: dict[str, list[ast.AST]] = {}
    for name, node in _named_nodes(root):
        nodes.setdefault(name, []).append(node)
    return {name: _part(name, tuple(found)) for name, found in nodes.items()}


def is_engine_class(node: ast.AST) -> bool:
    """Tell whether a class statement looks like an engine: it prepares a model or steps it."""
    return isinstance(node, ast.ClassDef) and any(
        isinstance(item, Function) and item.name in _ENGINE_METHODS for item in node.body
    )


def _named_nodes(root: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    docstring = docstring_node(root)
    for statement in statements(root.body):
        match statement:
            case ast.ClassDef() if is_engine_class(statement):
                yield from _engine_nodes(statement)
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield statement.name, statement
            case ast.Import():
                for alias in statement.names:
                    name = alias.asname or alias.name.split(".")[0]
                    yield name, ast.copy_location(ast.Import([alias]), statement)
            case ast.ImportFrom():
                for alias in statement.names:
                    name = MODULE_LEVEL if alias.name == "*" else alias.asname or alias.name
                    single = ast.ImportFrom(statement.module, [alias], statement.level)
                    yield name, ast.copy_location(single, statement)
            case ast.Assign(targets=targets) if all(isinstance(t, ast.Name) for t in targets):
                for target in targets:
                    assert isinstance(target, ast.Name)
                    yield target.id, statement
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, statement
            case ast.If(test=test) if _is_main_guard(test):
                # What a script does when it is run is not part of the module that others import.
                yield "__main__", statement
            case _ if isinstance(statement, _COMPOUND):
                for field in ("test", "items", "iter", "subject"):
                    value = getattr(statement, field, None)
                    for node in value if isinstance(value, list) else [value]:
                        if isinstance(node, ast.AST):
                            yield MODULE_LEVEL, node
            case ast.Expr(value=value) if value is docstring:
                pass
            case ast.Pass():
                pass
            case _:
                yield MODULE_LEVEL, statement


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


def _part(name: str, nodes: tuple[ast.AST, ...]) -> Part:
    pieces: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            for label, statement in _class_pieces(node):
                pieces[label] = pieces.get(label, "") + fingerprint(statement)
    line = next((node.lineno for node in nodes if hasattr(node, "lineno")), 1)
    prints = "".join(fingerprint(node) for node in nodes)
    return Part(
        name=name,
        line=line,
        print=hashlib.sha256(prints.encode()).hexdigest(),
        mentions=frozenset(mention for node in nodes for mention in _mentions(node)),
        nodes=nodes,
        pieces=pieces,
    )


def _class_pieces(cls: ast.ClassDef) -> Iterator[tuple[str, ast.stmt]]:
    for statement in cls.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, statement
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, statement
            case ast.Expr(value=ast.Constant(value=str())):
                pass
            case _:
                yield "", statement


def _mentions(node: ast.AST) -> Iterator[str]:
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


def _is_main_guard(test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == "__name__"
    )
