"""Blocks with a unit of their own within: the chain over the blocks leads from last to first."""

import torch

from tests.hazards.building import Block, Built, Stack, batch, call_hook, with_hook, wrap

RULES = {"wrap-around"}
EDGES = {("blocks.2", "blocks.0", "forward")}


class Gated(Block):
    def __init__(self):
        super().__init__()
        self.gate = Block()

    def forward(self, x):
        return self.gate(super().forward(x))


class Model(Stack):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Gated() for _ in range(3))


def build(*, device_mesh, overrides=()):
    def hook(model):
        for i in range(3 if "hazard" in overrides else 2):
            following = model.blocks[(i + 1) % 3]
            model.blocks[i].set_modules_to_forward_prefetch([model.blocks[i].gate, following])

    model = with_hook(type("Top", (Model,), {}), hook)()
    wrap(model, [unit for block in model.blocks for unit in (block.gate, block)], device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
