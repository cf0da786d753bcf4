"""What a change to a recipe's own Python means: which definitions, and whether they count."""

from __future__ import annotations

import ast

from action.contract import HOOK, TARGET_LIST, TP_ATTRIBUTES
from action.records import Location, Reason
from action.repository.diff import Change
from action.select.parts import MAIN_GUARD, MODULE_LEVEL, Part, class_pieces
from action.select.reach import SPECIAL, Reached, Root
from action.select.recipe import RecipeAt

_RULES: dict[Root, str] = {
    "model": "model-class",
    "hook": "hook",
    "tp": "tp-attributes",
    "target": "wrap-target",
    "builder": "builder",
    "paths": "builder",
    "import": "builder",
}
_RULE_ORDER: tuple[Root, ...] = ("model", "hook", "target", "tp", "builder", "paths", "import")
_SHORT = 60


def source_reasons(change: Change, old: RecipeAt, new: RecipeAt) -> tuple[list[Reason], str]:
    """Return the reasons that a changed module of the recipe gives, and why there are none."""
    before = old.reach.parts.get(change.old_path or "", {})
    after = {} if change.status == "deleted" else new.reach.parts.get(change.path, {})
    reasons: list[Reason] = []
    imports: list[Reason] = []
    idle: list[str] = []
    for name, one, other in changed_parts(before, after):
        if change.status in ("added", "deleted") and _only_future(other or one):
            continue
        why = new.reach.reached.get((change.path, name)) or old.reach.reached.get(
            (change.old_path or "", name)
        )
        if why is not None:
            found = _part_reasons(change, name, one, other, why, old, new)
            is_import = all(part is None or part.is_import for part in (one, other))
            (imports if is_import else reasons).extend(found)
        elif new.blind and name != MAIN_GUARD:
            spot = new.blind[0]
            detail = (
                f"`{name}` {verb(one, other)}, and what the recipe reaches is not known: {spot.why}"
            )
            where = Location(path=change.path, line=other.line if other else None)
            reasons.append(Reason(rule="unknown", detail=detail, location=where))
        elif other is None and (change.path, name) in new.reach.imports:
            importer = new.reach.imports[change.path, name]
            detail = f"`{name}` was removed, and {importer} still imports it"
            reasons.append(_reason("imported-module", detail, Location(path=change.path)))
        else:
            idle.append(name)
    moved = _moved_reasons(change, old, new)
    # An import that changed along with what uses it says nothing more.
    reasons = [*moved, *(reasons or ([] if moved else imports))]
    if not reasons and change.status == "deleted" and change.path in old.closure.importer:
        chain = old.closure.chain(change.path)
        where = Location(path=change.path)
        detail = f"the module `{change.path}` was deleted"
        return [Reason(rule="imported-module", detail=detail, location=where, chain=chain)], ""
    if reasons or not idle:
        return reasons, "nothing in it that has a meaning changed"
    shown = _named(idle, before | after)
    return [], f"only {shown} changed, which nothing that builds or runs the model mentions"


def changed_parts(
    before: dict[str, Part], after: dict[str, Part]
) -> list[tuple[str, Part | None, Part | None]]:
    """Return (name, before, after) of the parts that differ, in the order of their lines."""
    names = sorted(
        before.keys() | after.keys(),
        key=lambda name: ((after.get(name) or before[name]).line, name),
    )
    pairs = [(name, before.get(name), after.get(name)) for name in names]
    return [
        (name, one, other)
        for name, one, other in pairs
        if one is None or other is None or one.print != other.print
    ]


def verb(before: object, after: object) -> str:
    """Say what happened to something by whether it was there before and after."""
    if before is None:
        return "was added"
    return "changed" if after is not None else "was removed"


def listing(items: list[str] | tuple[str, ...], most: int = 3) -> str:
    """Return the first items of a list, and how many more there are."""
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"


def _named(names: list[str], parts: dict[str, Part]) -> str:
    """List definitions; imports and module-level code only where there is nothing else."""
    shown = [f"`{name}`" for name in names if name != MODULE_LEVEL and not parts[name].is_import]
    return listing(shown) if shown else "imports or module-level code"


def _moved_reasons(change: Change, old: RecipeAt, new: RecipeAt) -> list[Reason]:
    """A module that counts and moved: the class that training imports may be another one now."""
    if change.old_path is None or change.old_path == change.path:
        return []
    counts = {why.root for (path, _), why in new.reach.reached.items() if path == change.path}
    if not counts:
        reached = old.reach.reached.items()
        counts = {why.root for (path, _), why in reached if path == change.old_path}
    if not counts:
        return []
    rule = _RULES[min(counts, key=_RULE_ORDER.index)]
    detail = f"the module was renamed from `{change.old_path}`"
    return [_reason(rule, detail, Location(path=change.path))]


