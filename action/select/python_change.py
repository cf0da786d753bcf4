"""What a changed Python file means for one recipe, and why it may mean nothing."""

from __future__ import annotations

import re
from collections.abc import Callable

from action.records import Location, Reason
from action.repository.diff import Change
from action.repository.python import PythonTree
from action.repository.syntax import UnparsableError, fingerprint
from action.select.parts import module_parts
from action.select.recipe import RecipeAt
from action.select.source_change import changed_parts, listing, source_reasons

Judged = tuple[list[Reason], str]
"""The reasons that a change gives one recipe, and why there are none."""

NO_MEANING = "only comments, docstrings or formatting changed"


def cannot_parse(change: Change, old: PythonTree, new: PythonTree) -> UnparsableError | None:
    """Return why one side of a changed file cannot be read as Python, the newer side first."""
    after = None if change.status == "deleted" else change.path
    return _trouble(new, after) or _trouble(old, change.old_path)


def same_meaning(change: Change, old: PythonTree, new: PythonTree) -> bool:
    """Tell whether both sides of a changed file, which must parse, are the same to Python."""
    if change.status == "deleted" or change.old_path != change.path or change.path not in old.tree:
        return False
    return fingerprint(old.syntax(change.path)) == fingerprint(new.syntax(change.path))


def python_reasons(
    change: Change,
    old: RecipeAt,
    new: RecipeAt,
    trouble: UnparsableError | None,
    of_other_recipe: Callable[[str], bool],
) -> Judged:
    """Return what a changed Python file means for the recipe `new`, which `old` was before.

    `trouble` is what keeps the file from being compared. Files of other recipes are not what a
    computed import of this one may mean.
    """
    tests = new.is_prefetch_test(change.path) or old.is_prefetch_test(change.old_path)
    own = [path for path in (change.path, change.old_path) if new.owns(path)]
    if tests or (own and not all(new.is_test(str(path)) for path in own)):
        if trouble is not None:
            return [_unparsable(trouble)], ""
        if not tests:
            return source_reasons(change, old, new)
        detail = f"the prefetch test `{change.path.rpartition('/')[2]}` {happened(change)}"
        return [_reason("prefetch-test", detail, change)], ""
    conftests = {*new.outer_conftests, *old.outer_conftests} & {change.path, change.old_path}
    if conftests and trouble is None:
        detail = f"`{change.path}`, which pytest loads for the prefetch tests, {happened(change)}"
        return [_reason("prefetch-test", detail, change)], ""
    return _imported(change, old, new, trouble, of_other_recipe)


def happened(change: Change) -> str:
    """Say what happened to a file."""
    match change.status:
        case "added" | "deleted":
            return f"was {change.status}"
        case "renamed":
            return f"was renamed from `{change.old_path}`"
        case _:
            return "changed"


def _imported(
    change: Change,
    old: RecipeAt,
    new: RecipeAt,
    trouble: UnparsableError | None,
    of_other_recipe: Callable[[str], bool],
) -> Judged:
    chain: tuple[str, ...] = ()
    if change.status != "deleted" and change.path in new.closure.importer:
        chain = new.closure.chain(change.path)
    elif change.old_path is not None and change.old_path in old.closure.importer:
        chain = old.closure.chain(change.old_path)
    runtime = next((path for path in (change.path, change.old_path) if _is_runtime(path)), None)
    shared = runtime is not None and runtime.removeprefix("src/").startswith("mvp_engine/")
    if chain or shared:
        chain = chain if len(chain) > 1 else ()
        if trouble is not None:
            return [_unparsable(trouble, chain)], ""
        kind = "module" if runtime is None else "runtime"
        detail = f"the {kind} `{change.path}` {happened(change)}{_what(change, old, new)}"
        rule = "imported-module" if runtime is None else "runtime"
        return [_reason(rule, detail, change, chain)], ""
    unknown = _why_unknown(new)
    if unknown is not None and not of_other_recipe(change.path):
        detail = f"`{change.path}` {happened(change)}, and what the recipe imports is not known: "
        return [_reason("unknown", detail + unknown, change)], ""
    if trouble is not None:
        return [], "it cannot be parsed, but no recipe imports it"
    if new.owns(change.path):
        return [], "a test that is none of the prefetch tests, and none of those imports it"
    return [], ""


def _why_unknown(recipe: RecipeAt) -> str | None:
    for path, why in recipe.closure.unreadable.items():
        return f"{path} cannot be read ({why})"
    return recipe.blind[0].why if recipe.blind else None


def _what(change: Change, old: RecipeAt, new: RecipeAt) -> str:
    """Name the definitions that changed."""
    if change.status in ("added", "deleted") or change.old_path is None:
        return ""
    before = module_parts(old.python.syntax(change.old_path))
    after = module_parts(new.python.syntax(change.path))
    names = [f"`{name}`" for name, _, _ in changed_parts(before, after)]
    return f": {listing(names)}" if names else ""


def _is_runtime(path: str | None) -> bool:
    """Tell whether a module lies in a package that shards models, `<package>/distributed/`."""
    return re.match(r"(src/)?[^/]+/distributed/", path or "") is not None


def _unparsable(trouble: UnparsableError, chain: tuple[str, ...] = ()) -> Reason:
    detail = f"`{trouble.location.path}` cannot be compared: {trouble.why}"
    return Reason(rule="unparsable", detail=detail, location=trouble.location, chain=chain)


def _reason(rule: str, detail: str, change: Change, chain: tuple[str, ...] = ()) -> Reason:
    where = {"path": change.path}
    return Reason.model_validate(
        {"rule": rule, "detail": detail, "location": where, "chain": chain}
    )


def _trouble(python: PythonTree, path: str | None) -> UnparsableError | None:
    if path is None or (path not in python.tree and path in python.tree.links()):
        return None
    try:
        python.syntax(path)
    except UnparsableError as trouble:
        return trouble
    except KeyError:
        return UnparsableError(Location(path=path), "it is too large to be read as source")
    return None
