"""A block all of whose parameters lie in wrapped children; its neighbour keeps one."""

import torch

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

RULES = {"empty-unit"}
EDGES = set()


class Pair(nn.Module):
    def __init__(self, scaled):
        super().__init__()
        self.attention, self.mlp = Block(), Block()
        self.scale = nn.Parameter(torch.ones(WIDTH)) if scaled else None

    def forward(self, x):
        x = x if self.scale is None else x * self.scale
        return self.mlp(self.attention(x))


class Model(nn.Module):
    def __init__(self, scaled):
        super().__init__()
        self.pairs = nn.ModuleList(Pair(scaled) for _ in range(3))
        self.head = nn.Linear(WIDTH, 1, bias=False)

    def forward(self, x):
        for pair in self.pairs:
            x = pair(x)
        return self.head(x).mean()


def build(*, device_mesh, overrides=()):
    def hook(model):
        for pair in model.pairs:
            forward_chain([pair.attention, pair.mlp])

    model = with_hook(Model, hook)("hazard" not in overrides)
    children = [part for pair in model.pairs for part in (pair.attention, pair.mlp)]
    wrap(model, [*children, *model.pairs], device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
