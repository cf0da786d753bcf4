"""A backward edge to a unit that never resharded starts nothing and turns the default off."""

from torch.distributed.fsdp import fully_shard

from tests.hazards.building import Built, Stack, batch, call_hook, with_hook, wrap

RULES = {"default-off"}
EDGES = {("blocks.3", "blocks.1", "backward")}
EVENTS = {
    "path": "train",
    "hazard": "skip blocks.1 (backward edge of blocks.3)",
    "healthy": "gather blocks.2 (default of blocks.3)",
}


def build(*, device_mesh, overrides=()):
    def hook(model):
        model.blocks[0].set_modules_to_forward_prefetch([model.blocks[1]])
        if "hazard" in overrides:
            model.blocks[3].set_modules_to_backward_prefetch([model.blocks[1]])

    model = with_hook(type("Model", (Stack,), {}), hook)()
    fully_shard(model.blocks[1], mesh=device_mesh, reshard_after_forward=False)
    wrap(model, [model.blocks[i] for i in (0, 2, 3)], device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
