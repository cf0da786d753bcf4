"""One block of a class that is to be wrapped was left to the root."""

from tests.hazards.building import Built, Stack, batch, call_hook, forward_chain, with_hook, wrap

RULES = {"target-unwrapped"}
EDGES = set()
WANTED = ("Block",)


def build(*, device_mesh, overrides=()):
    def hook(model):
        forward_chain(model.blocks[:3])

    model = with_hook(type("Model", (Stack,), {}), hook)()
    wrap(model, model.blocks[:3] if "hazard" in overrides else model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
