"""A flag tested upside down: the second call takes the edges away; its neighbour returns there."""

from tests.hazards.building import Built, Stack, batch, bind, call_hook, forward_chain, wrap

RULES = {"second-call-changes"}


def build(*, device_mesh, overrides=()):
    def hook(model):
        if getattr(model, "_fsdp2_prefetching_configured", False):
            for block in model.blocks if "hazard" in overrides else ():
                block.set_modules_to_forward_prefetch([])
            return
        forward_chain(model.blocks)
        model._fsdp2_prefetching_configured = True

    model = bind(type("Model", (Stack,), {}), hook)()
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
