"""A second loop means to add the unit after next, but takes the next one away: two wrongs."""

from tests.hazards.building import Built, Stack, batch, call_hook, forward_chain, with_hook, wrap

RULES = {"list-replaced", "inversion"}
EDGES = {
    ("blocks.0", "blocks.1", "forward"),
    ("blocks.1", "blocks.2", "forward"),
    ("blocks.0", "blocks.2", "forward"),
}


def build(*, device_mesh, overrides=()):
    def hook(model):
        blocks = list(model.blocks)
        forward_chain(blocks)
        for i in range(2):
            kept = [] if "hazard" in overrides else [blocks[i + 1]]
            blocks[i].set_modules_to_forward_prefetch([*kept, blocks[i + 2]])

    model = with_hook(type("Model", (Stack,), {}), hook)()
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
