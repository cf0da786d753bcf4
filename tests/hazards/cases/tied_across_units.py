"""A tied embedding wrapped apart from its head; its neighbour leaves both to the root."""

from copy import deepcopy

from tests.hazards.building import (
    WIDTH,
    Built,
    Stack,
    batch,
    call_hook,
    forward_chain,
    nn,
    with_hook,
    wrap,
)

RULES = {"tied-across-units"}
EDGES = set()


class Tied(Stack):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(WIDTH, WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, WIDTH, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return super().forward(self.embed(x))


def build(*, device_mesh, overrides=()):
    model = with_hook(Tied, lambda model: forward_chain(model.blocks))()
    before = deepcopy(model)
    apart = [model.embed] if "hazard" in overrides else []
    wrap(model, [*apart, *model.blocks], device_mesh)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())}, before_wrap=before)
