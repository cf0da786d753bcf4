"""FSDP2: which modules become units, under which policy, and the class's own prefetch hook.

The contract with recipes: after wrapping, `model.__class__.APPLY_FSDP2_CUSTOM_PREFETCHING(model)`
is called if the class has that attribute.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from mvp_engine.config import FSDP2Config

HOOK = "APPLY_FSDP2_CUSTOM_PREFETCHING"


class FSDP2WrapError(Exception):
    """A model that FSDP2 cannot wrap as asked; the message is one sentence."""


def apply_fsdp2(model: nn.Module, mesh: DeviceMesh, config: FSDP2Config) -> nn.Module:
    """Wraps `model` in place, calls its class's prefetch hook, and returns it.

    Units are the modules whose class is named in `model._no_split_modules`, in `target_classes`
    or in `high_precision_modules` (which wins where a class is named twice), outside
    `ignore_modules`; children are wrapped before parents and the root last. `mesh` has one
    dimension (shard), or two (replicate, shard) for HSDP. High-precision units compute in float32:
    their inputs are cast up, their outputs back to the dtype around them.

    Raises FSDP2WrapError for a name that matches nothing to wrap, a target that is the root or has
    no forward, a parameter shared by two units, a trainable parameter that nobody would reduce,
    and a hook that is not callable.
    """
    names = _class_names(model, config)
    ignored = _ignored_modules(model, config)
    units = _units(model, names, ignored)
    _refuse_parameters_across_units(model, units, ignored)
    hook = _hook(model)
    policy = _policy(config)
    high_precision = _high_precision_policy(policy)
    arguments: dict[str, Any] = {"mesh": mesh}
    if ignored:
        arguments["ignored_params"] = _ignored_parameters(model, ignored, mesh.device_type)
    units_only = _reshard_after_forward(config, mesh)

    for _, unit in units:
        wants_float32 = type(unit).__name__ in config.high_precision_modules
        unit_policy = high_precision if wants_float32 else policy
        fully_shard(unit, mp_policy=unit_policy, **arguments, **units_only)
    # The root keeps FSDP2's default, unsharded after forward: its backward begins right away.
    fully_shard(model, mp_policy=policy, **arguments)
    if hook is not None:
        hook(model)
    return model


def fsdp2_units(model: nn.Module) -> tuple[tuple[str, nn.Module], ...]:
    """Dotted path and module of every FSDP2 unit, root (path "") first, as `named_modules` has."""
    return tuple((name, m) for name, m in model.named_modules() if isinstance(m, FSDPModule))


def _class_names(model: nn.Module, config: FSDP2Config) -> dict[str, str]:
    """Each class name to wrap, and the setting that names it."""
    setting = "parallel.backend_kwargs.fsdp2"
    names = {
        name: f"{type(model).__name__}._no_split_modules"
        for name in getattr(model, "_no_split_modules", None) or ()
    }
    names |= dict.fromkeys(config.target_classes, f"{setting}.target_classes")
    return names | dict.fromkeys(config.high_precision_modules, f"{setting}.high_precision_modules")


def _ignored_modules(model: nn.Module, config: FSDP2Config) -> dict[nn.Module, str]:
    """Every module in an ignored one, itself included, and its path."""
    ignored: dict[nn.Module, str] = {}
    found: Counter[str] = Counter()
    for path, module in model.named_modules():
        if type(module).__name__ in config.ignore_modules:
            if module is model:
                raise FSDP2WrapError(
                    f"ignore_modules names {type(module).__name__}, which is the model itself"
                )
            found[type(module).__name__] += 1
            for inner_path, inner in module.named_modules(prefix=path):
                ignored.setdefault(inner, inner_path)
    for name in config.ignore_modules:
        if not found[name]:
            raise FSDP2WrapError(
                f"{name}, named in parallel.backend_kwargs.fsdp2.ignore_modules, matches no module "
                f"of {type(model).__name__}"
            )
    return ignored


def _units(
    model: nn.Module, names: dict[str, str], ignored: dict[nn.Module, str]
) -> list[tuple[str, nn.Module]]:
    """Path and module of each unit but the root, children before parents."""
    units = []
    found: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    for path, module in _bottom_up(model, "", set()):
        name = type(module).__name__
        if name not in names:
            continue
        if module is model:
            raise FSDP2WrapError(
                f"{name}, named in {names[name]}, is the model itself, which is always wrapped, "
                f"last: take it out"
            )
        if module in ignored:
            left_out[name] += 1
            continue
        if type(module).forward is nn.Module.forward:
            raise FSDP2WrapError(
                f"{path or name} is a {name}, named in {names[name]}, and cannot be wrapped: it "
                f"has no forward, so FSDP2 would never gather it; name the class of its children"
            )
        found[name] += 1
        units.append((path, module))
    for name, where in names.items():
        if not found[name]:
            reason = (
                f"matches only modules inside ignore_modules ({left_out[name]})"
                if left_out[name]
                else "matches no module"
            )
            raise FSDP2WrapError(f"{name}, named in {where}, {reason} of {type(model).__name__}")
    return units


def _bottom_up(
    module: nn.Module, path: str, seen: set[nn.Module]
) -> Iterator[tuple[str, nn.Module]]:
    """Each module once, under its first path, after all that it contains."""
    seen.add(module)
    for name, child in module.named_children():
        if child not in seen:
            yield from _bottom_up(child, f"{path}.{name}" if path else name, seen)
    yield path, module


def _refuse_parameters_across_units(
    model: nn.Module, units: Iterable[tuple[str, nn.Module]], ignored: Iterable[nn.Module]
) -> None:
    """A tied parameter must lie in one unit: each unit would shard a copy of its own."""
    unit_paths = {unit: path for path, unit in units}
    whole = {p for module in ignored for p in module.parameters(recurse=False)}
    first: dict[nn.Parameter, tuple[str, str]] = {}
    # `_owners` walks every path, so that a module reached by two has both its owners.
    for path, owner in _owners(model, "", "", unit_paths, set()):
        module = model.get_submodule(path)
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            if parameter in whole:
                continue
            full = f"{path}.{name}" if path else name
            other, other_owner = first.setdefault(parameter, (full, owner))
            if other_owner != owner:
                here, there = (f"unit {at}" if at else "the root" for at in (owner, other_owner))
                raise FSDP2WrapError(
                    f"the parameter {full} is {other} too, but one lies in {here} and the other "
                    f"in {there}: wrap neither, or one module that holds both"
                )


def _owners(
    module: nn.Module,
    path: str,
    owner: str,
    units: dict[nn.Module, str],
    seen: set[tuple[nn.Module, str]],
) -> Iterator[tuple[str, str]]:
    """Path of each module and path of the unit that holds its own parameters ("" is the root)."""
    owner = units.get(module, owner)
    if (module, owner) in seen:
        return
    seen.add((module, owner))
    yield path, owner
    for name, child in module._modules.items():
        if child is not None:
            yield from _owners(child, f"{path}.{name}" if path else name, owner, units, seen)


def _ignored_parameters(
    model: nn.Module, ignored: dict[nn.Module, str], device_type: str
) -> set[nn.Parameter]:
    if "ignored_params" not in inspect.signature(fully_shard).parameters:
        raise FSDP2WrapError(
            f"ignore_modules needs torch 2.7 or newer, this is torch {torch.__version__}"
        )
    parameters: set[nn.Parameter] = set()
    for module, path in ignored.items():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.requires_grad:
                raise FSDP2WrapError(
                    f"{path}.{name} lies in ignore_modules and is trainable, but nobody would "
                    f"reduce its gradient: freeze it, or do not ignore {type(module).__name__}"
                )
            parameters.add(parameter)
        if not any(parameter.is_meta for parameter in module.parameters()):
            module.to(torch.device(device_type))  # FSDP2 moves only what it shards
    return parameters


def _hook(model: nn.Module) -> Any:
    """The hook of the class, read from the class so that it is called with the model alone."""
    if not hasattr(model.__class__, HOOK):
        return None
    hook = getattr(model.__class__, HOOK)
    if not callable(hook):
        raise FSDP2WrapError(
            f"{model.__class__.__name__}.{HOOK} is {hook!r}, which is not callable: bind a "
            f"function of one argument, the model"
        )
    return hook


def _policy(config: FSDP2Config) -> MixedPrecisionPolicy:
    policy = config.mp_policy
    return MixedPrecisionPolicy(
        param_dtype=_dtype(policy.param_dtype),
        reduce_dtype=_dtype(policy.reduce_dtype),
        output_dtype=_dtype(policy.output_dtype),
        cast_forward_inputs=policy.cast_forward_inputs,
    )


def _high_precision_policy(surrounding: MixedPrecisionPolicy) -> MixedPrecisionPolicy:
    return MixedPrecisionPolicy(
        param_dtype=torch.float32,
        reduce_dtype=torch.float32,
        output_dtype=surrounding.param_dtype,
        cast_forward_inputs=True,
    )


def _dtype(name: str | None) -> torch.dtype | None:
    return None if name is None else getattr(torch, name)


def _reshard_after_forward(config: FSDP2Config, mesh: DeviceMesh) -> dict[str, bool | int]:
    """The argument for units; left out when not set, since torch before 2.8 does not take None."""
    setting = config.reshard_after_forward
    if setting is None:
        return {}
    size = mesh.size(mesh.ndim - 1)
    if not isinstance(setting, bool) and (setting <= 1 or setting >= size or size % setting):
        raise FSDP2WrapError(
            f"reshard_after_forward is {setting}, allowed: true, false, or a divisor of the shard "
            f"axis ({size}) other than 1 and itself"
        )
    return {"reshard_after_forward": setting}
