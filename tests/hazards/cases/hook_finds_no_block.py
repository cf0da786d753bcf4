"""Wrapping renames classes: a hook that compares class names finds no block."""

from tests.hazards.building import (
    Block,
    Built,
    Stack,
    batch,
    call_hook,
    forward_chain,
    with_hook,
    wrap,
)

RULES = {"hook-sets-nothing"}
EDGES = set()


def build(*, device_mesh, overrides=()):
    def hook(model):
        if "hazard" in overrides:
            found = [m for m in model.modules() if type(m).__name__ == "Block"]
        else:
            found = [m for m in model.modules() if isinstance(m, Block)]
        forward_chain(found)

    model = with_hook(type("Model", (Stack,), {}), hook)()
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
