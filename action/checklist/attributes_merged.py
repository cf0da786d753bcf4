"""attributes-merged: TP and FSDP2 attributes lie on the one class that training instantiates."""

from __future__ import annotations

import ast

from action.checklist.context import Context, at, result, short
from action.contract import HOOK, TARGET_LIST, TP_ATTRIBUTES
from action.records import CheckResult, ClassAttribute, Evidence, Hook, Symbol
from action.repository.python import Definition


def check(context: Context) -> CheckResult:
    """Decide the item from where the attributes are bound."""
    source = context.source
    tensor = [a for a in source.attributes if a.name in TP_ATTRIBUTES]
    if source.problems and not (tensor and source.hooks):
        summary = "not every file of the recipe could be read"
        evidence = [at(problem.why, problem.location) for problem in source.problems]
        return result("attributes-merged", "unknown", summary, evidence)
    if not tensor or not source.hooks:
        missing = "no TP attribute" if not tensor else "no prefetch hook"
        summary = f"there is {missing} to be merged with"
        return result("attributes-merged", "not applicable", summary)
    evidence = [_place(a) for a in tensor] + [_place(h.binding) for h in source.hooks]
    if not source.candidates or source.trail_ends:
        return _without_class(tensor, source.hooks, evidence)
    troubles = [
        trouble
        for cls in source.candidates
        if (trouble := _apart(context, cls, tensor) or _empty_wrapper(context, cls)) is not None
    ]
    if troubles and len(troubles) < len(source.candidates):
        summary = f"{troubles[0]}; whether training instantiates it is not known"
        return result("attributes-merged", "unknown", summary, evidence)
    if troubles:
        return result("attributes-merged", "fail", troubles[0], evidence)
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(a.name for a in tensor))
    summary = f"{names} and the hook are found on `{short(source.candidates[0])}`"
    return result("attributes-merged", "pass", summary, evidence)


def _without_class(
    tensor: list[ClassAttribute], hooks: tuple[Hook, ...], evidence: list[Evidence]
) -> CheckResult:
    owners = {a.owner.name for a in tensor} | {h.binding.owner.name for h in hooks}
    if len(owners) == 1:
        summary = f"TP attributes and the hook are bound on one class, `{short(tensor[0].owner)}`"
        return result("attributes-merged", "pass", summary, evidence)
    summary = "TP attributes and the hook are bound on several classes, and which one training "
    summary += "instantiates is not known"
    return result("attributes-merged", "unknown", summary, evidence)


def _apart(context: Context, cls: Symbol, tensor: list[ClassAttribute]) -> str | None:
    """Return a sentence when the instantiated class lacks one kind of attribute."""
    hook = context.hook_of(cls)
    found = [a for name in TP_ATTRIBUTES if (a := context.attribute_of(cls, name)) is not None]
    if hook is None and found:
        other = short(context.source.hooks[0].binding.owner)
        return f"`{short(cls)}` has the TP attributes, but the hook is on `{other}`"
    if hook is not None and not found:
        other = short(tensor[0].owner)
        return f"`{short(cls)}` has the hook, but `{tensor[0].name}` is on `{other}`"
    inner = [
        attribute
        for attribute in tensor
        if attribute.name not in {a.name for a in found} and _uses(context, cls, attribute.owner)
    ]
    if hook is not None and inner:
        names = f"`{inner[0].name}` is on `{short(inner[0].owner)}`, a part of it"
        return f"`{short(cls)}` has the hook and `{found[0].name}`, but {names}"
    return None


def _uses(context: Context, cls: Symbol, other: Symbol) -> bool:
    """Tell whether the source of a class, or of an ancestor of it, names another class."""
    definition = context.definition(cls)
    if definition is None:
        return False
    return any(
        isinstance(node, ast.Name | ast.Attribute)
        and getattr(node, "id", getattr(node, "attr", None)) == short(other)
        for ancestor in context.python.linearized(definition)
        if isinstance(ancestor, Definition)
        for statement in getattr(ancestor.node, "body", [])
        for node in ast.walk(statement)
    )


def _empty_wrapper(context: Context, cls: Symbol) -> str | None:
    """Return a sentence when a class exists for no other purpose than to carry the hook."""
    hook = context.hook_of(cls)
    owners = [a.owner for n in TP_ATTRIBUTES if (a := context.attribute_of(cls, n)) is not None]
    if hook is None or not owners or hook.binding.owner.name == owners[0].name:
        return None
    if hook.binding.owner.name != cls.name:
        return None
    definition = context.definition(cls)
    body = getattr(definition.node, "body", []) if definition is not None else []
    allowed = (HOOK, TARGET_LIST, *TP_ATTRIBUTES)
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]) if name in allowed:
                pass
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case _:
                return None
    return (
        f"`{short(cls)}` does nothing but carry the hook beside `{short(owners[0])}`, which has "
        "the TP attributes; bind the hook on that class"
    )


def _place(attribute: ClassAttribute) -> Evidence:
    return at(f"`{attribute.name}` on `{short(attribute.owner)}`", attribute.location)
