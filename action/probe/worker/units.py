"""A wrapped model as data: its units, its classes, its edges, the hooks that its classes bind."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Any

from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from . import adapter

_MOST_PATHS = 5


class UnitNumbers:
    """Numbers units: a parameter group each, and states that have none; the root first.

    Order is that of `model.named_modules()`. Groups that are met later (a second model that a path
    runs) get the next numbers.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self.owners: list[tuple[Any, Any]] = []
        """State and group (None for an empty state) of each unit."""
        self.paths: list[tuple[str, ...]] = []

    def index(self, model: nn.Module) -> None:
        """Number the units of a model by their paths in it."""
        paths: dict[int, list[str]] = {}
        states: dict[int, Any] = {}
        for path, module in model.named_modules():
            state = adapter.state_of(module)
            if state is not None:
                states.setdefault(id(state), state)
                paths.setdefault(id(state), []).append(path)
        for key, state in states.items():
            for owner in adapter.groups_of(state) or [state]:
                self._add(state, owner, tuple(paths[key]))

    def number(self, owner: Any) -> int:
        """Return the number of a group, or of a state without groups."""
        known = self._numbers.get(id(owner))
        if known is None:
            known = self._add(None, owner, ())
        return known

    def of_state(self, state: Any) -> int:
        """Return the number of a state's first group."""
        groups = adapter.groups_of(state)
        return self.number(groups[0] if groups else state)

    def _add(self, state: Any, owner: Any, paths: tuple[str, ...]) -> int:
        number = len(self.owners)
        self._numbers[id(owner)] = number
        self.owners.append((state, None if owner is state else owner))
        self.paths.append(paths)
        return number

    @property
    def states(self) -> list[Any]:
        """The states of the model's units, each once."""
        return list({id(s): s for s, _ in self.owners if s is not None}.values())


def describe_units(numbers: UnitNumbers) -> list[dict[str, Any]]:
    """Return each unit as plain data."""
    return [
        _unit(state, group, paths)
        for (state, group), paths in zip(numbers.owners, numbers.paths, strict=True)
    ]


def _unit(state: Any, group: Any, paths: tuple[str, ...]) -> dict[str, Any]:
    if state is None:
        return {"paths": [], "classes": [], "outside": True}
    several = adapter.groups_of(state)
    described: dict[str, Any] = {
        "paths": list(paths),
        "classes": [class_name(module) for module in adapter.modules_of(state)],
        "part": several.index(group) if group is not None and len(several) > 1 else None,
    }
    if group is None:
        return described | {"empty": True}
    parameters = adapter.parameters_of(group)
    # Shape along the sharded dimension, elements of the rest, bytes of each: how many such.
    shapes = Counter((_along(p), _rest(p), p.itemsize) for p in parameters)
    return described | {
        "parameters": sum(_along(p) * _rest(p) for p in parameters),
        "tensors": len(parameters),
        "trainable": sum(p.requires_grad for p in parameters),
        "dtypes": sorted({p.dtype for p in parameters}),
        "policy": adapter.policy_of(group),
        "shapes": [[*shape, count] for shape, count in shapes.items()],
        "reshard_after_forward": adapter.reshards_after_forward(group),
        "shard_size": adapter.shard_size(group),
    }


def _along(parameter: adapter.Parameter) -> int:
    return parameter.local[parameter.dim] if parameter.local else 1


def _rest(parameter: adapter.Parameter) -> int:
    rest = 1
    for dim, size in enumerate(parameter.local):
        if dim != parameter.dim:
            rest *= size
    return rest


def class_of(module: nn.Module) -> type[nn.Module]:
    """Return a module's class as it was before `fully_shard` replaced it."""
    cls = type(module)
    if not isinstance(module, FSDPModule):
        return cls
    return next(c for c in cls.__mro__[1:] if c is not FSDPModule and issubclass(c, nn.Module))


def class_name(module: nn.Module) -> str:
    """Return the name of a module's class as it was before `fully_shard` replaced it."""
    return class_of(module).__name__


def describe_classes(model: nn.Module, wanted: Iterable[str]) -> list[dict[str, Any]]:
    """Return, for each class that is a unit somewhere or is wanted, where its instances stand."""
    instances: dict[str, list[tuple[str, nn.Module]]] = {}
    for path, module in model.named_modules():
        instances.setdefault(class_name(module), []).append((path, module))
    named = {*wanted, *_no_split_modules(model)}
    units = {
        name: sum(isinstance(module, FSDPModule) for _, module in found)
        for name, found in instances.items()
    }
    described = []
    for name in sorted({name for name, count in units.items() if count} | named):
        found = instances.get(name, [])
        # What FSDP2 was told to ignore, or has no parameter to shard, was not forgotten.
        unwrapped = [
            path
            for path, module in found
            if not isinstance(module, FSDPModule) and _has_sharded(module)
        ]
        described.append(
            {
                "name": name,
                "instances": len(found),
                "unwrapped": unwrapped[:_MOST_PATHS],
                "forgotten": len(unwrapped),
                "named": name in named,
            }
        )
    return described


