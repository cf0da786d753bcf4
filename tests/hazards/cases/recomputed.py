"""Checkpointing around the units: reentrant, the forward edges fire again in each recompute."""

from torch.utils.checkpoint import checkpoint

from tests.hazards.building import (
    WIDTH,
    Built,
    Stack,
    backward_chain,
    batch,
    call_hook,
    forward_chain,
    nn,
    with_hook,
    wrap,
)

RULES = {"recomputed"}


class Checkpointed(Stack):
    def __init__(self, reentrant):
        super().__init__()
        self.embed = nn.Linear(WIDTH, WIDTH, bias=False)
        self.reentrant = reentrant

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return self.head(x).mean()


def build(*, device_mesh, overrides=()):
    def hook(model):
        forward_chain(model.blocks)
        backward_chain(model.blocks)

    model = with_hook(Checkpointed, hook)("hazard" in overrides)
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
