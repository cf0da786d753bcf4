"""hook-bound: the hook is on the class that training instantiates, callable with the model alone.

The runtime calls `model.__class__.APPLY_FSDP2_CUSTOM_PREFETCHING(model)` after wrapping. FSDP2
makes `FSDP<Class>` a subclass of the model's class, so that attributes of the class are found;
those of a class inside a wrapper (PEFT, torch.compile) are not.
"""

from __future__ import annotations

import ast

from action.checklist.context import Context, at, result, short
from action.contract import HOOK
from action.records import CheckResult, Evidence, Hook, Symbol, Verdict


def check(context: Context) -> CheckResult:
    """Decide the item from the source."""
    source = context.source
    if not source.hooks:
        return _without_hook(context)
    bound = ", ".join(dict.fromkeys(f"`{short(h.binding.owner)}`" for h in source.hooks))
    if not source.candidates or source.trail_ends:
        ends = [at(end.why, end.location) for end in source.trail_ends or source.problems]
        return result(
            "hook-bound",
            "unknown",
            f"a hook is bound on {bound}, but which class training instantiates could not be "
            "followed to its end",
            [*(_bound_at(hook) for hook in source.hooks), *ends],
        )
    found = [(cls, context.hook_of(cls)) for cls in source.candidates]
    missing = [cls for cls, hook in found if hook is None]
    if missing:
        return _missing(context, bound, missing)
    if source.hidden_by:
        evidence = [at(hidden.why, hidden.location) for hidden in source.hidden_by]
        if source.sometimes_hidden:
            summary = (
                f"on one way through the builder, {source.hidden_by[0].why}, and the runtime would "
                f"not find the hook of {bound} there; which way training takes is not known"
            )
            return result("hook-bound", "unknown", summary, evidence)
        return result(
            "hook-bound",
            "fail",
            f"{source.hidden_by[0].why} before the model is sharded, so that the runtime does not "
            f"find the hook of {bound} on the wrapped model's class",
            evidence,
        )
    problems = [p for cls, hook in found if hook is not None for p in _problems(context, cls, hook)]
    if problems:
        return result("hook-bound", *min(problems, key=lambda p: p[0] != "fail"))
    cls, hook = found[0]
    assert hook is not None
    what = f"`{short(hook.function)}`" if hook.function else f"`{hook.binding.value}`"
    inherited = ""
    if hook.binding.owner.name != cls.name:
        inherited = f", inherited from `{short(hook.binding.owner)}`"
    names = ", ".join(f"`{short(c)}`" for c, _ in found)
    role = "the class" if len(found) == 1 else "the classes"
    return result(
        "hook-bound",
        "pass",
        f"{what} is bound on {names}, {role} that `prepare_model()` instantiates"
        f"{inherited}, and takes the model alone",
        [
            *dict.fromkeys(_bound_at(h) for _, h in found if h is not None),
            *(at(f"training instantiates `{short(c)}`", c.location) for c, _ in found),
        ],
    )


def _missing(context: Context, bound: str, missing: list[Symbol]) -> CheckResult:
    """Return the verdict when some class that training may instantiate has no hook."""
    source = context.source
    evidence = [_bound_at(hook) for hook in source.hooks]
    evidence += [at(f"training instantiates `{short(c)}`", c.location) for c in missing]
    evidence += [at(end.why, end.location) for end in source.hooks_unseen]
    names = ", ".join(f"`{short(cls)}`" for cls in missing)
    open_ends = [end for cls in missing if (end := context.inheritance_end(cls)) is not None]
    if open_ends or source.hooks_unsettled:
        ends = [*open_ends, *source.hooks_unsettled]
        summary = f"the hook is bound on {bound}; whether {names} has one too is not known"
        evidence += [at(end.why, end.location) for end in ends]
        return result("hook-bound", "unknown", summary, evidence)
    if len(missing) < len(source.candidates):
        summary = (
            f"the hook is bound on {bound}, but on some way through the builder training "
            f"instantiates {names}, which has none; which way it takes is not known"
        )
        return result("hook-bound", "unknown", summary, evidence)
    summary = (
        f"the hook is bound on {bound}, but training instantiates {names}, which neither has "
        "nor inherits it: the runtime skips it without a word"
    )
    return result("hook-bound", "fail", summary, evidence)