def _has_sharded(module: nn.Module) -> bool:
    return any(isinstance(parameter, DTensor) for parameter in module.parameters())


def _no_split_modules(model: nn.Module) -> list[str]:
    listed = getattr(model, "_no_split_modules", None)
    if isinstance(listed, (list, tuple, set, frozenset)):
        return [name for name in listed if isinstance(name, str)]
    return []


def describe_tied(model: nn.Module, before_wrap: nn.Module | None) -> list[list[str]]:
    """Return names that were one parameter before wrapping and are several in the wrapped model."""
    if before_wrap is None:
        return []
    names: dict[int, list[str]] = {}
    for name, parameter in before_wrap.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    after = dict(model.named_parameters(remove_duplicate=False))
    return [
        sorted(tied)
        for tied in names.values()
        if len(tied) > 1 and len({id(after[name]) for name in tied if name in after}) > 1
    ]


def edge_lists(numbers: UnitNumbers) -> dict[str, list[list[Any]]]:
    """Return, by direction, `[source, [targets]]` for each unit with a non-empty list."""
    lists: dict[str, list[list[Any]]] = {}
    for direction in adapter.SETTERS.values():
        lists[direction] = []
        for state in numbers.states:
            targets = [numbers.of_state(t) for t in adapter.edges_of(state, direction)]
            if targets:
                lists[direction].append([numbers.of_state(state), targets])
    return lists


def saved_edges(states: Sequence[Any]) -> list[tuple[Any, str, list[Any]]]:
    """Return every list of edges, to be put back by `put_edges`."""
    return [(s, d, adapter.edges_of(s, d)) for s in states for d in adapter.SETTERS.values()]


def put_edges(saved: Sequence[tuple[Any, str, list[Any]]]) -> None:
    """Put lists of edges back."""
    for state, direction, targets in saved:
        adapter.set_edges(state, direction, targets)


def without_edges(states: Sequence[Any]) -> None:
    """Empty every list of edges."""
    put_edges([(state, direction, []) for state, direction, _ in saved_edges(states)])


def describe_hook(
    model: nn.Module, before_wrap: nn.Module | None, name: str
) -> tuple[dict[str, Any], Callable[..., Any] | None]:
    """Return how the runtime would find the hook on the wrapped model, and the hook."""
    bearers = {
        path: class_name(module)
        for path, module in model.named_modules()
        if getattr(type(module), name, None) is not None
    }
    hook = getattr(type(model), name, None)
    return {
        "bound": hook is not None,
        "callable": callable(hook),
        "inner": [[path, cls] for path, cls in bearers.items() if path][:_MOST_PATHS],
        "flags_before_wrap": _prefetch_flags(before_wrap),
        "doc": _lookahead_reason(hook),
    }, hook if callable(hook) else None


def _prefetch_flags(module: nn.Module | None) -> list[str]:
    """Return the attributes of a module not yet wrapped that say that it was configured."""
    if module is None:
        return []
    return sorted(n for n, v in vars(module).items() if v is True and "prefetch" in n.lower())


def _lookahead_reason(hook: Any) -> str | None:
    """Return the lines of the hook's docstring that speak of its lookahead."""
    text = getattr(functions_of(hook)[0], "__doc__", None) if functions_of(hook) else None
    lines = [line.strip() for line in (text or "").splitlines() if "ahead" in line.lower()]
    return " ".join(lines)[:500] or None


def functions_of(hook: Any) -> list[Any]:
    """Return the functions behind a hook: the one in a partial, a method or a decorator, too."""
    found: list[Any] = []
    while hook is not None and len(found) < 10:
        if isinstance(hook, functools.partial):
            hook = hook.func
            continue
        found.append(hook)
        hook = getattr(hook, "__func__", None) or getattr(hook, "__wrapped__", None)
    return found


def codes_of(hook: Any) -> list[CodeType]:
    """Return the code objects behind a hook."""
    codes = [getattr(function, "__code__", None) for function in functions_of(hook)]
    if hook is not None and not any(codes):
        codes = [getattr(vars(type(hook)).get("__call__"), "__code__", None)]
    return [code for code in codes if isinstance(code, CodeType)]
