"""A block that runs several times, as in ALBERT: its one list fires at each of its calls."""

import torch

from tests.hazards.building import Block, Built, batch, call_hook, forward_chain, with_hook, wrap

RULES = {"shared-unit"}
EDGES = {("block", "final", "forward")}
EVENTS = {
    "path": "train",
    "hazard": "gather final (forward edge of block)",
    "healthy": "gather final (own)",
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
        units = [model.stem, model.block, model.final]
        forward_chain(units if "hazard" in overrides else units[:2])

    model = with_hook(type("Model", (Shared,), {}), hook)()
    wrap(model, [model.stem, model.block, model.final], device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
