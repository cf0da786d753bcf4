"""A gate within a block prefetches its own block, not the next one."""

import torch

from tests.hazards.building import Block, Built, Stack, batch, call_hook, with_hook, wrap

RULES = {"edge-to-ancestor"}
EDGES = {(f"blocks.{i}.gate", f"blocks.{i}", "forward") for i in range(3)}
EVENTS = {
    "path": "train",
    "hazard": "skip blocks.1 (forward edge of blocks.1.gate)",
    "healthy": "gather blocks.2 (forward edge of blocks.1.gate)",
}


class Gated(Block):
    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Linear(8, 8, bias=False)

    def forward(self, x):
        return super().forward(x * torch.sigmoid(self.gate(x)))


class Model(Stack):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Gated() for _ in range(4))


def build(*, device_mesh, overrides=()):
    def hook(model):
        for i in range(3):
            target = model.blocks[i if "hazard" in overrides else i + 1]
            model.blocks[i].gate.set_modules_to_forward_prefetch([target])

    model = with_hook(type("Top", (Model,), {}), hook)()
    wrap(model, [unit for block in model.blocks for unit in (block.gate, block)], device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
