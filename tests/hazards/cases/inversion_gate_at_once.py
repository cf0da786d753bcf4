"""Each block asks for the next one and its gate; only the root can ask for the first block's."""

from itertools import pairwise

from torch.distributed.fsdp import fully_shard

from tests.hazards.building import Built, Mixtures, batch, call_hook, with_hook, wrap

RULES = {"inversion"}
EDGES = {("blocks.0", "blocks.1", "forward")}


def build(*, device_mesh, overrides=()):
    def hook(model):
        blocks = list(model.blocks)
        if "hazard" not in overrides:
            model.set_modules_to_forward_prefetch([blocks[0], blocks[0].gate])
        for block, following in pairwise(blocks):
            block.set_modules_to_forward_prefetch([following, following.gate])

    model = with_hook(Mixtures, hook)()
    for block in model.blocks:
        fully_shard(block.gate, mesh=device_mesh)
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
