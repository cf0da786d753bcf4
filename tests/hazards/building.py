"""Small models of different shapes for the hazard suite, and the two ways to build each case.

Imported by `cases/*.py` inside the probe's worker: torch and this module only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

WIDTH = 8


class Block(nn.Module):
    """A residual block with one weight."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.up = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tanh(self.up(x))


class Stack(nn.Module):
    """`depth` blocks in a row and a head: the shape of most language models."""

    def __init__(self, depth: int = 4) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
        self.head = nn.Linear(WIDTH, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x).mean()


@dataclass(frozen=True)
class Built:
    """What `build` returns to the probe."""

    model: nn.Module
    paths: Mapping[str, Callable[[], Any]]
    before_wrap: nn.Module | None = None
    mixed_paths: Sequence[Sequence[str]] | None = None


def wrap(model: nn.Module, units: Sequence[Any], mesh: Any, **options: Any) -> nn.Module:
    """Shard `units` (modules, or lists of modules wrapped together) in order, then the root."""
    for unit in units:
        fully_shard(unit, mesh=mesh, **options)
    fully_shard(model, mesh=mesh, **options)
    return model


def batch(rows: int = 2) -> Tensor:
    """Return an input of shape `(rows, WIDTH)`."""
    return torch.ones(rows, WIDTH)


def forward_chain(units: Sequence[Any], *, ahead: int = 1) -> None:
    """Let each unit prefetch the next `ahead` ones, nearest first."""
    for index, unit in enumerate(units):
        following = list(units[index + 1 : index + 1 + ahead])
        if following:
            unit.set_modules_to_forward_prefetch(following)


def backward_chain(units: Sequence[Any], *, ahead: int = 1) -> None:
    """Let each unit prefetch the `ahead` ones before it, nearest first."""
    for index, unit in enumerate(units):
        before = list(reversed(units[max(0, index - ahead) : index]))
        if before:
            unit.set_modules_to_backward_prefetch(before)


def with_hook(cls: type[nn.Module], hook: Callable[[Any], None]) -> type[nn.Module]:
    """Bind `hook` on a class as a recipe does, guarded by the flag of the skill."""

    def guarded(model: Any) -> None:
        if getattr(model, "_fsdp2_prefetching_configured", False):
            return
        hook(model)
        model._fsdp2_prefetching_configured = True

    guarded.__doc__ = hook.__doc__
    guarded.__wrapped__ = hook  # type: ignore[attr-defined]
    cls.APPLY_FSDP2_CUSTOM_PREFETCHING = guarded  # type: ignore[attr-defined]
    return cls


def call_hook(model: nn.Module) -> None:
    """Call the hook as the runtime does."""
    hook = getattr(model.__class__, "APPLY_FSDP2_CUSTOM_PREFETCHING", None)
    if hook is not None:
        hook(model)


class Branched(Stack):
    """A stack with a branch after its second block that only some calls take."""

    def __init__(self, depth: int = 4) -> None:
        super().__init__(depth)
        self.branch = Block()

    def forward(self, x: Tensor, take: bool = True) -> Tensor:
        for index, block in enumerate(self.blocks):
            x = block(x)
            if index == 1 and take:
                x = self.branch(x)
        return self.head(x).mean()


class Mixture(nn.Module):
    """A block whose router and experts are modules of their own, as in a mixture of experts."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.up = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, width, bias=False)
        self.experts = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + torch.tanh(self.up(x))
        return x + torch.tanh(self.experts(x)) * torch.sigmoid(self.gate(x))


class Mixtures(nn.Module):
    """`depth` such blocks in a row between an embedding and a head."""

    def __init__(self, depth: int = 4) -> None:
        super().__init__()
        self.embed = nn.Linear(WIDTH, WIDTH, bias=False)
        self.blocks = nn.ModuleList(Mixture() for _ in range(depth))
        self.head = nn.Linear(WIDTH, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x).mean()


def bind(cls: type[nn.Module], hook: Callable[[Any], None]) -> type[nn.Module]:
    """Bind `hook` on a class with no flag around it."""
    cls.APPLY_FSDP2_CUSTOM_PREFETCHING = hook  # type: ignore[attr-defined]
    return cls
