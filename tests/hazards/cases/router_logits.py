"""Blocks return router logits that are part of the loss: backward order stays what it is."""

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

RULES = {"already-ran"}
EDGES = {("blocks.1", "blocks.2", "backward")}


class Routed(Block):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, 2, bias=False)

    def forward(self, x):
        logits = self.router(x)
        return super().forward(x) * logits.softmax(-1)[:, :1], logits


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Routed() for _ in range(4))
        self.head = nn.Linear(WIDTH, 1, bias=False)

    def forward(self, x):
        all_logits, hidden = [], [x]
        for block in self.blocks:
            x, logits = block(x)
            all_logits.append(logits)
            hidden.append(x)
        balance = sum(logits.logsumexp(-1).square().mean() for logits in all_logits)
        return self.head(x).mean() + 0.1 * balance, hidden


def build(*, device_mesh, overrides=()):
    def hook(model):
        first, second, third, fourth = model.blocks
        forward_chain(model.blocks)
        fourth.set_modules_to_backward_prefetch([third])
        third.set_modules_to_backward_prefetch([second])
        second.set_modules_to_backward_prefetch([third if "hazard" in overrides else first])

    model = with_hook(Model, hook)()
    wrap(model, model.blocks, device_mesh)
    call_hook(model)

    def distil():
        loss, hidden = model(batch())
        return loss + sum(states.square().mean() for states in hidden)

    paths = {"train": lambda: model(batch())[0], "distil": distil}
    return Built(model, paths, mixed_paths=[["train", "distil"]])
