"""Two forwards in one step: a chain is fine, an edge from the last unit to the first is not."""

from tests.hazards.building import (
    Built,
    Stack,
    backward_chain,
    batch,
    call_hook,
    forward_chain,
    with_hook,
    wrap,
)

RULES = {"wrap-around"}
EDGES = {("blocks.3", "blocks.0", "forward")}


def build(*, device_mesh, overrides=()):
    def hook(model):
        forward_chain(model.blocks)
        backward_chain(model.blocks)
        if "hazard" in overrides:
            model.blocks[3].set_modules_to_forward_prefetch([model.blocks[0]])

    model = with_hook(type("Model", (Stack,), {}), hook)()
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"contrast": lambda: model(batch()) - model(batch()) ** 2})
