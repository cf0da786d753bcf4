"""A list that names the unit after next first, so that the next one queues behind it."""

from tests.hazards.building import Built, Stack, batch, call_hook, with_hook, wrap

RULES = {"farthest-first"}
EDGES = {(f"blocks.{i}", f"blocks.{i + n}", "forward") for i in (0, 1, 2) for n in (1, 2)}


def build(*, device_mesh, overrides=()):
    def hook(model):
        for i in range(3):
            near, far = model.blocks[i + 1], model.blocks[i + 2]
            listed = [far, near] if "hazard" in overrides else [near, far]
            model.blocks[i].set_modules_to_forward_prefetch(listed)

    model = with_hook(type("Model", (Stack,), {}), hook)(5)
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
