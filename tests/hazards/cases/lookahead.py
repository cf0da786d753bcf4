"""Edges that reach three units ahead; the neighbour's hook says why."""

from tests.hazards.building import Built, Stack, batch, call_hook, forward_chain, with_hook, wrap

RULES = {"lookahead"}
EDGES = {(f"blocks.{i}", f"blocks.{i + 3}", "forward") for i in range(4)}


def build(*, device_mesh, overrides=()):
    def hook(model):
        forward_chain(model.blocks, ahead=3)

    if "hazard" not in overrides:
        hook.__doc__ = """Chain the blocks.

        A lookahead of 3: blocks are small, and one of them does not hide a gather.
        """
    model = with_hook(type("Model", (Stack,), {}), hook)(7)
    wrap(model, model.blocks, device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
