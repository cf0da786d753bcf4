"""A block whose parameters all belong to units within it is prefetched: nothing is gathered.

Its neighbour leaves such blocks unwrapped and chains the units within them.
"""

import torch

from tests.hazards.building import Block, Built, batch, call_hook, forward_chain, with_hook, wrap

RULES = {"edge-to-empty-unit", "empty-unit"}
EDGES = {("layers.0", "layers.1", "forward"), ("layers.1", "layers.2", "forward")}


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.mlp = Block(), Block()

    def forward(self, x):
        return self.mlp(self.attention(x))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(3))
        self.head = torch.nn.Linear(8, 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x).mean()


def build(*, device_mesh, overrides=()):
    def hook(model):
        forward_chain(model.layers if "hazard" in overrides else inner(model))

    def inner(model):
        return [unit for layer in model.layers for unit in (layer.attention, layer.mlp)]

    model = with_hook(type("Top", (Model,), {}), hook)()
    blocks = model.layers if "hazard" in overrides else []
    wrap(model, [*inner(model), *blocks], device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
