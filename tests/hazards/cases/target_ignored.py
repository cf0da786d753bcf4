"""The blocks of a frozen tower: forgotten, or kept out of sharding on purpose."""

from torch.distributed.fsdp import fully_shard

from tests.hazards.building import (
    Block,
    Built,
    Stack,
    batch,
    call_hook,
    forward_chain,
    nn,
    with_hook,
)

RULES = {"target-unwrapped"}
EDGES = set()
WANTED = ("Block",)


class Towers(Stack):
    def __init__(self):
        super().__init__()
        self.tower = nn.ModuleList(Block() for _ in range(2)).requires_grad_(False)

    def forward(self, x):
        for block in self.tower:
            x = block(x)
        return super().forward(x)


def build(*, device_mesh, overrides=()):
    model = with_hook(Towers, lambda model: forward_chain(model.blocks))()
    ignored = set() if "hazard" in overrides else set(model.tower.parameters())
    for block in model.blocks:
        fully_shard(block, mesh=device_mesh)
    fully_shard(model, mesh=device_mesh, ignored_params=ignored)
    call_hook(model)
    return Built(model, {"train": lambda: model(batch())})
