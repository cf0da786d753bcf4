"""Assertions on installed FSDP2 prefetch edges: live modules by identity, not names or classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from unittest.mock import patch

from torch import nn
from torch.distributed.fsdp import FSDPModule

from mvp_engine.testing import prefetch_edges

Paths = Mapping[str, Sequence[str]]
"""Dotted path of a source to the dotted paths of its targets, in list order."""


def assert_hook_is_bound(model: nn.Module, top_class: type[nn.Module]) -> None:
    """Fails unless the wrapped `model` is a `top_class`, no subclass, whose body binds the hook."""
    assert type(model).__bases__ == (FSDPModule, top_class), (
        f"training instantiates {type(model).__mro__}, not {top_class}"
    )
    hook = vars(top_class).get("APPLY_FSDP2_CUSTOM_PREFETCHING")
    assert callable(hook), f"{top_class.__name__} itself binds {hook!r}"
    assert type(model).APPLY_FSDP2_CUSTOM_PREFETCHING is hook


def assert_units(model: nn.Module, class_names: Sequence[str], paths: Sequence[str]) -> None:
    """Fails unless exactly the root and the modules at `paths` are FSDP2 units.

    `class_names` must be those of the units, neither more nor fewer.
    """
    units = {name: module for name, module in model.named_modules() if _is_unit(module)}
    assert list(units) == ["", *paths]
    classes = {type(units[path]).__bases__[1].__name__ for path in paths}
    assert classes == set(class_names)


def assert_prefetch_edges(model: nn.Module, forward: Paths, backward: Paths) -> None:
    """Fails unless the edges installed on `model` are exactly `forward` and `backward`.

    Each path is resolved to the module that lives there now, and modules are compared by identity:
    a missing, additional, redirected or reordered edge fails, and so does one to another object of
    the same class and name.
    """
    installed = prefetch_edges(model)
    differences = [
        *_differences(model, "forward", forward, installed.forward),
        *_differences(model, "backward", backward, installed.backward),
    ]
    assert not differences, "edges differ: " + "\n".join(differences)


def assert_second_call_sets_nothing(model: nn.Module) -> None:
    """Fails if calling the hook again sets any edge, even to what it is already."""
    before = prefetch_edges(model)
    with (
        patch.object(FSDPModule, "set_modules_to_forward_prefetch") as forward,
        patch.object(FSDPModule, "set_modules_to_backward_prefetch") as backward,
    ):
        type(model).APPLY_FSDP2_CUSTOM_PREFETCHING(model)
    assert not forward.called and not backward.called, "the second call sets edges"
    assert prefetch_edges(model) == before


def _differences(
    model: nn.Module,
    direction: str,
    expected: Paths,
    installed: Mapping[nn.Module, tuple[nn.Module, ...]],
) -> Iterator[str]:
    paths = {module: path or "the root" for path, module in model.named_modules()}
    wanted = {
        _unit(model, source): tuple(_unit(model, target) for target in targets)
        for source, targets in expected.items()
    }
    for source in dict.fromkeys([*wanted, *installed]):
        want, have = wanted.get(source, ()), installed.get(source, ())
        if len(want) != len(have) or any(a is not b for a, b in zip(want, have, strict=True)):
            yield f"{direction} {paths[source]}: {_names(have, paths)}, not {_names(want, paths)}"


def _unit(model: nn.Module, path: str) -> nn.Module:
    module = model.get_submodule(path)
    assert _is_unit(module), f"{path} is expected to have edges and is no FSDP2 unit"
    return module


def _is_unit(module: nn.Module) -> bool:
    return isinstance(module, FSDPModule)


def _names(modules: Sequence[nn.Module], paths: Mapping[nn.Module, str]) -> str:
    outside = "a {} outside the model"
    names = [paths.get(module, outside.format(type(module).__name__)) for module in modules]
    return f"[{', '.join(names)}]"
