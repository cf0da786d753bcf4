"""An edge on a branch that no path of the probe takes; the neighbour adds a path that does."""

from tests.hazards.building import Branched, Built, batch, call_hook, with_hook, wrap

RULES = {"source-never-runs"}
EDGES = {("branch", "blocks.2", "forward")}


def build(*, device_mesh, overrides=()):
    def hook(model):
        model.branch.set_modules_to_forward_prefetch([model.blocks[2]])

    model = with_hook(type("Model", (Branched,), {}), hook)()
    wrap(model, [*model.blocks, model.branch], device_mesh)
    call_hook(model)
    paths = {"without": lambda: model(batch(), take=False)}
    if "hazard" not in overrides:
        paths["with"] = lambda: model(batch(), take=True)
    return Built(model, paths, mixed_paths=[])
