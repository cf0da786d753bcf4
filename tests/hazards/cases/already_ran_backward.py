"""Two branches in parallel: backward begins with the one that ran last in forward."""

import torch

from tests.hazards.building import Block, Built, batch, call_hook, with_hook, wrap

RULES = {"already-ran"}
EDGES = {("left", "right", "backward")}
EVENTS = {
    "path": "train",
    "hazard": "drop right",
    "healthy": "gather left (backward edge of right)",
}


class Parallel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.left, self.right = Block(), Block(), Block()
        self.head = torch.nn.Linear(8, 1)

    def forward(self, x):
        x = self.stem(x)
        return self.head(self.left(x) * self.right(x)).mean()


def build(*, device_mesh, overrides=()):
    def hook(model):
        source, target = model.right, model.left
        if "hazard" in overrides:
            source, target = target, source
        source.set_modules_to_backward_prefetch([target])

    model = with_hook(type("Model", (Parallel,), {}), hook)()
    wrap(model, [model.stem, model.left, model.right], device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
