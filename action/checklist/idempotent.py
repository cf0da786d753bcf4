"""idempotent: a second call of the hook changes nothing, as far as the source can tell."""

from __future__ import annotations

import ast

from action.checklist.context import Context, at, result
from action.records import CheckResult, Evidence, Guard, Hook, Verdict

_TROUBLE: dict[str, tuple[Verdict, str]] = {
    "never tested": ("fail", "`{sets}` is set but never tested: every call sets the edges again"),
    "never set": ("fail", "`{tests}` is tested but never set: every call sets the edges again"),
    "other name": (
        "fail",
        "`{tests}` is tested but never set (`{sets}` is set instead): every call sets the edges "
        "again",
    ),
    "perhaps in a helper": (
        "unknown",
        "only one half of the flag is in the hook: what it calls with the model may test or set "
        "the other half",
    ),
    "other object": (
        "fail",
        "`{tests}` is tested on one object and set on another: every call sets the edges again",
    ),
    "perhaps another object": (
        "unknown",
        "`{tests}` is tested on one name and set on another, and whether both are the same object "
        "is not known",
    ),
    "inverted": (
        "fail",
        "the edges are set when `{tests}` is set, not when it is unset: the first call sets none",
    ),
    "edges before the test": (
        "fail",
        "edges are set before `{tests}` is tested: a second call sets them again",
    ),
    "half tested": (
        "unknown",
        "`{tests}` is tested together with something else, which may let a second call set the "
        "edges again",
    ),
    "left unset": (
        "unknown",
        "on some way through the hook edges are set and `{sets}` is not: whether a call takes that "
        "way is not known",
    ),
}


def check(context: Context) -> CheckResult:
    """Decide the item from the hook's flag."""
    hooks = context.hooks_in_effect()
    if not hooks:
        doubts = context.hook_doubts()
        if doubts:
            summary = "no class was seen to bind a hook, but there may be one"
            return result("idempotent", "unknown", summary, doubts)
        return result("idempotent", "not applicable", "no hook is bound")
    verdicts = [_judge(context, hook) for hook in hooks]
    order = ("fail", "unknown", "pass")
    return min(verdicts, key=lambda verdict: order.index(verdict.verdict))


def _judge(context: Context, hook: Hook) -> CheckResult:
    if hook.kind in ("lambda", "not callable") or hook.function is None:
        summary = f"the hook is no function that can be followed: `{hook.binding.value}`"
        return result("idempotent", "unknown", summary, [at("the binding", hook.binding.location)])
    guard = hook.guard
    here = at(f"`{hook.function.name.rpartition('.')[2]}`", hook.function.location)
    if guard.replaced:
        summary = "within one call, a list of edges replaces one that was set before"
        evidence = [at("this list replaces an earlier one", line) for line in guard.replaced]
        return result("idempotent", "fail", summary, [*evidence, here])
    early = guard.trouble == "set before the edges"
    if guard.trouble is not None and not early:
        verdict, summary = _TROUBLE[guard.trouble]
        summary = summary.format(tests=guard.tests, sets=guard.sets)
        evidence = [at("here", guard.trouble_at), *_ends(guard), here]
        return result("idempotent", verdict, summary, _once(evidence))
    if guard.tests is None:
        summary = "the hook has no flag: whether a second call sets the same edges was not observed"
        return result("idempotent", "unknown", summary, [here])
    if guard.tests_for == "attribute" and not _is_set_elsewhere(context, hook):
        summary = f"`{guard.tests}` is read before anything sets it: the first call raises"
        return result("idempotent", "fail", summary, _ends(guard))
    summary = f"a second call returns at `{guard.tests}`, which the first one sets"
    if early:
        summary += (
            "; it is set before the edges, so that a hook that raises half-way counts as done"
        )
    return result("idempotent", "pass", summary, _ends(guard))


def _is_set_elsewhere(context: Context, hook: Hook) -> bool:
    """Tell whether code outside the hook sets its flag, or may do so."""
    flag, node = hook.guard.tests, context.hook_node(hook)
    if node is None or hook.function is None:
        return True
    for path in {*context.own_modules(), *(c.location.path for c in context.source.candidates)}:
        own = path == hook.function.location.path
        for inner in ast.walk(context.python.syntax(path)):
            line = getattr(inner, "lineno", 0)
            if own and node.lineno <= line <= (node.end_lineno or line):
                continue
            match inner:
                case (
                    ast.Attribute(attr=name, ctx=ast.Store())
                    | ast.Name(id=name, ctx=ast.Store())
                    | ast.Constant(value=str(name))
                ):
                    if name == flag:
                        return True
                case _:
                    pass
    return False


def _ends(guard: Guard) -> list[Evidence]:
    found = []
    if guard.tests is not None:
        found.append(at(f"`{guard.tests}` is tested", guard.tests_at))
    if guard.sets is not None:
        found.append(at(f"`{guard.sets}` is set", guard.sets_at))
    return found


def _once(evidence: list[Evidence]) -> list[Evidence]:
    """Leave out a bare "here" where a sentence points to the same line."""
    spoken = {e.location for e in evidence if e.text != "here"}
    return [e for e in evidence if e.text != "here" or e.location not in spoken]
