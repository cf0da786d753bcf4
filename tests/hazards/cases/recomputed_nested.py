"""A checkpointed block that is no unit holds two units; its neighbour checkpoints in those."""

import torch
from torch.utils.checkpoint import checkpoint

from tests.hazards.building import (
    WIDTH,
    Block,
    Built,
    batch,
    call_hook,
    forward_chain,
    nn,
    with_hook,
    wrap,
)

RULES = {"recomputed"}


class Part(nn.Module):
    def __init__(self, inside):
        super().__init__()
        self.body = Block()
        self.inside = inside

    def forward(self, x):
        return checkpoint(self.body, x, use_reentrant=False) if self.inside else self.body(x)


class Layer(nn.Module):
    def __init__(self, inside):
        super().__init__()
        self.attention = Part(inside)
        self.mlp = Part(inside)

    def forward(self, x):
        return torch.relu(self.mlp(torch.relu(self.attention(x))))


class Model(nn.Module):
    def __init__(self, inside):
        super().__init__()
        self.embed = nn.Linear(WIDTH, WIDTH, bias=False)
        self.layers = nn.ModuleList(Layer(inside) for _ in range(3))
        self.inside = inside

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x) if self.inside else checkpoint(layer, x, use_reentrant=False)
        return x.mean()


def parts(model):
    return [part for layer in model.layers for part in (layer.attention, layer.mlp)]


def build(*, device_mesh, overrides=()):
    def hook(model):
        forward_chain(parts(model))

    model = with_hook(Model, hook)("hazard" not in overrides)
    wrap(model, parts(model), device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
