"""What a change to a recipe's own Python means: which definitions, and whether they count."""

from __future__ import annotations

import ast

from action.records import Location, Reason
from action.repository.diff import Change
from action.select.parts import MODULE_LEVEL, Part
from action.select.reach import HOOK_ATTRIBUTE, TARGET_LIST, TP_ATTRIBUTES, Reached
from action.select.recipe import RecipeAt


def source_reasons(change: Change, old: RecipeAt, new: RecipeAt) -> tuple[list[Reason], str]:
    """Return the reasons that a changed module of the recipe gives, and why there are none."""
    before = old.reach.parts.get(change.old_path or "", {})
    after = {} if change.status == "deleted" else new.reach.parts.get(change.path, {})
    if change.old_path is not None and change.old_path != change.path:
        moved = _moved_reasons(change, old, new)
        if moved:
            return moved, ""
    reasons: list[Reason] = []
    idle: list[str] = []
    for name in sorted(before.keys() | after.keys(), key=lambda n: _line(n, before, after)):
        one, other = before.get(name), after.get(name)
        if one is not None and other is not None and one.print == other.print:
            continue
        why = new.reach.reached.get((change.path, name)) or old.reach.reached.get(
            (change.old_path or "", name)
        )
        if why is not None:
            reasons += _part_reasons(change, name, one, other, why, old, new)
        elif new.reach.dynamic:
            detail = f"`{name}` {_verb(one, other)}, and what the recipe imports is not known"
            reasons.append(Reason(rule="unknown", detail=detail, location=new.reach.dynamic[0]))
        else:
            idle.append(f"`{name}`")
    if reasons or not idle:
        return reasons, "nothing in it that has a meaning changed"
    shown = ", ".join(idle[:3]) + (f" and {len(idle) - 3} more" if len(idle) > 3 else "")
    return [], f"only {shown} changed, which neither the model nor building it uses"


def _moved_reasons(change: Change, old: RecipeAt, new: RecipeAt) -> list[Reason]:
    """A module that counts and moved: the class that training imports may be another one now."""
    counts = [name for path, name in new.reach.reached if path == change.path]
    if not counts and change.old_path in old.reach.parts:
        counts = [name for path, name in old.reach.reached if path == change.old_path]
    if not counts:
        return []
    detail = f"the module was renamed from `{change.old_path}`"
    return [Reason(rule="model-class", detail=detail, location=Location(path=change.path))]


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
    verb = _verb(before, after)
    hooks = new.reach.hooks | old.reach.hooks

    where = Location(path=change.path, line=after.line if after is not None else None)

    if name in hooks or (why.root == "hook" and why.via is None):
        return [_reason("hook", f"the hook `{name}` {verb}", where)]
    if name in (HOOK_ATTRIBUTE, TARGET_LIST, *TP_ATTRIBUTES):
        return [_reason(_attribute_rule(name), f"`{name}` {verb}", where)]
    if name == MODULE_LEVEL:
        rule, detail = _module_level(before, after)
        return [_reason(rule, detail, where)]
    if isinstance(part.node, ast.ClassDef) and why.root == "model" and why.via is None:
        targets = old.target_names | new.target_names
        return _class_reasons(change, name, before, after, why.may_be_model, targets)
    if why.root == "builder" and why.via is None:
        return [_reason("builder", f"`{name}`, which builds or runs the model, {verb}", where)]
    rules = {"model": "model-class", "hook": "hook", "builder": "builder", "import": "builder"}
    return [_reason(rules[why.root], f"`{name}`, which `{why.via}` uses, {verb}", where)]


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
    verb = _verb(before, after)
    special = (HOOK_ATTRIBUTE, TARGET_LIST, *TP_ATTRIBUTES)
    old, new = (before.pieces if before else {}), (after.pieces if after else {})
    changed = [piece for piece in (*new, *(old.keys() - new.keys())) if
               old.get(piece) != new.get(piece)]  # fmt: skip
    reasons = []
    if before is not None and after is not None:
        for piece in changed:
            if piece in special:
                detail = f"`{name}.{piece}` {_piece_verb(piece, old, new)}"
                at = Location(path=change.path, line=_piece_line(after, piece) or line)
                reasons.append(_reason(_attribute_rule(piece), detail, at))
        changed = [piece for piece in changed if piece not in special]
        if reasons and not changed:
            return reasons
    if name in targets:
        rule, what = "wrap-target", f"the wrap target `{name}`"
    elif may_be_model:
        rule, what = "model-class", f"`{name}`, which may be a model class,"
    else:
        rule, what = "model-class", f"the model class `{name}`"
    named = [f"`{piece}`" for piece in changed if piece]
    within = f" ({', '.join(named[:3])})" if named and before is not None and after else ""
    at = Location(path=change.path, line=line)
    return [*reasons, _reason(rule, f"{what} {verb}{within}", at)]


def _reason(rule: str, detail: str, location: Location) -> Reason:
    return Reason.model_validate({"rule": rule, "detail": detail, "location": location})


def _piece_verb(piece: str, old: dict[str, str], new: dict[str, str]) -> str:
    if piece not in old:
        return "was added"
    return "changed" if piece in new else "was removed"


def _piece_line(part: Part, piece: str) -> int | None:
    for statement in getattr(part.node, "body", []):
        target = getattr(statement, "target", None) or next(
            iter(getattr(statement, "targets", [])), None
        )
        if getattr(statement, "name", getattr(target, "id", None)) == piece:
            return int(statement.lineno)
    return None


def _attribute_rule(name: str) -> str:
    if name == HOOK_ATTRIBUTE:
        return "hook"
    return "wrap-target" if name == TARGET_LIST else "tp-attributes"


def _module_level(before: Part | None, after: Part | None) -> tuple[str, str]:
    mentions = (before.mentions if before else frozenset()) ^ (
        after.mentions if after else frozenset()
    )
    both = (before.mentions if before else frozenset()) | (after.mentions if after else frozenset())
    for names, rule, what in (
        ((HOOK_ATTRIBUTE,), "hook", "the hook"),
        ((TARGET_LIST,), "wrap-target", "the wrap targets"),
        (TP_ATTRIBUTES, "tp-attributes", "the TP attributes"),
    ):
        if any(name in mentions or name in both for name in names):
            return rule, f"module-level code that sets {what} changed"
    return "builder", "code that runs when the module is imported changed"


def _verb(before: Part | None, after: Part | None) -> str:
    if before is None:
        return "was added"
    return "changed" if after is not None else "was removed"


def _line(name: str, before: dict[str, Part], after: dict[str, Part]) -> tuple[int, str]:
    part = after.get(name) or before[name]
    return part.line, name
