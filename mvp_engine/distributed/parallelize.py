"""What a recipe's `Engine.prepare_model()` calls to make its model parallel."""

from __future__ import annotations

import logging

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.nn.parallel import DistributedDataParallel

from mvp_engine.config import BackendKwargs
from mvp_engine.distributed.fsdp2 import apply_fsdp2
from mvp_engine.distributed.mesh import AXES, axis_size
from mvp_engine.distributed.tp import apply_tensor_parallel

log = logging.getLogger(__name__)


class ParallelizeError(Exception):
    """A mesh that `parallelize_model` cannot use; the message is one sentence."""


def parallelize_model(
    model: nn.Module, mesh: DeviceMesh | None, backend_kwargs: BackendKwargs
) -> nn.Module:
    """`model` on the mesh's device, parallel as `mesh` says.

    Tensor parallelism comes first (`tensor` > 1), then FSDP2 over `shard` (HSDP when `replicate`
    > 1 too), or else DDP over `replicate`. Tensor parallelism with replicas is HSDP with a shard
    axis of 1, since DDP knows no DTensor. FSDP2 works in place; DDP returns a wrapper. A mesh of
    one rank, or none, changes nothing but the device.

    `mesh` may lack axes (they count as 1). Every rank must have built the same parameters: DDP
    sends rank 0's to all, FSDP2 takes each rank's own part of its own copy. Parameters on the meta
    device are left there, for the recipe to materialize with `to_empty` after wrapping.

    Raises ParallelizeError, FSDP2WrapError or TensorParallelError.
    """
    if mesh is None:
        return model
    unknown = [name for name in mesh.mesh_dim_names or ("unnamed",) if name not in AXES]
    if unknown:
        raise ParallelizeError(
            f"the device mesh has an axis {unknown[0]!r}, allowed: {', '.join(AXES)}"
        )
    replicate, shard, tensor = (axis_size(mesh, axis) for axis in AXES)
    on_meta = any(parameter.is_meta for parameter in model.parameters())

    if tensor > 1:
        apply_tensor_parallel(model, mesh["tensor"])
    if shard > 1 or (tensor > 1 and replicate > 1):
        data_mesh = mesh["replicate", "shard"] if replicate > 1 else mesh["shard"]
        return apply_fsdp2(model, data_mesh, backend_kwargs.fsdp2)

    if backend_kwargs.fsdp2.mp_policy.param_dtype is not None and dist.get_rank() == 0:
        log.warning("mp_policy has no effect: FSDP2 is not active, parallel.mesh.shard is 1")
    if not on_meta:
        device = torch.device(mesh.device_type)  # for CUDA the current one
        model = model.to(device)
    if replicate > 1:
        return DistributedDataParallel(model, process_group=mesh["replicate"].get_group())
    return model
