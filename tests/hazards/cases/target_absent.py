"""A name to wrap that is misspelt: the model has no such class."""

from tests.hazards.building import Built, Stack, batch, call_hook, forward_chain, with_hook, wrap

RULES = {"target-absent"}
EDGES = set()


def build(*, device_mesh, overrides=()):
    names = ["Blok" if "hazard" in overrides else "Block"]
    model_class = type("Model", (Stack,), {"_no_split_modules": names})
    model = with_hook(model_class, lambda model: forward_chain(model.blocks))()
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
