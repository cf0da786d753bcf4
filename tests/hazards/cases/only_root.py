"""Nothing but the root was wrapped, so that there is nothing to point an edge to."""

from torch.distributed.fsdp import FSDPModule

from tests.hazards.building import Built, Stack, batch, call_hook, forward_chain, with_hook, wrap

RULES = {"only-root"}
EDGES = set()


def build(*, device_mesh, overrides=()):
    def hook(model):
        forward_chain([block for block in model.blocks if isinstance(block, FSDPModule)])

    model = with_hook(type("Model", (Stack,), {}), hook)()
    wrap(model, [] if "hazard" in overrides else model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
