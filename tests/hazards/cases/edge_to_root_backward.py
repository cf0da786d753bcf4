"""A backward edge to the root starts nothing and turns the default prefetch off for its source."""

from tests.hazards.building import Built, Stack, batch, call_hook, with_hook, wrap

RULES = {"edge-to-root"}
EDGES = {("blocks.2", "(root)", "backward")}
EVENTS = {
    "path": "train",
    "hazard": "skip (root) (backward edge of blocks.2)",
    "healthy": "gather blocks.1 (backward edge of blocks.2)",
}


def build(*, device_mesh, overrides=()):
    def hook(model):
        target = model if "hazard" in overrides else model.blocks[1]
        model.blocks[2].set_modules_to_backward_prefetch([target])

    model = with_hook(type("Model", (Stack,), {}), hook)()
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
