"""A unit told to prefetch itself; its neighbour names the unit that runs next."""

from tests.hazards.building import Built, Stack, batch, call_hook, with_hook, wrap

RULES = {"self-edge"}
EDGES = {("blocks.1", "blocks.1", "forward")}
EVENTS = {
    "path": "train",
    "hazard": "skip blocks.1 (forward edge of blocks.1)",
    "healthy": "gather blocks.2 (forward edge of blocks.1)",
}


def build(*, device_mesh, overrides=()):
    def hook(model):
        target = model.blocks[1 if "hazard" in overrides else 2]
        model.blocks[1].set_modules_to_forward_prefetch([target])

    model = with_hook(type("Model", (Stack,), {}), hook)()
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
