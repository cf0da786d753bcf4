"""What a diff adds of tracing and graph analysis to the code that sets prefetch edges."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from action.checklist.context import Context, Diff, at, functions, sets_edges, written
from action.records import Evidence, Location
from action.repository.python import Definition
from action.repository.syntax import UnparsableError, dotted, imports_in

_TRACERS = (
    "torch.fx",
    "torch.export",
    "torch.jit.trace",
    "torch._dynamo.export",
    "torch.fx.experimental.proxy_tensor",
    "networkx",
)


def tracers(
    context: Context, diff: Diff, path: str, root: ast.Module, added: frozenset[int]
) -> Iterator[Evidence]:
    """Tracing and graph analysis in a module that sets edges, or in what its hook calls."""
    if not any(sets_edges(node) for node in functions(root)):
        return
    python = context.python
    for imported in imports_in(root):
        name = python.absolute(path, imported.module)
        full = name if imported.name is None else f"{name}.{imported.name}"
        if imported.line in added and any(full == t or full.startswith(f"{t}.") for t in _TRACERS):
            where = Location(path=path, line=imported.line)
            yield at(f"the module that sets the edges imports a tracer, `{full}`", where)
    for call in _tracing_calls(root):
        if call.lineno in added:
            where = Location(path=path, line=call.lineno)
            called = written(call.func)
            yield at(f"the module that sets the edges calls a tracer, `{called}`", where)


def tracers_called(context: Context, diff: Diff) -> Iterator[Evidence]:
    """Tracers in functions of other modules that the hook calls, on lines that the diff adds."""
    python = context.python
    by_path = {change.path: change for change in diff.changes}
    seen: set[int] = set()
    queue = [
        (hook.function.location.path, node)
        for hook in context.source.hooks
        if hook.function is not None and (node := context.hook_node(hook)) is not None
    ]
    own = {path for path, _ in queue}
    while queue:
        path, node = queue.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if path in by_path and path not in own:
            added = diff.added(by_path[path])
            for call in _tracing_calls(node):
                if call.lineno in added:
                    where = Location(path=path, line=call.lineno)
                    yield at(f"the hook calls a tracer, `{written(call.func)}`", where)
        for inner in ast.walk(node):
            name = dotted(inner.func) if isinstance(inner, ast.Call) else None
            try:
                target = python.resolve(path, name) if name is not None else None
            except UnparsableError:
                continue
            if isinstance(target, Definition) and isinstance(
                target.node, ast.FunctionDef | ast.AsyncFunctionDef
            ):
                queue.append((target.path, target.node))


def _tracing_calls(root: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(root):
        if isinstance(node, ast.Call):
            called = dotted(node.func) or ""
            if called.split(".")[-1] in ("symbolic_trace", "make_fx") or called.startswith(
                ("torch.fx.", "torch.export.", "torch.jit.trace")
            ):
                yield node
