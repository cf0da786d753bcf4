"""The verdicts on a hook's binding and flag, against Python doing what the runtime does."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any, ClassVar

import pytest

from .conftest import MODEL, Recipe
from .test_forms import FORMS, MODEL_PY

HOOK = "APPLY_FSDP2_CUSTOM_PREFETCHING"
FLAG = "_fsdp2_prefetching_configured"


class Module:
    """As much of a wrapped module as a hook sees; it counts what is set on it."""

    head, tail, training = None, (), True

    calls: ClassVar[list[tuple[str, Any, tuple[Any, ...]]]] = []

    def set_modules_to_forward_prefetch(self, modules):
        self.calls.append(("forward", self, tuple(modules)))

    def set_modules_to_backward_prefetch(self, modules):
        self.calls.append(("backward", self, tuple(modules)))


def instantiated(source: str) -> Any:
    """An object of the recipe's top-level class, its modules being the ones above."""
    torch = types.ModuleType("torch")
    torch.nn = types.SimpleNamespace(Module=Module, ModuleList=list)
    torch.no_grad = lambda: lambda function: function
    names = {"functools": functools, "torch": torch, "ClassVar": ClassVar, "__name__": "model"}
    before = sys.modules.get("torch")
    sys.modules["torch"] = torch
    try:
        exec(compile(source, "model.py", "exec"), names)
    finally:
        del sys.modules["torch"]
        if before is not None:
            sys.modules["torch"] = before
    return names["Toy"](8)


def alone(item: str) -> list[str]:
    """The forms of an item that are a model file and nothing else, with a verdict to confirm."""
    return [
        form
        for form, (verdict, files) in FORMS[item].items()
        if verdict in ("pass", "fail")
        and (list(files) == [MODEL_PY] or not files)
        and " import " not in files.get(MODEL_PY, MODEL).replace("from torch import nn", "")
    ]


@pytest.mark.parametrize("form", alone("hook-bound"))
def test_the_runtimes_call(form):
    verdict, files = FORMS["hook-bound"][form]
    Module.calls.clear()
    try:
        model = instantiated(files.get(MODEL_PY, MODEL))
        outcome = getattr(model.__class__, HOOK)(model)
        works = outcome is None
        # A flag that is found set at the first call makes the hook do nothing.
        works = works and not (model.__dict__.get(FLAG) is not None and not Module.calls)
    except (TypeError, AttributeError, NameError):
        works = False
    assert works == (verdict == "pass")


@pytest.mark.parametrize("form", alone("idempotent"))
def test_a_second_call(form):
    verdict, files = FORMS["idempotent"][form]
    Module.calls.clear()
    model = instantiated(files.get(MODEL_PY, MODEL))
    hook = getattr(model.__class__, HOOK)
    raised = False
    try:
        hook(model)
    except AttributeError:
        raised = True
    first = list(Module.calls)
    if not raised:
        hook(model)
    sources = [(direction, id(source)) for direction, source, _ in first]
    nothing_replaced = len(set(sources)) == len(sources)
    works = bool(first) and not raised and Module.calls == first and nothing_replaced
    assert works == (verdict == "pass")


def test_enough_forms_are_confirmed():
    assert len(alone("hook-bound")) >= 20
    assert len(alone("idempotent")) >= 12


def test_recipe_is_the_one_read_elsewhere():
    assert Recipe({}).check("hook-bound").verdict == "pass"
