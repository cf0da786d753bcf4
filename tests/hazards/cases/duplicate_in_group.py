"""A list names two modules that were wrapped together, which are one unit with one all-gather."""

from tests.hazards.building import Built, Stack, batch, call_hook, with_hook, wrap

RULES = {"duplicate-target"}
EDGES = {("blocks.2 + blocks.3", "blocks.0 + blocks.1", "backward")}


def build(*, device_mesh, overrides=()):
    def hook(model):
        zero, one, two, _, four = model.blocks
        four.set_modules_to_backward_prefetch([two])
        two.set_modules_to_backward_prefetch([one, zero] if "hazard" in overrides else [one])

    model = with_hook(type("Model", (Stack,), {}), hook)(5)
    zero, one, two, three, four = model.blocks
    wrap(model, [[zero, one], [two, three], four], device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
