"""The backward list was built by the forward loop: each unit prefetches one that is through."""

from tests.hazards.building import Built, Stack, backward_chain, batch, call_hook, with_hook, wrap

RULES = {"already-ran"}
EDGES = {(f"blocks.{i}", f"blocks.{i + 1}", "backward") for i in range(5)}
EVENTS = {
    "path": "train",
    "hazard": "drop blocks.3",
    "healthy": "gather blocks.2 (backward edge of blocks.3)",
}


def build(*, device_mesh, overrides=()):
    def hook(model):
        blocks = list(model.blocks)
        backward_chain(blocks[::-1] if "hazard" in overrides else blocks)

    model = with_hook(type("Model", (Stack,), {}), hook)(6)
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
