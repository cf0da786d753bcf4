"""Lists that name the farther unit first do no harm where the nearer one is on its way already.

Only the first list decides: it starts two all-gathers, each later one a single one.
"""

from tests.hazards.building import Built, Stack, batch, call_hook, with_hook, wrap

RULES = {"farthest-first"}


def build(*, device_mesh, overrides=()):
    def hook(model):
        for i in range(3):
            near, far = model.blocks[i + 1], model.blocks[i + 2]
            right = i == 0 and "hazard" not in overrides
            listed = [near, far] if right else [far, near]
            model.blocks[i].set_modules_to_forward_prefetch(listed)

    model = with_hook(type("Model", (Stack,), {}), hook)(5)
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
