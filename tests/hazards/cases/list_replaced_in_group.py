"""Modules wrapped together share one list: edges set on each replace each other."""

from tests.hazards.building import Built, Stack, batch, call_hook, with_hook, wrap

RULES = {"list-replaced"}
EDGES = {("blocks.0 + blocks.1", "blocks.3", "forward")}


def build(*, device_mesh, overrides=()):
    def hook(model):
        first, second, third, fourth = model.blocks
        if "hazard" in overrides:
            first.set_modules_to_forward_prefetch([third, fourth])
            second.set_modules_to_forward_prefetch([third])
        else:
            first.set_modules_to_forward_prefetch([third, fourth])

    model = with_hook(type("Model", (Stack,), {}), hook)()
    wrap(model, [list(model.blocks[:2]), model.blocks[2], model.blocks[3]], device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
