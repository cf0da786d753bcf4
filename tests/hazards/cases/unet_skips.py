"""A U-Net whose edges follow the skips: a unit on the way up prefetches one on the way down.

Its neighbour chains the units as they run. The skips themselves do no harm: autograd keeps the
order.
"""

import torch

from tests.hazards.building import (
    Block,
    Built,
    backward_chain,
    batch,
    call_hook,
    forward_chain,
    with_hook,
    wrap,
)

RULES = {"already-ran"}
EDGES = {
    ("up.0", "down.1", "forward"),
    ("up.1", "down.0", "forward"),
    ("down.1", "up.0", "backward"),
    ("down.0", "up.1", "backward"),
}


class UNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.down = torch.nn.ModuleList(Block() for _ in range(2))
        self.middle = Block()
        self.up = torch.nn.ModuleList(Block() for _ in range(2))
        self.out = Block()

    def forward(self, x):
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
        x = self.middle(x)
        for block in self.up:
            x = block(x + skips.pop())
        return self.out(x).mean()


def build(*, device_mesh, overrides=()):
    def hook(model):
        if "hazard" not in overrides:
            units = [*model.down, model.middle, *model.up, model.out]
            forward_chain(units)
            backward_chain(units)
            return
        for up, down in zip(model.up, reversed(model.down), strict=True):
            up.set_modules_to_forward_prefetch([down])
            down.set_modules_to_backward_prefetch([up])

    model = with_hook(type("Model", (UNet,), {}), hook)()
    wrap(model, [*model.down, model.middle, *model.up, model.out], device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
