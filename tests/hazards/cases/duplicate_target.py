"""One unit stands twice in a list where two different ones were meant."""

from tests.hazards.building import Built, Stack, batch, call_hook, with_hook, wrap

RULES = {"duplicate-target"}
EDGES = {("blocks.0", "blocks.1", "forward")}
EVENTS = {
    "path": "train",
    "hazard": "skip blocks.1 (forward edge of blocks.0)",
    "healthy": "gather blocks.2 (forward edge of blocks.0)",
}


def build(*, device_mesh, overrides=()):
    def hook(model):
        _, one, two, *_ = model.blocks
        listed = [one, one] if "hazard" in overrides else [one, two]
        model.blocks[0].set_modules_to_forward_prefetch(listed)

    model = with_hook(type("Model", (Stack,), {}), hook)()
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
