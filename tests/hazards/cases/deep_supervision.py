"""A loss after every block: a chain over blocks alone queues each before the head in between."""

from tests.hazards.building import (
    WIDTH,
    Block,
    Built,
    backward_chain,
    batch,
    call_hook,
    forward_chain,
    nn,
    with_hook,
    wrap,
)

RULES = {"inversion"}
EDGES = {
    *((f"blocks.{i}", f"blocks.{i + 1}", "forward") for i in range(2)),
    *((f"blocks.{i + 1}", f"blocks.{i}", "backward") for i in range(2)),
}


class Supervised(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.heads = nn.ModuleList(nn.Linear(WIDTH, 1) for _ in range(3))

    def forward(self, x):
        losses = []
        for block, head in zip(self.blocks, self.heads, strict=True):
            x = block(x)
            losses.append(head(x).mean())
        return sum(losses)


def build(*, device_mesh, overrides=()):
    def hook(model):
        both = [m for pair in zip(model.blocks, model.heads, strict=True) for m in pair]
        chained = list(model.blocks) if "hazard" in overrides else both
        forward_chain(chained)
        backward_chain(chained)

    model = with_hook(Supervised, hook)()
    wrap(model, [*model.blocks, *model.heads], device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
