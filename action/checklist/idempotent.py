"""idempotent: a second call of the hook changes nothing, as far as the source can tell."""

from __future__ import annotations

import ast

from action.checklist.context import SETTERS, Context, at, result
from action.records import CheckResult, Evidence, Hook
from action.repository.syntax import Function, statements


def check(context: Context) -> CheckResult:
    """Decide the item from the hook's flag."""
    hooks = [h for h in map(context.hook_of, context.source.candidates) if h is not None]
    hooks = hooks or list(context.source.hooks)
    if not hooks:
        if context.source.problems:
            summary = "no hook was found, but not every file of the recipe could be read"
            return result("idempotent", "unknown", summary)
        return result("idempotent", "not applicable", "no hook is bound")
    verdicts = [_judge(context, hook) for hook in dict.fromkeys(hooks)]
    order = ("fail", "unknown", "pass")
    return min(verdicts, key=lambda verdict: order.index(verdict.verdict))


def _judge(context: Context, hook: Hook) -> CheckResult:
    node = context.hook_node(hook)
    if node is None:
        return result(
            "idempotent",
            "unknown",
            f"the hook's function is not in the source: `{hook.binding.value}`",
            [at("the binding", hook.binding.location)],
        )
    flag, checks, sets = hook.flag, hook.checks_flag, hook.sets_flag
    assert hook.function is not None
    here = [at(f"`{hook.function.name.rpartition('.')[2]}`", hook.function.location)]
    if flag is None:
        return result(
            "idempotent",
            "unknown",
            "the hook has no flag: whether a second call sets the same edges was not observed",
            here,
        )
    if checks is None:
        return result(
            "idempotent",
            "fail",
            f"`{flag}` is set but never tested: every call sets the edges again",
            [at(f"`{flag}` is set", sets), *here],
        )
    if sets is None:
        other = _other_flag(node, flag)
        return result(
            "idempotent",
            "fail",
            f"`{flag}` is tested but never set{other}: every call sets the edges again",
            [at(f"`{flag}` is tested", checks), *here],
        )
    evidence = [at(f"`{flag}` is tested", checks), at(f"`{flag}` is set", sets)]
    return _order(node, hook, evidence)


def _order(node: Function, hook: Hook, evidence: list[Evidence]) -> CheckResult:
    """Both ends of the flag are there: are they on every way through the function?"""
    body = node.body
    edges = [
        inner.lineno
        for inner in ast.walk(node)
        if isinstance(inner, ast.Attribute) and inner.attr in SETTERS.values()
    ]
    assert hook.checks_flag is not None
    assert hook.sets_flag is not None
    test = next((s for s in body if s.lineno == hook.checks_flag.line), None)
    top_set = next((s for s in body if s.lineno == hook.sets_flag.line), None)
    if not isinstance(test, ast.If) or not any(isinstance(s, ast.Return) for s in test.body):
        summary = f"`{hook.flag}` is tested, but not by an `if … : return` that every call meets"
        return result("idempotent", "unknown", summary, evidence)
    if edges and min(edges) < test.lineno:
        summary = f"edges are set before `{hook.flag}` is tested: a second call sets them again"
        return result("idempotent", "fail", summary, evidence)
    if not _same_object(test.test, node, hook):
        summary = f"`{hook.flag}` is tested on one object and set on another"
        return result("idempotent", "unknown", summary, evidence)
    if top_set is None or _returns_between(body, test, top_set):
        summary = f"`{hook.flag}` is set on some ways through the hook and not on others"
        return result("idempotent", "unknown", summary, evidence)
    early = bool(edges) and top_set.lineno < min(edges)
    note = (
        "; it is set before the edges, so that a hook that raises half-way counts as done"
        if early
        else ""
    )
    summary = f"a second call returns at `{hook.flag}`, which the first one sets{note}"
    return result("idempotent", "pass", summary, evidence)


def _same_object(test: ast.expr, node: Function, hook: Hook) -> bool:
    owners = set()
    for inner in ast.walk(test):
        if isinstance(inner, ast.Call) and len(inner.args) > 1:
            owners.add(ast.unparse(inner.args[0]))
        elif isinstance(inner, ast.Attribute) and inner.attr == hook.flag:
            owners.add(ast.unparse(inner.value))
    for statement in statements(node.body):
        if hook.sets_flag is not None and statement.lineno == hook.sets_flag.line:
            for inner in ast.walk(statement):
                if isinstance(inner, ast.Attribute) and inner.attr == hook.flag:
                    return ast.unparse(inner.value) in owners
                if isinstance(inner, ast.Call) and inner.args:
                    return ast.unparse(inner.args[0]) in owners
    return False


def _returns_between(body: list[ast.stmt], test: ast.stmt, top_set: ast.stmt) -> bool:
    return any(
        isinstance(inner, ast.Return)
        for statement in body
        if test.lineno < statement.lineno < top_set.lineno
        for inner in ast.walk(statement)
    )


def _other_flag(node: Function, flag: str) -> str:
    for statement in statements(node.body):
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Attribute):
            name = statement.targets[0].attr
            if name != flag and "config" in name:
                return f" (`{name}` is set instead)"
    return ""
