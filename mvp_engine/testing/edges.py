"""The prefetch edges installed on a wrapped model, as the live modules themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn
from torch.distributed.fsdp import FSDPModule

from mvp_engine.distributed import fsdp2_introspection


@dataclass(frozen=True)
class PrefetchEdges:
    """From each unit that has edges to its targets, in list order.

    Modules compare by identity, so an equal mapping is the same edges between the same objects.
    A unit whose list is empty is left out: FSDP2 treats it as never set.
    """

    forward: Mapping[nn.Module, tuple[nn.Module, ...]]
    backward: Mapping[nn.Module, tuple[nn.Module, ...]]


def prefetch_edges(model: nn.Module) -> PrefetchEdges:
    """Reads every edge installed in `model`; units are in the order of `model.modules()`.

    Raises UnknownTorchError for a torch whose FSDP2 keeps them elsewhere.
    """
    units = [module for module in model.modules() if isinstance(module, FSDPModule)]
    forward = {unit: fsdp2_introspection.forward_prefetch(unit) for unit in units}
    backward = {unit: fsdp2_introspection.backward_prefetch(unit) for unit in units}
    return PrefetchEdges(
        forward={unit: targets for unit, targets in forward.items() if targets},
        backward={unit: targets for unit, targets in backward.items() if targets},
    )
