"""A unit that only training runs is prefetched in evaluation, too, and stays pending there."""

from tests.hazards.building import Branched, Built, batch, call_hook, forward_chain, with_hook, wrap

RULES = {"stale-in-eval"}
EDGES = {("blocks.1", "branch", "forward")}
EVENTS = {
    "path": "train",
    "hazard": "gather branch (forward edge of blocks.1)",
    "healthy": "gather branch (own)",
}


def build(*, device_mesh, overrides=()):
    def hook(model):
        first, second, *rest = model.blocks
        forward_chain([first, second, model.branch] if "hazard" in overrides else [first, second])
        forward_chain(rest)

    model = with_hook(type("Model", (Branched,), {}), hook)()
    wrap(model, [*model.blocks, model.branch], device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch(), take=model.training)})
