"""Ranks mix two paths, one without the branch; its neighbour runs it with weight zero."""

from tests.hazards.building import Block, Built, Stack, batch, call_hook, with_hook, wrap

RULES = {"rank-divergence"}
EDGES = set()


class Branching(Stack):
    def __init__(self, skips):
        super().__init__()
        self.branch = Block()
        self.skips = skips

    def forward(self, x, weight):
        x = self.blocks[1](self.blocks[0](x))
        if weight or not self.skips:
            x = x + weight * self.branch(x)
        return self.head(self.blocks[3](self.blocks[2](x))).mean()


def build(*, device_mesh, overrides=()):
    def hook(model):
        model.blocks[0].set_modules_to_forward_prefetch([model.blocks[1]])
        model.blocks[2].set_modules_to_forward_prefetch([model.blocks[3]])
        model.blocks[3].set_modules_to_backward_prefetch([model.blocks[2]])

    model = with_hook(Branching, hook)("hazard" in overrides)
    wrap(model, [*model.blocks, model.branch], device_mesh)
    call_hook(model)
    paths = {"image": lambda: model(batch(), 1.0), "text": lambda: model(batch(), 0.0)}
    return Built(model, paths, mixed_paths=[["image", "text"]])