def _without_hook(context: Context) -> CheckResult:
    source = context.source
    if source.problems:
        return result(
            "hook-bound",
            "unknown",
            "no hook was found, but not every file of the recipe could be read",
            [at(problem.why, problem.location) for problem in source.problems],
        )
    if source.hooks_unsettled:
        return result(
            "hook-bound",
            "unknown",
            f"`{HOOK}` is set by code of which the source does not show that it runs before the "
            "model is sharded",
            [at(end.why, end.location) for end in source.hooks_unsettled],
        )
    if source.hooks_unseen:
        first = source.hooks_unseen[0]
        return result(
            "hook-bound",
            "fail",
            f"no class binds `{HOOK}`: {first.why}",
            [at(end.why, end.location) for end in source.hooks_unseen],
        )
    setters = context.functions_that_set_edges()
    if setters:
        names = ", ".join(f"`{function.name}`" for function in setters)
        return result(
            "hook-bound",
            "fail",
            f"{names} sets prefetch edges, but no class binds it as `{HOOK}`: the runtime does not "
            "call it",
            [at(f"`{function.name}` sets edges", function.location) for function in setters],
        )
    open_ends = [
        end for cls in source.candidates if (end := context.inheritance_end(cls)) is not None
    ]
    if open_ends:
        return result(
            "hook-bound",
            "unknown",
            "no hook is bound in the recipe; whether its model inherits one is not known",
            [at(end.why, end.location) for end in open_ends],
        )
    evidence = [at("the top-level class", cls.location) for cls in source.candidates]
    return result(
        "hook-bound",
        "not applicable",
        f"no class of the recipe binds `{HOOK}`: FSDP2's default prefetching is in charge",
        evidence,
    )


def _problems(
    context: Context, cls: Symbol, hook: Hook
) -> list[tuple[Verdict, str, list[Evidence]]]:
    """Return what is wrong with calling this hook, as (verdict, summary, evidence)."""
    value = f"`{hook.binding.value}`"
    evidence = [_bound_at(hook)]
    if hook.function is not None:
        evidence.append(at("its definition", hook.function.location))
    if hook.kind == "not callable":
        return [("fail", f"`{HOOK}` holds {value}, which cannot be called", evidence)]
    node = context.hook_node(hook)
    if isinstance(node, ast.AsyncFunctionDef):
        summary = f"{value} is a coroutine function: the runtime's call does not run it"
        return [("fail", summary, evidence)]
    if node is not None and _is_generator(node):
        return [("fail", f"{value} is a generator: the runtime's call does not run it", evidence)]
    if hook.takes_model_alone is False:
        names = ", ".join(hook.parameters)
        summary = f"the runtime calls {value} with the model alone, but it takes ({names})"
        return [("fail", summary, evidence)]
    if hook.takes_model_alone is None:
        summary = f"what `{HOOK}` holds, {value}, is not followed to a function"
        return [("unknown", summary, evidence)]
    early = [
        *(at(end.why, end.location) for end in context.source.flags_set_early),
        *_flag_set_early(context, cls, hook),
    ]
    if early:
        summary = (
            f"`{hook.guard.tests}` is set before the model is wrapped, so that the hook returns "
            "at once"
        )
        return [("fail", summary, [*early, *evidence])]
    return []


def _flag_set_early(context: Context, cls: Symbol, hook: Hook) -> list[Evidence]:
    flag = hook.guard.tests
    if flag is None:
        return []
    found = []
    for name in context.ancestors(cls):
        definition = next(
            (
                d
                for symbol in (cls, *context.source.model_classes)
                if symbol.name == name and (d := context.definition(symbol)) is not None
            ),
            None,
        )
        if definition is None:
            continue
        for statement in ast.walk(definition.node):
            targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
            value = getattr(statement, "value", None)
            if not isinstance(statement, ast.Assign | ast.AnnAssign):
                continue
            # A test for presence finds a flag that is set to False, too.
            present = hook.guard.tests_for == "presence" and value is not None
            if not present and not (isinstance(value, ast.Constant) and value.value):
                continue
            inside_hook = hook.function is not None and _within(context, hook, statement.lineno)
            names = {getattr(t, "attr", getattr(t, "id", None)) for t in targets}
            if flag in names and not inside_hook:
                where = definition.location.model_copy(update={"line": statement.lineno})
                found.append(at(f"`{flag}` is set here", where))
    return found


def _within(context: Context, hook: Hook, line: int) -> bool:
    node = context.hook_node(hook)
    return node is not None and node.lineno <= line <= (node.end_lineno or node.lineno)


def _is_generator(node: ast.AST) -> bool:
    stack = list(ast.iter_child_nodes(node))
    while stack:
        inner = stack.pop()
        if isinstance(inner, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            stack += ast.iter_child_nodes(inner)
    return False


def _bound_at(hook: Hook) -> Evidence:
    return at(f"bound on `{short(hook.binding.owner)}`", hook.binding.location)
