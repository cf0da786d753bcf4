"""An edge to a teacher's unit, a model of its own that has not run, makes FSDP2 raise."""

from tests.hazards.building import Built, Stack, batch, call_hook, with_hook, wrap

RULES = {"raises"}


def build(*, device_mesh, overrides=()):
    teacher = Stack(2)
    wrap(teacher, teacher.blocks, device_mesh)

    def hook(model):
        target = teacher.blocks[0] if "hazard" in overrides else model.blocks[1]
        model.blocks[0].set_modules_to_forward_prefetch([target])

    model = with_hook(type("Model", (Stack,), {}), hook)()
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
