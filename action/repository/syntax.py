"""Python source as syntax trees: parsing, fingerprints, and what each scope binds."""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from action.records import Location

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Scope: TypeAlias = ast.Module | ast.ClassDef | Function


class UnparsableError(Exception):
    """A file that is not Python which this interpreter can read; `location` and `why` say where."""

    def __init__(self, location: Location, why: str) -> None:
        super().__init__(f"{location}: {why}")
        self.location = location
        self.why = why


@dataclass(frozen=True)
class Import:
    """One imported name: `module` with leading dots for a relative import, `name` in it or None."""

    module: str
    name: str | None
    line: int


Bound: TypeAlias = ast.ClassDef | Function | ast.expr | Import | None
"""A definition, the value of an assignment, an import; None for a parameter or a loop's name."""


@dataclass(frozen=True)
class Binding:
    """What a scope binds a name to, and on which line."""

    node: Bound
    line: int


@dataclass
class Bindings:
    """The names of one scope in source order, and the modules that it imports with a star."""

    names: dict[str, list[Binding]] = field(default_factory=dict)
    stars: list[Import] = field(default_factory=list)

    def add(self, name: str, node: Bound, line: int) -> None:
        """Bind `name` once more, at `line`."""
        self.names.setdefault(name, []).append(Binding(node, line))


def parse(path: str, content: bytes) -> ast.Module:
    """Return the syntax tree of a file.

    Raises:
        UnparsableError: a syntax error, an unknown encoding, null bytes, or nesting too deep.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        text = content.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as trouble:
        raise UnparsableError(
            Location(path=path), f"its encoding cannot be read ({trouble})"
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text, filename=path)
    except SyntaxError as trouble:
        line = trouble.lineno if trouble.lineno else None
        why = f"syntax error: {trouble.msg}"
        raise UnparsableError(Location(path=path, line=line), why) from None
    except ValueError as trouble:
        raise UnparsableError(Location(path=path), str(trouble)) from None
    except (RecursionError, MemoryError):
        raise UnparsableError(Location(path=path), "it is nested too deeply to be read") from None


def fingerprint(node: ast.AST) -> str:
    """Return a hash of what `node` means to Python.

    Docstrings, those after an attribute too, comments, formatting, positions and string prefixes
    do not count.
    """
    digest = hashlib.sha256()
    for piece in _canonical(node):
        digest.update(piece.encode(errors="surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()


def is_bare_string(node: object) -> bool:
    """Tell whether a node is a string that stands as a statement: Python computes nothing."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def docstring_node(node: ast.AST) -> ast.Constant | None:
    """Return the node of a module's, class's or function's docstring, if it has one."""
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    if node.body and isinstance(node.body[0], ast.Expr):
        value = node.body[0].value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value
    return None


def bindings(scope: Scope) -> Bindings:
    """Return what a scope binds, through `if`, `try`, `with` and loops, not into nested scopes."""
    found = Bindings()
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        arguments = scope.args
        for argument in (
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            *(a for a in (arguments.vararg, arguments.kwarg) if a is not None),
        ):
            found.add(argument.arg, None, argument.lineno)
    for statement in statements(scope.body):
        _bind(statement, found)
    return found


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a scope, those within compound statements included."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from statements(getattr(statement, name, []))
        for handler in getattr(statement, "handlers", []):
            yield from statements(handler.body)
        for case in getattr(statement, "cases", []):
            yield from statements(case.body)


def dotted(node: ast.expr) -> str | None:
    """Return `a.b.c` for a name or an attribute of a name, else None."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return None if inner is None else f"{inner}.{node.attr}"
    return None


def imports_in(node: ast.AST) -> Iterator[Import]:
    """Yield every import statement's names anywhere within `node`; a star has the name `*`."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Import):
            for alias in inner.names:
                yield Import(alias.name, None, inner.lineno)
        elif isinstance(inner, ast.ImportFrom):
            module = "." * inner.level + (inner.module or "")
            for alias in inner.names:
                yield Import(module, alias.name, inner.lineno)


def _bind(statement: ast.stmt, found: Bindings) -> None:
    line = statement.lineno
    match statement:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            found.add(statement.name, statement, line)
        case ast.Import():
            for alias in statement.names:
                if alias.asname is not None:
                    found.add(alias.asname, Import(alias.name, None, line), line)
                else:
                    top = alias.name.split(".")[0]
                    found.add(top, Import(top, None, line), line)
        case ast.ImportFrom():
            module = "." * statement.level + (statement.module or "")
            for alias in statement.names:
                imported = Import(module, alias.name, line)
                if alias.name == "*":
                    found.stars.append(imported)
                else:
                    found.add(alias.asname or alias.name, imported, line)
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                _bind_target(target, value, found)
        case ast.AnnAssign(target=target, value=value) if value is not None:
            _bind_target(target, value, found)
        case ast.AugAssign(target=target) | ast.For(target=target) | ast.AsyncFor(target=target):
            _bind_target(target, None, found)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                if item.optional_vars is not None:
                    _bind_target(item.optional_vars, None, found)
        case _:
            pass


def _bind_target(target: ast.expr, value: ast.expr | None, found: Bindings) -> None:
    if isinstance(target, ast.Name):
        found.add(target.id, value, target.lineno)
    elif isinstance(target, ast.Tuple | ast.List):
        values: list[ast.expr | None] = [None] * len(target.elts)
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
            values = list(value.elts)
        for element, part in zip(target.elts, values, strict=True):
            _bind_target(element, part, found)


def _canonical(root: ast.AST) -> Iterator[str]:
    # An explicit stack: generated code can nest deeper than Python's own recursion limit.
    stack: list[object] = [root]
    while stack:
        item = stack.pop()
        if isinstance(item, ast.AST):
            yield type(item).__name__
            for name, value in reversed(list(ast.iter_fields(item))):
                if name in ("type_ignores", "type_comment") or (
                    name == "kind" and isinstance(item, ast.Constant)
                ):
                    continue
                if isinstance(value, list):
                    value = [inner for inner in value if not is_bare_string(inner)]
                stack += [value, f"<{name}>"]
        elif isinstance(item, list):
            yield f"[{len(item)}"
            stack += reversed(item)
        else:
            yield f"{type(item).__name__}:{item!r}"
