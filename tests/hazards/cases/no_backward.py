"""A backward chain that leads on into a frozen tower, whose backward never begins.

FSDP2's own prefetch throws away one all-gather of the tower's last unit with or without edges; the
one of the unit before that is the hook's.
"""

import torch

from tests.hazards.building import (
    Block,
    Built,
    Stack,
    backward_chain,
    batch,
    call_hook,
    with_hook,
    wrap,
)

RULES = {"no-backward"}
EDGES = {("blocks.0", "tower.0", "backward")}
EVENTS = {
    "path": "train",
    "hazard": "drop tower.0",
    "healthy": "gather tower.1 (default of blocks.0)",
}


class Frozen(Stack):
    def __init__(self):
        super().__init__()
        self.tower = torch.nn.ModuleList(Block() for _ in range(2))
        self.tower.requires_grad_(False)

    def forward(self, x):
        for block in self.tower:
            x = block(x)
        return super().forward(x)


def build(*, device_mesh, overrides=()):
    def hook(model):
        backward_chain(model.blocks, ahead=2)
        if "hazard" in overrides:
            first, second = model.tower
            model.blocks[0].set_modules_to_backward_prefetch([second, first])

    model = with_hook(type("Model", (Frozen,), {}), hook)()
    wrap(model, [*model.tower, *model.blocks], device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
