"""The default process group, from torchrun's environment or for a single process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist


def rank() -> int:
    """This process's rank as torchrun numbers it; 0 without torchrun."""
    return int(os.environ.get("RANK", "0"))


@contextmanager
def process_group() -> Iterator[torch.device]:
    """Holds the default process group for the block and yields this rank's device.

    NCCL and `cuda:LOCAL_RANK` where this rank has a GPU of its own, else gloo and the CPU. Without
    torchrun's environment the group is this one process. A group that already exists is used as it
    is, and outlives the block.
    """
    on_cuda = torch.cuda.is_available() and torch.cuda.device_count() >= _local_world_size()
    device = torch.device("cuda", _local_rank()) if on_cuda else torch.device("cpu")
    if on_cuda:
        torch.cuda.set_device(device)
    if dist.is_initialized():
        yield device
        return
    backend = "nccl" if on_cuda else "gloo"
    if "RANK" in os.environ:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield device
    finally:
        dist.destroy_process_group()


def _local_rank() -> int:
    return int(os.environ.get("LOCAL_RANK", "0"))


def _local_world_size() -> int:
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
