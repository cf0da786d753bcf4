"""What a diff adds to the code that switches prefetch edges, or keeps them as data.

Names decide, so that what is about fetching batches ahead is told apart by the names around it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from action.checklist.context import Context, at, functions, sets_edges, written
from action.contract import HOOK, SETTERS
from action.records import Evidence, Location
from action.repository.syntax import dotted

_PREFETCH = re.compile(r"prefetch", re.IGNORECASE)
_CONFIG = re.compile(r"config|cfg|conf\b|settings|args|opts|options|params", re.IGNORECASE)
# Where batches are fetched ahead, which has nothing to do with FSDP2.
_LOADING_FILE = re.compile(r"(^|/|_)(data|dataset|loader|dataloader|collat|batch|input)", re.I)
_LOADING_NAME = re.compile(
    r"data|loader|batch|queue|worker|stream|sample|prefetcher|prefetch_factor|shuffle|token", re.I
)
_LOADING_SCOPE = re.compile(r"data|loader|batch|queue|worker|prefetcher|collat|sampler", re.I)
_EDGES = re.compile(r"(^|_)edges?($|_)", re.IGNORECASE)
_REGISTRY = re.compile(r"prefetch\w*_(hook|registr|function|fn|builder|handler)\w*$", re.IGNORECASE)
_EDGE_WORDS = re.compile(r"prefetch.*(edge|graph|table|map|order|plan|schedule|spec|registry)"
                         r"|(edge|graph)s?_.*prefetch", re.IGNORECASE)  # fmt: skip
_CLASS_WORDS = re.compile(
    r"Prefetch\w*(Registry|Graph|Planner|Plan|Spec|Edges?|Builder|Manager|Config|DSL|Scheduler)$"
)


def toggles(
    context: Context, path: str, root: ast.Module, added: frozenset[int]
) -> Iterator[Evidence]:
    """What switches the hook: environment variables, settings, flags of a command line."""
    hooks = [node for node in functions(root) if sets_edges(node)]
    flags = {name for h in context.source.hooks for name in (h.guard.tests, h.guard.sets) if name}
    for node, scope in _scoped(root):
        line = getattr(node, "lineno", None)
        if line not in added:
            continue
        where = Location(path=path, line=line)
        in_hook = any(_inside(hook, node) for hook in hooks)
        variable = _environment_variable(node)
        if variable is not None and (in_hook or _is_about_edges(path, scope, variable)):
            yield at(f"an environment variable gates prefetching: `{variable}`", where)
        match node:
            case ast.If(test=test) | ast.IfExp(test=test):
                for name, text in _names(test):
                    if name not in flags and _is_about_edges(path, scope, name):
                        yield at(f"a setting gates prefetching: `{text}`", where)
            case ast.Attribute(attr=name) if in_hook and not isinstance(node.ctx, ast.Store):
                owner = dotted(node.value) or ""
                if re.search(r"prefetch|edges", name) and _CONFIG.search(owner):
                    yield at(f"the edges come from a config: `{written(node)}`", where)
            case ast.Call(func=function, args=[ast.Constant(value=str(option)), *_]) if written(
                function
            ).split(".")[-1] in ("add_argument", "option") and _is_about_edges(path, scope, option):
                yield at(f"the command line gains a toggle for prefetching: `{option}`", where)
            case ast.AnnAssign(target=ast.Name(id=name)) if (
                scope
                and isinstance(scope[-1], ast.ClassDef)
                and not name.startswith("_")
                and _is_about_edges(path, scope, name)
            ):
                owner = scope[-1].name
                yield at(f"`{owner}` gains a toggle for prefetching, `{name}`", where)
            case _:
                pass


def tables(path: str, root: ast.Module, added: frozenset[int]) -> Iterator[Evidence]:
    """Edges as data: a table of names, a registry, a class that describes them."""
    in_edge_module = any(sets_edges(node) for node in functions(root))
    for node, scope in _scoped(root):
        # A function's own line is that of its `def`; what decorates it stands above.
        decorators = getattr(node, "decorator_list", [])
        lines = {getattr(n, "lineno", None) for n in (node, *decorators)}
        if not lines & added or _is_loading(path, scope):
            continue
        where = Location(path=path, line=getattr(node, "lineno", None))
        match node:
            case (
                ast.Assign(targets=[target], value=value)
                | ast.AnnAssign(target=target, value=ast.expr() as value)
            ):
                name = _name(target)
                edges = _EDGE_WORDS.search(name) or (in_edge_module and _EDGES.search(name))
                if edges and _holds_strings(value):
                    yield at(f"edges are kept as data in `{name}`", where)
                elif _REGISTRY.search(name) and (
                    isinstance(value, ast.Dict) or isinstance(target, ast.Subscript)
                ):
                    yield at(f"the hook is put into a registry, `{name}`", where)
            case ast.ClassDef(name=name) if _CLASS_WORDS.search(name):
                yield at(f"`{name}` is a description of edges of its own", where)
            case ast.FunctionDef():
                for decorator in decorators:
                    called = decorator.func if isinstance(decorator, ast.Call) else decorator
                    name = (dotted(called) or "").rpartition(".")[2]
                    if re.search(r"register.*prefetch|prefetch.*regist", name, re.IGNORECASE):
                        yield at(f"the hook is put into a registry by `{name}`", where)
            case _:
                pass


def _scoped(
    node: ast.AST, scope: tuple[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, ...] = ()
) -> Iterator[tuple[ast.AST, tuple[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, ...]]]:
    """Yield every node with the classes and functions around it, outermost first."""
    for child in ast.iter_child_nodes(node):
        yield child, scope
        inner = scope
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            inner = (*scope, child)
        yield from _scoped(child, inner)


def _is_about_edges(path: str, scope: Sequence[ast.AST], name: str) -> bool:
    """Tell whether a name speaks of prefetching, and not of batches fetched ahead."""
    if not _PREFETCH.search(name) or name in (HOOK, *SETTERS.values()):
        return False
    return not _LOADING_NAME.search(name) and not _is_loading(path, scope)


def _is_loading(path: str, scope: Sequence[ast.AST]) -> bool:
    """Tell whether code is about loading data, by the names of its file, classes and functions."""
    if _LOADING_FILE.search(path.rpartition("/")[2]):
        return True
    return any(
        _LOADING_SCOPE.search(getattr(outer, "name", ""))
        for outer in scope
        if isinstance(outer, ast.ClassDef | ast.FunctionDef)
    )


def _names(test: ast.expr) -> Iterator[tuple[str, str]]:
    for node in ast.walk(test):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name):
                yield name, written(node)
            case ast.Subscript(slice=ast.Constant(value=str(name))):
                yield name, written(node)
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                yield name, written(node)
            case _:
                pass


def _name(target: ast.expr) -> str:
    node = target.value if isinstance(target, ast.Subscript) else target
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _inside(outer: ast.FunctionDef | ast.AsyncFunctionDef, node: ast.AST) -> bool:
    line = getattr(node, "lineno", 0)
    return outer.lineno <= line <= (outer.end_lineno or outer.lineno)


def _environment_variable(node: ast.AST) -> str | None:
    """Return the name that `os.environ[…]`, `os.environ.get(…)` or `os.getenv(…)` reads."""
    argument: ast.expr | None = None
    if isinstance(node, ast.Compare) and any(
        dotted(right) in ("os.environ", "environ") for right in node.comparators
    ):
        argument = node.left
    elif isinstance(node, ast.Subscript) and dotted(node.value) in ("os.environ", "environ"):
        argument = node.slice
    elif isinstance(node, ast.Call) and dotted(node.func) in (
        "os.environ.get",
        "environ.get",
        "os.getenv",
        "getenv",
    ):
        argument = node.args[0] if node.args else None
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return argument.value
    return None if argument is None else written(argument)


def _holds_strings(node: ast.expr) -> bool:
    return isinstance(node, ast.Dict | ast.List | ast.Tuple | ast.Set) and any(
        isinstance(inner, ast.Constant) and isinstance(inner.value, str) for inner in ast.walk(node)
    )
