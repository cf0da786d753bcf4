"""A slice of the units before, not turned round: the farthest stands first in the backward list."""

from tests.hazards.building import Built, Stack, batch, call_hook, with_hook, wrap

RULES = {"farthest-first"}
EDGES = {(f"blocks.{i}", f"blocks.{i - n}", "backward") for i in (2, 3, 4) for n in (1, 2)}


def build(*, device_mesh, overrides=()):
    def hook(model):
        for i in range(1, 5):
            before = list(model.blocks[max(0, i - 2) : i])
            listed = before if "hazard" in overrides else before[::-1]
            model.blocks[i].set_modules_to_backward_prefetch(listed)

    model = with_hook(type("Model", (Stack,), {}), hook)(5)
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
