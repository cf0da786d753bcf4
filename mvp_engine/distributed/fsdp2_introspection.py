"""Reads the prefetch edges that FSDP2 keeps in private attributes, torch 2.6 to 2.14.

The only module here that knows those names: a torch that renames them fails with one sentence.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule

_FORWARD = "_states_to_forward_prefetch"
_BACKWARD = "_states_to_backward_prefetch"


class UnknownTorchError(Exception):
    """A torch whose FSDP2 keeps its state elsewhere; the message is one sentence."""


def forward_prefetch(unit: FSDPModule) -> tuple[nn.Module, ...]:
    """The modules whose all-gather `unit` issues early in forward, in order."""
    return _targets(unit, _FORWARD)


def backward_prefetch(unit: FSDPModule) -> tuple[nn.Module, ...]:
    """The modules whose all-gather `unit` issues early in backward, in order."""
    return _targets(unit, _BACKWARD)


def _targets(unit: FSDPModule, attribute: str) -> tuple[nn.Module, ...]:
    states = _read(unit._get_fsdp_state(), attribute)
    # A state of several modules, `fully_shard([a, b])`, stands for its first one.
    return tuple(_read(state, "_modules")[0] for state in states)


def _read(state: Any, attribute: str) -> Any:
    if not hasattr(state, attribute):
        raise UnknownTorchError(
            f"torch {torch.__version__} keeps FSDP2's state without {attribute}: this version is "
            f"not known to mvp_engine.distributed.fsdp2_introspection (2.6 to 2.14 are)"
        )
    return getattr(state, attribute)
