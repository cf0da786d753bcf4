"""The edge between encoder and decoder the wrong way round, in forward and in backward."""

import torch

from tests.hazards.building import (
    Block,
    Built,
    backward_chain,
    batch,
    call_hook,
    forward_chain,
    with_hook,
    wrap,
)

RULES = {"wrap-around", "already-ran"}
EDGES = {("decoder.1", "encoder.0", "forward"), ("encoder.0", "decoder.1", "backward")}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.ModuleList(Block() for _ in range(2))
        self.decoder = torch.nn.ModuleList(Block() for _ in range(2))
        self.head = torch.nn.Linear(8, 1)

    def forward(self, source, target):
        for block in self.encoder:
            source = block(source)
        for block in self.decoder:
            target = block(target + source)
        return self.head(target).mean()


def build(*, device_mesh, overrides=()):
    def hook(model):
        encoder, decoder = list(model.encoder), list(model.decoder)
        if "hazard" in overrides:
            encoder, decoder = decoder, encoder
        for part in (encoder, decoder):
            forward_chain(part)
            backward_chain(part)
        encoder[-1].set_modules_to_forward_prefetch([decoder[0]])
        decoder[0].set_modules_to_backward_prefetch([encoder[-1]])

    model = with_hook(type("Top", (Model,), {}), hook)()
    wrap(model, [*model.encoder, *model.decoder], device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch(), batch())})
