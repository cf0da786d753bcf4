"""Edges that reach further with every call; its neighbour has no flag, but sets the same again."""

from tests.hazards.building import Built, Stack, batch, bind, call_hook, forward_chain, wrap

RULES = {"second-call-changes"}


def build(*, device_mesh, overrides=()):
    calls = []

    def hook(model):
        calls.append(model)
        forward_chain(model.blocks, ahead=len(calls) if "hazard" in overrides else 1)

    model = bind(type("Model", (Stack,), {}), hook)()
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
