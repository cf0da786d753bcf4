"""A block that runs several times has a backward edge, which fires at the first of its backwards.

The unit before the block is gathered in front of the block's own next all-gather.
"""

import torch

from tests.hazards.building import Block, Built, batch, call_hook, with_hook, wrap

RULES = {"shared-unit"}
EDGES = {("block", "stem", "backward")}
EVENTS = {
    "path": "train",
    "hazard": "gather stem (backward edge of block)",
    "healthy": "gather stem (default of block)",
}


class Shared(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.block, self.final = Block(), Block(), Block()
        self.head = torch.nn.Linear(8, 1)

    def forward(self, x):
        x = self.stem(x)
        for _ in range(3):
            x = self.block(x)
        return self.head(self.final(x)).mean()


def build(*, device_mesh, overrides=()):
    def hook(model):
        model.final.set_modules_to_backward_prefetch([model.block])
        if "hazard" in overrides:
            model.block.set_modules_to_backward_prefetch([model.stem])

    model = with_hook(type("Model", (Shared,), {}), hook)()
    wrap(model, [model.stem, model.block, model.final], device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
