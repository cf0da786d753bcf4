"""Paths issue different collectives and nobody says whether ranks mix them; its neighbour does."""

from tests.hazards.building import Branched, Built, batch, call_hook, with_hook, wrap

RULES = {"paths-differ"}
EDGES = set()


def build(*, device_mesh, overrides=()):
    def hook(model):
        model.blocks[2].set_modules_to_forward_prefetch([model.blocks[3]])

    model = with_hook(type("Model", (Branched,), {}), hook)()
    wrap(model, [*model.blocks, model.branch], device_mesh)
    call_hook(model)
    paths = {"long": lambda: model(batch(), True), "short": lambda: model(batch(), False)}
    return Built(model, paths, mixed_paths=None if "hazard" in overrides else [])
