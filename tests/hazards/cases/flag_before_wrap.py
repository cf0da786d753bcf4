"""The hook's flag was set before wrapping and survives it, so that the hook does nothing."""

from copy import deepcopy

from tests.hazards.building import Built, Stack, batch, call_hook, forward_chain, with_hook, wrap

RULES = {"hook-sets-nothing"}
EDGES = set()


def build(*, device_mesh, overrides=()):
    model = with_hook(type("Model", (Stack,), {}), lambda model: forward_chain(model.blocks))()
    if "hazard" in overrides:
        model._fsdp2_prefetching_configured = True
    before = deepcopy(model)
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())}, before_wrap=before)
