"""A unit is told to prefetch itself in backward, where the unit before it was meant."""

from tests.hazards.building import Built, Stack, batch, call_hook, with_hook, wrap

RULES = {"self-edge"}
EDGES = {(f"blocks.{i}", f"blocks.{i}", "backward") for i in (1, 2, 3)}
EVENTS = {
    "path": "train",
    "hazard": "skip blocks.2 (backward edge of blocks.2)",
    "healthy": "gather blocks.1 (backward edge of blocks.2)",
}


def build(*, device_mesh, overrides=()):
    def hook(model):
        for i in (1, 2, 3):
            target = model.blocks[i if "hazard" in overrides else i - 1]
            model.blocks[i].set_modules_to_backward_prefetch([target])

    model = with_hook(type("Model", (Stack,), {}), hook)()
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
