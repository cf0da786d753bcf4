"""Backward edges where every unit keeps its parameters after forward; the neighbour reshards."""

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

RULES = {"no-effect"}
EDGES = {(f"blocks.{i + 1}", f"blocks.{i}", "backward") for i in range(3)}
EVENTS = {
    "path": "train",
    "hazard": "skip blocks.2 (backward edge of blocks.3)",
    "healthy": "gather blocks.2 (backward edge of blocks.3)",
}


def build(*, device_mesh, overrides=()):
    def hook(model):
        forward_chain(model.blocks)
        backward_chain(model.blocks)

    model = with_hook(type("Model", (Stack,), {}), hook)()
    wrap(model, model.blocks, device_mesh, reshard_after_forward="hazard" not in overrides)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
