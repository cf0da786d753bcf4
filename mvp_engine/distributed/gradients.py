"""Gradients across micro-batches and ranks: when they are reduced, and how they are clipped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import get_total_norm


@contextmanager
def gradient_sync(model: nn.Module, last: bool) -> Iterator[None]:
    """Holds a forward and backward that reduce gradients over ranks only when `last`.

    FSDP2 is told, too, which backward is the step's last one, so that until then it keeps its
    all-gathers and reductions in flight rather than waiting for them.
    """
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_requires_gradient_sync(last, recurse=False)
            module.set_is_last_backward(last)
    if isinstance(model, DistributedDataParallel) and not last:
        with model.no_sync():
            yield
    else:
        yield


@torch.no_grad()
def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float | None) -> Tensor:
    """Scales gradients in place to a global 2-norm of at most `max_norm`; returns the norm before.

    The norm (a float32 scalar, the same on every rank) is that of the whole model as one process
    would have it: each gradient is counted once, however FSDP2 and tensor parallelism spread it,
    and parameters may lie on different meshes. None only measures. Every rank must pass the same
    parameters; one without a gradient counts as zero.
    """
    # Parts to sum over the mesh dimensions that they are sharded on; keys in parameter order, so
    # that every rank makes the same collective calls, with or without gradients.
    parts: dict[tuple[DeviceMesh | None, tuple[int, ...]], list[Tensor]] = {}
    device = torch.device("cpu")
    for parameter in parameters:
        mesh: DeviceMesh | None = None
        sharded: tuple[int, ...] = ()
        if isinstance(parameter, DTensor):
            mesh = parameter.device_mesh
            sharded = tuple(
                dim for dim, at in enumerate(parameter.placements) if not at.is_replicate()
            )
        group = parts.setdefault((mesh, sharded), [])
        device = parameter.device
        if parameter.grad is None:
            continue
        if isinstance(parameter, DTensor):
            # Tensor parallelism alone may leave a gradient partial, or sharded where the
            # parameter is whole; FSDP2 gives it the parameter's own placements.
            if parameter.grad.placements != parameter.placements:
                parameter.grad = parameter.grad.redistribute(placements=parameter.placements)
            group.append(parameter.grad.to_local())
        else:
            group.append(parameter.grad)

    total = torch.zeros((), device=device)
    for (mesh, sharded), gradients in parts.items():
        square = torch.zeros((), device=device)
        if gradients:
            square += get_total_norm(gradients).float() ** 2
        for dim in sharded:
            assert mesh is not None
            dist.all_reduce(square, group=mesh.get_group(dim))
        total += square
    norm = total.sqrt()
    if max_norm is not None:
        scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        for gradients in parts.values():
            if gradients:
                torch._foreach_mul_(gradients, scale)
    return norm
