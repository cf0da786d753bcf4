"""A unit left out of the chain: its all-gather queues behind that of the unit after it."""

from tests.hazards.building import Built, Stack, batch, call_hook, forward_chain, with_hook, wrap

RULES = {"inversion"}
EDGES = {("blocks.0", "blocks.2", "forward")}
EVENTS = {
    "path": "train",
    "hazard": "gather blocks.2 (forward edge of blocks.0)",
    "healthy": "gather blocks.1 (forward edge of blocks.0)",
}


def build(*, device_mesh, overrides=()):
    def hook(model):
        blocks = list(model.blocks)
        if "hazard" in overrides:
            del blocks[1]
        forward_chain(blocks)

    model = with_hook(type("Model", (Stack,), {}), hook)()
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