def _part_reasons(
    change: Change,
    name: str,
    before: Part | None,
    after: Part | None,
    why: Reached,
    old: RecipeAt,
    new: RecipeAt,
) -> list[Reason]:
    part = after or before
    assert part is not None
    what = verb(before, after)
    where = Location(path=change.path, line=after.line if after is not None else None)
    is_class = isinstance(part.node, ast.ClassDef)
    if why.root == "hook" and why.via is None and not is_class:
        return [_reason("hook", f"the hook `{name}` {what}", where)]
    if name in SPECIAL:
        return [_reason(_attribute_rule(name), f"`{name}` {what}", where)]
    if name == MODULE_LEVEL:
        rule, detail = _module_level(before, after)
        return [_reason(rule, detail, where)]
    if is_class and why.root == "model" and why.via is None:
        targets = old.target_names | new.target_names
        return _class_reasons(change, name, before, after, why.may_be_model, targets)
    if why.via is not None:
        which = "which" if why.member is None else f"whose `{why.member}`"
        detail = f"`{name}`, {which} `{why.via}` mentions, {what}"
        return [_reason(_RULES[why.root], detail, where)]
    role = {
        "builder": "which builds or runs the model",
        "paths": "which gives a batch of each training path",
        "import": "which registers "
        + ("itself" if _is_definition(part) else "something")
        + " when its module is imported",
    }.get(why.root, "which the model uses")
    return [_reason(_RULES[why.root], f"`{name}`, {role}, {what}", where)]


def _is_definition(part: Part) -> bool:
    return isinstance(part.node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)


def _class_reasons(
    change: Change,
    name: str,
    before: Part | None,
    after: Part | None,
    may_be_model: bool,
    targets: frozenset[str],
) -> list[Reason]:
    """Return a reason for each kind of thing that changed in a model class."""
    line = after.line if after is not None else None
    old, new = (before.pieces if before else {}), (after.pieces if after else {})
    changed = [
        piece for piece in (*new, *(old.keys() - new.keys())) if old.get(piece) != new.get(piece)
    ]
    reasons = []
    if before is not None and after is not None:
        for piece in changed:
            if piece in SPECIAL:
                at = Location(path=change.path, line=_piece_line(after, piece) or line)
                detail = f"`{name}.{piece}` {_piece_change(piece, before, after)}"
                reasons.append(_reason(_attribute_rule(piece), detail, at))
        changed = [piece for piece in changed if piece not in SPECIAL]
        if reasons and not changed:
            return reasons
    if name in targets:
        rule, what = "wrap-target", f"the wrap target `{name}`"
    elif may_be_model:
        rule, what = "model-class", f"`{name}`, which may be a model class,"
    else:
        rule, what = "model-class", f"the model class `{name}`"
    named = [f"`{piece}`" for piece in changed if piece]
    within = f" ({listing(named)})" if named and before is not None and after is not None else ""
    at = Location(path=change.path, line=line)
    return [*reasons, _reason(rule, f"{what} {verb(before, after)}{within}", at)]


def _reason(rule: str, detail: str, location: Location) -> Reason:
    return Reason.model_validate({"rule": rule, "detail": detail, "location": location})


def _piece_change(piece: str, before: Part, after: Part) -> str:
    old, new = _piece(before, piece), _piece(after, piece)
    if old is None or new is None:
        return verb(old, new)
    values = (getattr(old, "value", None), getattr(new, "value", None))
    texts = [ast.unparse(value) for value in values if value is not None]
    if len(texts) == 2 and all(len(text) <= _SHORT and "\n" not in text for text in texts):
        return f"changed: `{texts[0]}` → `{texts[1]}`"
    return "changed"


def _piece(part: Part, name: str) -> ast.stmt | None:
    found = [
        statement
        for node in part.nodes
        if isinstance(node, ast.ClassDef)
        for label, statement in class_pieces(node)
        if label == name
    ]
    return found[-1] if found else None


def _piece_line(part: Part, name: str) -> int | None:
    piece = _piece(part, name)
    return piece.lineno if piece is not None else None


def _attribute_rule(name: str) -> str:
    if name == HOOK:
        return "hook"
    return "wrap-target" if name == TARGET_LIST else "tp-attributes"


def _module_level(before: Part | None, after: Part | None) -> tuple[str, str]:
    """Say which code that runs at import changed, by the names in the statements that differ."""
    old, new = (_dumped(part) for part in (before, after))
    differing = [
        *(node for text, node in old.items() if text not in new),
        *(node for text, node in new.items() if text not in old),
    ]
    touched = {
        getattr(inner, "attr", getattr(inner, "value", None))
        for node in differing
        for inner in ast.walk(node)
        if isinstance(inner, ast.Attribute | ast.Constant)
    }
    for names, rule, what in (
        ((HOOK,), "hook", "the hook"),
        ((TARGET_LIST,), "wrap-target", "the wrap targets"),
        (TP_ATTRIBUTES, "tp-attributes", "the TP attributes"),
    ):
        if touched & set(names):
            return rule, f"module-level code that sets {what} changed"
    return "builder", "code that runs when the module is imported changed"


def _only_future(part: Part | None) -> bool:
    return part is not None and all(
        isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in part.nodes
    )


def _dumped(part: Part | None) -> dict[str, ast.AST]:
    return {ast.dump(node): node for node in part.nodes} if part is not None else {}
