"""Edges in the order in which units were registered, not in that in which they run.

The feed-forward unit is registered before cross-attention and runs after it: it is gathered in
front of cross-attention, which is gathered again when it has run.
"""

import torch

from tests.hazards.building import Block, Built, batch, call_hook, forward_chain, with_hook, wrap

RULES = {"already-ran", "inversion"}
EDGES = {("attention", "mlp", "forward"), ("mlp", "cross", "forward")}
EVENTS = {
    "path": "train",
    "hazard": "gather cross (forward edge of mlp)",
    "healthy": "gather cross (forward edge of attention)",
}


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.mlp, self.cross, self.last = (Block() for _ in range(4))

    def forward(self, x):
        return self.last(self.mlp(self.cross(self.attention(x)))).mean()


def build(*, device_mesh, overrides=()):
    def hook(model):
        registered = list(model.children())
        executed = [model.attention, model.cross, model.mlp, model.last]
        forward_chain(registered if "hazard" in overrides else executed)

    model = with_hook(type("Model", (Decoder,), {}), hook)()
    wrap(model, list(model.children()), device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
