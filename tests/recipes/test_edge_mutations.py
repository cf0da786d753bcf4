"""Each recipe's impact test fails when the edges are wrong, whatever is wrong with them.

The recipe's own test function runs unchanged; only the hook on the recipe's class is replaced by
one that calls the real hook and then damages what it installed.
"""

import importlib.util
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule, fully_shard

from mvp_engine.testing import prefetch_edges
from recipes.qwen3.model import Qwen3ForTraining
from recipes.vit_classification.model import VisionTransformer

ROOT = Path(__file__).parents[2]
HOOK = "APPLY_FSDP2_CUSTOM_PREFETCHING"


@dataclass(frozen=True)
class Recipe:
    """A recipe, the case of its impact test to damage (four units), and where its units are."""

    name: str
    top_class: type[nn.Module]
    case: str
    units: Callable[[nn.Module], nn.ModuleList]


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("vit_classification", VisionTransformer, "as trained", lambda m: m.blocks),
        Recipe("qwen3", Qwen3ForTraining, "tiny, tied embeddings", lambda m: m.model.layers),
    )
}


@pytest.fixture(params=RECIPES)
def recipe(request: pytest.FixtureRequest) -> Recipe:
    return RECIPES[request.param]


def impact_test(recipe: Recipe) -> ModuleType:
    folder = ROOT / "recipes" / recipe.name / "tests" / "skills" / "fsdp2-prefetching"
    path = folder / "test_prefetch_edges_impact.py"
    spec = importlib.util.spec_from_file_location(f"{recipe.name}_impact", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_impact_test(recipe: Recipe) -> None:
    impact_test(recipe).test_installed_edges_are_exactly_the_expected_modules(recipe.case)


def stand_in(unit: nn.Module) -> nn.Module:
    """A wrapped module of the same class and name as `unit`, and another object."""
    cls = type(unit).__bases__[1]
    twin = cls.__new__(cls)
    nn.Module.__init__(twin)
    twin.weight = nn.Parameter(torch.zeros(4))
    fully_shard(twin, mesh=next(unit.parameters()).device_mesh)
    assert type(twin).__name__ == type(unit).__name__ and twin is not unit
    return twin


def forward(source: nn.Module, *targets: nn.Module) -> None:
    source.set_modules_to_forward_prefetch(list(targets))


def backward(source: nn.Module, *targets: nn.Module) -> None:
    source.set_modules_to_backward_prefetch(list(targets))


def reverse_directions(model: nn.Module, units: nn.ModuleList) -> None:
    installed = prefetch_edges(model)
    for unit in units:
        forward(unit, *installed.backward.get(unit, ()))
        backward(unit, *installed.forward.get(unit, ()))


def replace_a_unit(model: nn.Module, units: nn.ModuleList) -> None:
    units[1] = stand_in(units[1])


MUTATIONS: dict[str, Callable[[nn.Module, nn.ModuleList], None]] = {
    "first forward edge dropped": lambda _, u: forward(u[0]),
    "middle forward edge dropped": lambda _, u: forward(u[1]),
    "last forward edge dropped": lambda _, u: forward(u[2]),
    "first backward edge dropped": lambda _, u: backward(u[3]),
    "middle backward edge dropped": lambda _, u: backward(u[2]),
    "last backward edge dropped": lambda _, u: backward(u[1]),
    "all edges dropped": lambda _, u: [edit(x) for x in u for edit in (forward, backward)],
    "all backward edges dropped": lambda _, u: [backward(x) for x in u],
    "forward edge to itself": lambda _, u: forward(u[0], u[0]),
    "forward edge to one further on": lambda _, u: forward(u[0], u[2]),
    "forward edge to one that has run": lambda _, u: forward(u[2], u[1]),
    "backward edge to one that is done": lambda _, u: backward(u[1], u[2]),
    "targets of two units swapped": lambda _, u: (forward(u[0], u[2]), forward(u[1], u[1])),
    "second forward target added": lambda _, u: forward(u[0], u[1], u[2]),
    "second forward target put first": lambda _, u: forward(u[0], u[2], u[1]),
    "second backward target added": lambda _, u: backward(u[3], u[2], u[1]),
    "target named twice": lambda _, u: forward(u[0], u[1], u[1]),
    "wrap-around from last to first": lambda _, u: forward(u[3], u[0]),
    "backward edge on the first unit": lambda _, u: backward(u[0], u[3]),
    "forward edge on the root": lambda model, u: forward(model, u[0]),
    "backward edge on the root": lambda model, u: backward(model, u[3]),
    "edge to the root": lambda model, u: backward(u[0], model),
    "forward target is a stand-in": lambda _, u: forward(u[0], stand_in(u[1])),
    "backward target is a stand-in": lambda _, u: backward(u[1], stand_in(u[0])),
    "forward and backward exchanged": reverse_directions,
    "a unit replaced after the hook": replace_a_unit,
}


def test_impact_test_passes_on_the_recipe_s_own_hook(recipe: Recipe) -> None:
    run_impact_test(recipe)


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_impact_test_fails_on_damaged_edges(
    recipe: Recipe, mutation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = inspect.getattr_static(recipe.top_class, HOOK)
    called = []

    def hook_then_damage(model: nn.Module) -> None:
        hook(model)
        if not called:
            units = recipe.units(model)
            assert len(units) == 4 and all(isinstance(unit, FSDPModule) for unit in units)
            MUTATIONS[mutation](model, units)
        called.append(model)

    monkeypatch.setattr(recipe.top_class, HOOK, hook_then_damage)
    with pytest.raises(AssertionError, match=r"^edges differ: (forward|backward) "):
        run_impact_test(recipe)
    assert len(called) == 1


def test_impact_test_fails_when_the_hook_is_not_bound(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(recipe.top_class, HOOK)
    with pytest.raises(AssertionError, match=r"^edges differ: "):
        run_impact_test(recipe)


def test_impact_test_fails_when_the_flag_is_set_before_wrapping(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe.top_class, "_fsdp2_prefetching_configured", True, raising=False)
    with pytest.raises(AssertionError, match=r"^edges differ: "):
        run_impact_test(recipe)


def test_impact_test_fails_when_a_second_call_sets_edges_again(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = inspect.getattr_static(recipe.top_class, HOOK)

    def hook_without_memory(model: nn.Module) -> None:
        model._fsdp2_prefetching_configured = False
        hook(model)

    monkeypatch.setattr(recipe.top_class, HOOK, hook_without_memory)
    with pytest.raises(AssertionError, match="the second call sets edges"):
        run_impact_test(recipe)
