"""Experts are a unit in their block: chained among themselves, each is queued before its block."""

from itertools import pairwise

from torch.distributed.fsdp import fully_shard

from tests.hazards.building import Built, Mixtures, batch, call_hook, with_hook, wrap

RULES = {"inversion"}
EDGES = {(f"blocks.{i}.experts", f"blocks.{i + 1}.experts", "forward") for i in range(3)}


def build(*, device_mesh, overrides=()):
    def hook(model):
        blocks = list(model.blocks)
        for block, following in pairwise(blocks):
            first = [] if "hazard" in overrides else [following]
            block.experts.set_modules_to_forward_prefetch([*first, following.experts])

    model = with_hook(Mixtures, hook)()
    for block in model.blocks:
        fully_shard(block.experts, mesh=device_mesh)
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
