"""stays-local: the change keeps prefetch wiring in the recipe's model, in plain code.

Only what the diff adds counts, and only where it has to do with prefetching: a data loader's
`prefetch_factor`, a tracer elsewhere or the words in a comment are nobody's business here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from action.checklist.context import HOOK, SETTERS, Context, Diff, at, result
from action.records import CheckResult, Evidence, Location
from action.repository.diff import Change
from action.repository.python import PythonTree
from action.repository.syntax import UnparsableError, dotted, fingerprint, imports_in
from action.repository.yaml_file import read_yaml

_FLAG = "_fsdp2_prefetching_configured"
_RUNTIME = re.compile(r"^(src/)?(mvp_engine/|[^/]+/distributed/)")
_PREFETCH = re.compile(r"prefetch", re.IGNORECASE)
_LOADER = re.compile(r"prefetch_factor|prefetch_batches|(^|\.)(data|dataset|dataloader|loader)\b")
_TRACERS = (
    "torch.fx",
    "torch.export",
    "torch.jit.trace",
    "torch._dynamo.export",
    "torch.fx.experimental.proxy_tensor",
    "networkx",
)
_EDGE_WORDS = re.compile(r"prefetch.*(edge|graph|table|map|order|plan|schedule|spec|registry)"
                         r"|(edge|graph)s?_.*prefetch", re.IGNORECASE)  # fmt: skip
_CLASS_WORDS = re.compile(
    r"Prefetch\w*(Registry|Graph|Planner|Plan|Spec|Edges?|Builder|Manager|Config|DSL|Scheduler)$"
)


def check(context: Context) -> CheckResult:
    """Decide the item from what the diff adds."""
    diff = context.diff
    if diff is None:
        return result("stays-local", "not applicable", "there is no diff to look at")
    found = [e for change in diff.changes for e in _found(context, diff, change)]
    if found:
        summary = found[0].text
        if len(found) > 1:
            summary += f" (and {len(found) - 1} more)"
        return result("stays-local", "fail", summary, found)
    runtime = [c for c in diff.changes if _is_runtime_change(context, diff, c)]
    if runtime:
        evidence = [at("the runtime is edited", Location(path=c.path)) for c in runtime]
        if any(c.path.startswith(f"{context.source.path}/") for c in diff.changes):
            summary = (
                f"the change edits the runtime, `{runtime[0].path}`, beside the recipe; right only "
                "if a change of the runtime was asked for"
            )
            return result("stays-local", "fail", summary, evidence)
        summary = (
            f"the change edits the runtime, `{runtime[0].path}`, and not the recipe: whether that "
            "was asked for is not in the source"
        )
        return result("stays-local", "unknown", summary, evidence)
    summary = "the diff adds no toggle, edge list, registry, tracer or runtime edit for prefetching"
    return result("stays-local", "pass", summary)


def _found(context: Context, diff: Diff, change: Change) -> Iterator[Evidence]:
    if change.status == "deleted" or not change.is_file:
        return
    inside = change.path.startswith(f"{context.source.path}/")
    others = re.match(r"^([^/]+/)?recipes/", change.path) is not None and not inside
    if others or "/tests/" in f"/{change.path}":
        return
    if change.path.endswith((".yaml", ".yml")) and inside:
        yield from _config_keys(context, diff, change)
    elif change.path.endswith(".py"):
        try:
            root = context.python.syntax(change.path)
        except (KeyError, UnparsableError):
            return
        added = diff.added(change)
        if inside:
            yield from _toggles(change.path, root, added)
            yield from _tables(change.path, root, added)
            yield from _tracers(context.python, change.path, root, added)
        else:
            yield from _shared_wiring(change.path, root, added)


def _config_keys(context: Context, diff: Diff, change: Change) -> Iterator[Evidence]:
    try:
        new = read_yaml(change.path, context.head.read(change.path))
        old = {}
        if change.old_path is not None and change.old_path in diff.base:
            old = read_yaml(change.old_path, diff.base.read(change.old_path))
    except (KeyError, UnparsableError):
        return
    for path, entry in new.items():
        if path not in old and _PREFETCH.search(path) and not _LOADER.search(path):
            what = "a list of edges" if "[" in path else "a toggle"
            where = Location(path=change.path, line=entry.line)
            yield at(f"the config gains {what} for prefetching, `{path}`", where)


def _toggles(path: str, root: ast.Module, added: frozenset[int]) -> Iterator[Evidence]:
    """Environment variables and flags of a config that gate the hook."""
    hooks = [node for node in _functions(root) if _sets_edges(node)]
    for node in ast.walk(root):
        line = getattr(node, "lineno", None)
        if line not in added:
            continue
        where = Location(path=path, line=line)
        variable = _environment_variable(node)
        if variable is not None:
            named = _PREFETCH.search(variable) and not _LOADER.search(variable)
            if named or any(_inside(hook, node) for hook in hooks):
                yield at(f"an environment variable gates prefetching: `{variable}`", where)
        if isinstance(node, ast.If | ast.IfExp):
            for inner in ast.walk(node.test):
                name = getattr(inner, "attr", getattr(inner, "id", None))
                if (
                    isinstance(inner, ast.Attribute | ast.Name)
                    and isinstance(name, str)
                    and _PREFETCH.search(name)
                    and name not in (_FLAG, HOOK, *SETTERS.values())
                    and not _LOADER.search(name)
                    and not name.endswith("_configured")
                ):
                    yield at(f"a setting gates prefetching: `{_text(inner)}`", where)


def _tables(path: str, root: ast.Module, added: frozenset[int]) -> Iterator[Evidence]:
    """Edges as data: a table of names, a registry, a class that describes them."""
    for node in ast.walk(root):
        # A function's own line is that of its `def`; what decorates it stands above.
        decorators = getattr(node, "decorator_list", [])
        lines = {getattr(n, "lineno", None) for n in (node, *decorators)}
        if not lines & added:
            continue
        where = Location(path=path, line=getattr(node, "lineno", None))
        match node:
            case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=value):
                if _EDGE_WORDS.search(name) and _holds_strings(value):
                    yield at(f"edges are kept as data in `{name}`", where)
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


def _tracers(
    python: PythonTree, path: str, root: ast.Module, added: frozenset[int]
) -> Iterator[Evidence]:
    """Tracing and graph analysis, in a module that has to do with prefetching."""
    if not any(_sets_edges(node) for node in _functions(root)):
        return
    for imported in imports_in(root):
        name = python.absolute(path, imported.module)
        full = name if imported.name is None else f"{name}.{imported.name}"
        if imported.line in added and any(full == t or full.startswith(f"{t}.") for t in _TRACERS):
            where = Location(path=path, line=imported.line)
            yield at(f"the module that sets the edges imports a tracer, `{full}`", where)
    for node in ast.walk(root):
        if isinstance(node, ast.Call) and node.lineno in added:
            called = dotted(node.func) or ""
            if called.split(".")[-1] in ("symbolic_trace", "make_fx") or called.startswith(
                ("torch.fx.", "torch.export.", "torch.jit.trace")
            ):
                where = Location(path=path, line=node.lineno)
                yield at(f"the module that sets the edges calls a tracer, `{called}`", where)


def _shared_wiring(path: str, root: ast.Module, added: frozenset[int]) -> Iterator[Evidence]:
    """Edges set outside the recipe, where every recipe would depend on them."""
    for node in ast.walk(root):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in SETTERS.values()
            and node.lineno in added
        ):
            where = Location(path=path, line=node.lineno)
            yield at(f"edges are set outside the recipe, in `{path}`", where)


def _is_runtime_change(context: Context, diff: Diff, change: Change) -> bool:
    """Tell whether a change gives the runtime another meaning where it wraps or prefetches."""
    if not change.path.endswith(".py") or not _RUNTIME.match(change.path) or change.same_content:
        return False
    if "/tests/" in f"/{change.path}":
        return False
    try:
        after = None if change.status == "deleted" else context.python.syntax(change.path)
        before = None
        if change.old_path is not None:
            before = PythonTree(diff.base).syntax(change.old_path)
    except (KeyError, UnparsableError):
        return True
    if before is not None and after is not None and fingerprint(before) == fingerprint(after):
        return False
    if "/distributed/" in change.path:
        return True
    lines = context.head.read(change.path).splitlines() if after is not None else []
    return any(
        b"prefetch" in lines[number - 1].lower()
        for number in diff.added(change)
        if number <= len(lines)
    )


def _functions(root: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(root):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _sets_edges(node: ast.AST) -> bool:
    return any(
        isinstance(inner, ast.Attribute) and inner.attr in SETTERS.values()
        for inner in ast.walk(node)
    )


def _inside(outer: ast.FunctionDef | ast.AsyncFunctionDef, node: ast.AST) -> bool:
    line = getattr(node, "lineno", 0)
    return outer.lineno <= line <= (outer.end_lineno or outer.lineno)


def _environment_variable(node: ast.AST) -> str | None:
    """Return the name that `os.environ[…]`, `os.environ.get(…)` or `os.getenv(…)` reads."""
    argument: ast.expr | None = None
    if isinstance(node, ast.Subscript) and dotted(node.value) in ("os.environ", "environ"):
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
    return None if argument is None else _text(argument)


def _holds_strings(node: ast.expr) -> bool:
    return isinstance(node, ast.Dict | ast.List | ast.Tuple | ast.Set) and any(
        isinstance(inner, ast.Constant) and isinstance(inner.value, str) for inner in ast.walk(node)
    )


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split()).replace("`", "'")[:80]
