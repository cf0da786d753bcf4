"""A block that runs again after others: its edge gathers the last unit early, and holds it.

Its neighbour runs twice in a row and keeps its parameters meanwhile: the edge fires one call early,
and nothing queues for that.
"""

import torch
from torch.distributed.fsdp import fully_shard

from tests.hazards.building import Block, Built, batch, call_hook, with_hook, wrap

RULES = {"shared-unit"}
EDGES = {("block", "final", "forward")}


class Model(torch.nn.Module):
    def __init__(self, apart):
        super().__init__()
        self.block, self.first, self.second, self.final = (Block() for _ in range(4))
        self.head = torch.nn.Linear(8, 1)
        self.apart = apart

    def forward(self, x):
        x = x if self.apart else self.second(self.first(x))
        x = self.block(x)
        x = self.second(self.first(x)) if self.apart else x
        return self.head(self.final(self.block(x))).mean()


def build(*, device_mesh, overrides=()):
    def hook(model):
        model.block.set_modules_to_forward_prefetch([model.final])

    model = with_hook(Model, hook)("hazard" in overrides)
    fully_shard(model.block, mesh=device_mesh, reshard_after_forward=False)
    wrap(model, [model.first, model.second, model.final], device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
