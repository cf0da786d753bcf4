"""A wrapper as adapters put around a model hides the hook; its neighbour binds it there."""

from tests.hazards.building import (
    Built,
    Stack,
    batch,
    call_hook,
    forward_chain,
    nn,
    with_hook,
    wrap,
)

RULES = {"hook-hidden"}
EDGES = set()


class Adapter(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base

    def forward(self, x):
        return self.base(x)


def build(*, device_mesh, overrides=()):
    model_class = type("Model", (Stack,), {})
    if "hazard" in overrides:
        with_hook(model_class, lambda model: forward_chain(model.blocks))
    else:
        with_hook(Adapter, lambda model: forward_chain(model.base.blocks))
    model = Adapter(model_class())
    wrap(model, model.base.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
