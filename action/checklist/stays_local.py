"""stays-local: the change keeps prefetch wiring in the recipe's model, in plain code.

Only what the diff adds counts, and only where it has to do with prefetching: a data loader's
`prefetch_factor`, a tracer elsewhere or the words in a comment are nobody's business here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from action.checklist.added_toggles import tables, toggles
from action.checklist.added_tracers import tracers, tracers_called
from action.checklist.context import Context, Diff, at, result
from action.contract import SETTERS
from action.records import CheckResult, Evidence, Location
from action.repository.diff import Change
from action.repository.syntax import UnparsableError, fingerprint
from action.repository.yaml_file import read_yaml

_RUNTIME = re.compile(r"^(src/)?(mvp_engine/|[^/]+/distributed/)")
_PREFETCH = re.compile(r"prefetch", re.IGNORECASE)
_LOADER = re.compile(r"prefetch_factor|prefetch_batches|(^|\.)(data|dataset|dataloader|loader)\b")


def check(context: Context) -> CheckResult:
    """Decide the item from what the diff adds."""
    diff = context.diff
    if diff is None:
        return result("stays-local", "not applicable", "there is no diff to look at")
    found = [e for change in diff.changes for e in _found(context, diff, change)]
    found += tracers_called(context, diff)
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
            yield from toggles(context, change.path, root, added)
            yield from tables(change.path, root, added)
            yield from tracers(context, diff, change.path, root, added)
        else:
            yield from _shared_wiring(change.path, root, added)


def _config_keys(context: Context, diff: Diff, change: Change) -> Iterator[Evidence]:
    try:
        new = read_yaml(change.path, context.head.read(change.path))
        old = {}
        if change.old_path is not None and change.old_path in diff.base.tree:
            old = read_yaml(change.old_path, diff.base.tree.read(change.old_path))
    except (KeyError, UnparsableError):
        return
    for path, entry in new.items():
        if path not in old and _PREFETCH.search(path) and not _LOADER.search(path):
            what = "a list of edges" if "[" in path else "a toggle"
            where = Location(path=change.path, line=entry.line)
            yield at(f"the config gains {what} for prefetching, `{path}`", where)


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
            before = diff.base.syntax(change.old_path)
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
