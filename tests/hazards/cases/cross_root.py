"""Two towers of which each is a root: one tower's last unit prefetches the other's first."""

import torch

from tests.hazards.building import Built, Stack, batch, call_hook, forward_chain, with_hook, wrap

RULES = {"cross-root"}
EDGES = {("image.blocks.1", "text.blocks.0", "forward")}


class Towers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text = Stack(2), Stack(3)

    def forward(self, x):
        return (self.image(x) - self.text(x)) ** 2


def build(*, device_mesh, overrides=()):
    def hook(model):
        towers = [model.image.blocks, model.text.blocks]
        if "hazard" in overrides:
            towers = [[block for tower in towers for block in tower]]
        for tower in towers:
            forward_chain(tower)

    model = with_hook(type("Model", (Towers,), {}), hook)()
    for tower in (model.image, model.text):
        wrap(tower, tower.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
