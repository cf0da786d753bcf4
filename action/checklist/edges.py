"""forward-edges and backward-edges: right order in every training path, nothing useless.

Only the order in which units really run decides; the source alone can show that an edge is wrong,
never that all are right.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from action.checklist.context import Context, at, result
from action.contract import SETTERS
from action.records import CheckId, CheckResult, Evidence, Hook, Location


def check_forward(context: Context) -> CheckResult:
    """Decide forward-edges as far as the source can."""
    return _check(context, "forward-edges", "forward")


def check_backward(context: Context) -> CheckResult:
    """Decide backward-edges as far as the source can."""
    return _check(context, "backward-edges", "backward")


def _check(context: Context, item: CheckId, direction: str) -> CheckResult:
    hooks = context.hooks_in_effect()
    if not hooks:
        doubts = context.hook_doubts()
        if doubts:
            summary = "no class was seen to bind a hook, but edges may be set all the same"
            return result(item, "unknown", summary, doubts, by="nothing")
        return result(item, "not applicable", "no hook is bound, so that no edge is set")
    wrong = [e for hook in hooks for e in _certainly_wrong(context, hook, SETTERS[direction])]
    if wrong:
        return result(item, "fail", wrong[0].text, wrong)
    if all(_sets_none(context, hook, SETTERS[direction]) for hook in hooks):
        places = [at("the hook", h.function.location) for h in hooks if h.function is not None]
        return result(item, "not applicable", f"the hook sets no {direction} edge", places)
    return result(
        item,
        "unknown",
        f"the order in which the units run {direction} was not observed",
        [
            at(f"the hook that sets {direction} edges", hook.function.location)
            for hook in hooks
            if hook.function is not None
        ],
        by="nothing",
    )


def _certainly_wrong(context: Context, hook: Hook, setter: str) -> Iterator[Evidence]:
    """Yield the calls of which the source alone shows that they are wrong."""
    node = context.hook_node(hook)
    if node is None or hook.function is None:
        return
    model = next(iter(node.args.posonlyargs + node.args.args), None)
    modules = _certainly_modules(node)
    for call in _calls(node, setter):
        assert isinstance(call.func, ast.Attribute)
        where = Location(path=hook.function.location.path, line=call.lineno)
        source = ast.unparse(call.func.value)
        if len(call.args) != 1:
            continue
        if not isinstance(call.args[0], ast.List | ast.Tuple):
            given = ast.unparse(call.args[0])
            if given in modules:
                yield at(f"`{_quoted(given)}` is a module, where a list of modules is due", where)
            continue
        # A call may return another module each time: `next(layers)`.
        elements = [e for e in call.args[0].elts if not _calls_something(e)]
        targets = [ast.unparse(element) for element in elements]
        if source in targets:
            yield at(f"`{_quoted(source)}` is told to prefetch itself", where)
        if model is not None and model.arg in targets:
            yield at(f"an edge points to the root, `{model.arg}`", where)
        for target in sorted(set(targets)):
            if targets.count(target) > 1:
                yield at(f"`{_quoted(target)}` stands twice in one list of edges", where)


def _certainly_modules(node: ast.AST) -> set[str]:
    """Return the expressions of a hook that are modules: whatever edges are set on, or listed."""
    found: set[str] = set()
    for setter in SETTERS.values():
        for call in _calls(node, setter):
            assert isinstance(call.func, ast.Attribute)
            found.add(ast.unparse(call.func.value))
            for argument in call.args:
                if isinstance(argument, ast.List | ast.Tuple):
                    found.update(
                        ast.unparse(element)
                        for element in argument.elts
                        if not isinstance(element, ast.Starred)
                    )
    return found


def _sets_none(context: Context, hook: Hook, setter: str) -> bool:
    """Tell whether a hook certainly sets no edge of a kind: it calls nothing that could."""
    node = context.hook_node(hook)
    if node is None or any(
        isinstance(inner, ast.Attribute | ast.Constant)
        and getattr(inner, "attr", getattr(inner, "value", None)) == setter
        for inner in ast.walk(node)
    ):
        return False
    known = {*SETTERS.values(), "getattr", "hasattr", "setattr", "len", "range", "zip", "list",
             "enumerate", "reversed", "isinstance", "pairwise", "children", "modules", "items",
             "values"}  # fmt: skip
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            name = getattr(inner.func, "attr", getattr(inner.func, "id", None))
            if name not in known:
                return False
    return True


def _calls_something(node: ast.AST) -> bool:
    return any(isinstance(inner, ast.Call) for inner in ast.walk(node))


def _calls(node: ast.AST, setter: str) -> Iterator[ast.Call]:
    for inner in ast.walk(node):
        if (
            isinstance(inner, ast.Call)
            and isinstance(inner.func, ast.Attribute)
            and inner.func.attr == setter
        ):
            yield inner


def _quoted(text: str) -> str:
    return " ".join(text.split()).replace("`", "'")
