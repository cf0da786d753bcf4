"""One backward list leaves out the unit that runs next; the default stays in charge elsewhere."""

from tests.hazards.building import Built, Stack, batch, call_hook, with_hook, wrap

RULES = {"inversion"}
EDGES = {("blocks.3", "blocks.1", "backward")}


def build(*, device_mesh, overrides=()):
    def hook(model):
        first = [] if "hazard" in overrides else [model.blocks[2]]
        model.blocks[3].set_modules_to_backward_prefetch([*first, model.blocks[1]])

    model = with_hook(type("Model", (Stack,), {}), hook)()
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
