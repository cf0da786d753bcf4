"""An edge into a branch that one of two training paths does not take.

Its neighbour leaves the unit before the branch without edges.
"""

from tests.hazards.building import Branched, Built, batch, call_hook, with_hook, wrap

RULES = {"never-runs"}
EDGES = {("blocks.1", "branch", "forward")}
EVENTS = {
    "path": "without",
    "hazard": "drop branch",
    "healthy": "gather blocks.2 (own)",
}


def build(*, device_mesh, overrides=()):
    def hook(model):
        first, second, third, fourth = model.blocks
        first.set_modules_to_forward_prefetch([second])
        if "hazard" in overrides:
            second.set_modules_to_forward_prefetch([model.branch, third])
        third.set_modules_to_forward_prefetch([fourth])

    model = with_hook(type("Model", (Branched,), {}), hook)()
    wrap(model, [*model.blocks, model.branch], device_mesh)
    call_hook(model)
    paths = {
        "with": lambda: model(batch(), take=True),
        "without": lambda: model(batch(), take=False),
    }
    return Built(model, paths, mixed_paths=[])
