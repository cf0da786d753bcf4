"""A model wrapped by hand, without the call of the hook that the runtime makes."""

from tests.hazards.building import Built, Stack, batch, call_hook, forward_chain, with_hook, wrap

RULES = {"hook-not-called"}
EDGES = set()


def build(*, device_mesh, overrides=()):
    model = with_hook(type("Model", (Stack,), {}), lambda model: forward_chain(model.blocks))()
    wrap(model, model.blocks, device_mesh)
    if "hazard" not in overrides:
        call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
