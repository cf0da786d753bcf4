"""A unit around the encoder's layers that is never called itself, since a caller runs its layers.

It is not there when the edge fires: it is gathered, and nothing uses it.
"""

import torch

from tests.hazards.building import WIDTH, Block, Built, batch, call_hook, with_hook, wrap

RULES = {"never-runs"}
EDGES = {("encoder.layers.0", "encoder", "forward")}
EVENTS = {
    "path": "train",
    "hazard": "drop encoder",
    "healthy": "gather encoder.layers.1 (forward edge of encoder.layers.0)",
}


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Block() for _ in range(3))
        self.pooler = torch.nn.Linear(WIDTH, WIDTH)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.head = torch.nn.Linear(WIDTH, 1)

    def forward(self, x):
        for layer in self.encoder.layers:
            x = layer(x)
        return self.head(x).mean()


def build(*, device_mesh, overrides=()):
    def hook(model):
        first, second, _ = model.encoder.layers
        target = model.encoder if "hazard" in overrides else second
        first.set_modules_to_forward_prefetch([target])

    model = with_hook(type("Top", (Model,), {}), hook)()
    wrap(model, [*model.encoder.layers, model.encoder], device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
