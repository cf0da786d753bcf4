"""A gate in fp32 is a unit in its block: a chain over blocks alone queues the next block before it.

The neighbour lists each block's own gate first, in forward and in backward.
"""

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from tests.hazards.building import (
    Built,
    Mixtures,
    backward_chain,
    batch,
    call_hook,
    forward_chain,
    with_hook,
    wrap,
)

RULES = {"inversion"}
EDGES = {
    *((f"blocks.{i}", f"blocks.{i + 1}", "forward") for i in range(3)),
    *((f"blocks.{i + 1}", f"blocks.{i}", "backward") for i in range(3)),
}
EVENTS = {
    "path": "train",
    "hazard": "gather blocks.1.gate (own)",
    "healthy": "gather blocks.1.gate (forward edge of blocks.1)",
}


def build(*, device_mesh, overrides=()):
    def hook(model):
        blocks = list(model.blocks)
        if "hazard" in overrides:
            forward_chain(blocks)
            backward_chain(blocks)
            return
        for i, block in enumerate(blocks):
            block.set_modules_to_forward_prefetch([block.gate, *blocks[i + 1 : i + 2]])
            block.set_modules_to_backward_prefetch([block.gate, *blocks[max(0, i - 1) : i]])

    model = with_hook(Mixtures, hook)()
    for block in model.blocks:
        full = MixedPrecisionPolicy(param_dtype=torch.float32)
        fully_shard(block.gate, mesh=device_mesh, mp_policy=full)
    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, output_dtype=torch.float32)
    wrap(model, model.blocks, device_mesh, mp_policy=half)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
