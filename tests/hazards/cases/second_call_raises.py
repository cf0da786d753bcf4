"""A hook that does not expect a second call and breaks; its neighbour has the flag."""

from tests.hazards.building import (
    Built,
    Stack,
    batch,
    bind,
    call_hook,
    forward_chain,
    with_hook,
    wrap,
)

RULES = {"second-call-raises"}


def build(*, device_mesh, overrides=()):
    def hook(model):
        forward_chain(model.__dict__.pop("order"))

    binding = bind if "hazard" in overrides else with_hook
    model = binding(type("Model", (Stack,), {}), hook)()
    model.__dict__["order"] = list(model.blocks)
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
