"""A second loop sets each list again, and the first one's longer reach is lost."""

from tests.hazards.building import Built, Stack, batch, call_hook, forward_chain, with_hook, wrap

RULES = {"list-replaced"}
EDGES = {("blocks.0", "blocks.2", "forward"), ("blocks.1", "blocks.3", "forward")}


def build(*, device_mesh, overrides=()):
    def hook(model):
        forward_chain(model.blocks, ahead=2)
        if "hazard" in overrides:
            forward_chain(model.blocks, ahead=1)

    model = with_hook(type("Model", (Stack,), {}), hook)()
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
