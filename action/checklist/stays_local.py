"""stays-local: the change keeps prefetch wiring in the recipe's model, in plain code.

Only what the diff adds counts, and only where it has to do with prefetching: a data loader's
`prefetch_factor`, a tracer elsewhere or the words in a comment are nobody's business here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from action.checklist.context import HOOK, SETTERS, Context, Diff, at, result
from action.records import CheckResult, Evidence, Location
from action.repository.diff import Change
from action.repository.python import Definition, PythonTree
from action.repository.syntax import UnparsableError, dotted, fingerprint, imports_in
from action.repository.yaml_file import read_yaml

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


def check(context: Context) -> CheckResult:
    """Decide the item from what the diff adds."""
    diff = context.diff
    if diff is None:
        return result("stays-local", "not applicable", "there is no diff to look at")
    found = [e for change in diff.changes for e in _found(context, diff, change)]
    found += _tracers_called(context, diff)
    found = _once_a_line(found)
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


def _once_a_line(found: list[Evidence]) -> list[Evidence]:
    """Keep the first finding of each line of code; a line of YAML can hold several keys."""
    kept: dict[object, Evidence] = {}
    for evidence in found:
        is_code = evidence.location is not None and evidence.location.path.endswith(".py")
        kept.setdefault(evidence.location if is_code else evidence, evidence)
    return list(kept.values())


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
            yield from _toggles(context, change.path, root, added)
            yield from _tables(change.path, root, added)
            yield from _tracers(context, diff, change.path, root, added)
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


def _toggles(
    context: Context, path: str, root: ast.Module, added: frozenset[int]
) -> Iterator[Evidence]:
    """What switches the hook: environment variables, settings, flags of a command line."""
    hooks = [node for node in _functions(root) if _sets_edges(node)]
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
                    yield at(f"the edges come from a config: `{_text(node)}`", where)
            case ast.Call(func=function, args=[ast.Constant(value=str(option)), *_]) if _text(
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


def _tables(path: str, root: ast.Module, added: frozenset[int]) -> Iterator[Evidence]:
    """Edges as data: a table of names, a registry, a class that describes them."""
    in_edge_module = any(_sets_edges(node) for node in _functions(root))
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


def _tracers(
    context: Context, diff: Diff, path: str, root: ast.Module, added: frozenset[int]
) -> Iterator[Evidence]:
    """Tracing and graph analysis in a module that sets edges, or in what its hook calls."""
    if not any(_sets_edges(node) for node in _functions(root)):
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
            called = _text(call.func)
            yield at(f"the module that sets the edges calls a tracer, `{called}`", where)


def _tracers_called(context: Context, diff: Diff) -> Iterator[Evidence]:
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
                    yield at(f"the hook calls a tracer, `{_text(call.func)}`", where)
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
                yield name, _text(node)
            case ast.Subscript(slice=ast.Constant(value=str(name))):
                yield name, _text(node)
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                yield name, _text(node)
            case _:
                pass


def _name(target: ast.expr) -> str:
    node = target.value if isinstance(target, ast.Subscript) else target
    return str(getattr(node, "attr", getattr(node, "id", "")))


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
    return None if argument is None else _text(argument)


def _holds_strings(node: ast.expr) -> bool:
    return isinstance(node, ast.Dict | ast.List | ast.Tuple | ast.Set) and any(
        isinstance(inner, ast.Constant) and isinstance(inner.value, str) for inner in ast.walk(node)
    )


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split()).replace("`", "'")[:80]
