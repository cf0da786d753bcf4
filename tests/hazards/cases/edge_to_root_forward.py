"""The last unit prefetches the root, whose head runs next but stays unsharded all along."""

from tests.hazards.building import Built, Stack, batch, call_hook, forward_chain, with_hook, wrap

RULES = {"edge-to-root"}
EDGES = {("blocks.3", "(root)", "forward")}


def build(*, device_mesh, overrides=()):
    def hook(model):
        forward_chain([*model.blocks, model] if "hazard" in overrides else model.blocks)

    model = with_hook(type("Model", (Stack,), {}), hook)()
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
