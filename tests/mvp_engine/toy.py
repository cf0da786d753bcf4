"""A small language model and its engine: everything the runtime does, in milliseconds."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from mvp_engine.config import ConfigSection, RunConfig
from mvp_engine.distributed.parallelize import parallelize_model
from mvp_engine.engine import Engine, StepOutput, register_engine

VOCAB, LENGTH = 32, 8


class ToyBlock(nn.Module):
    def __init__(self, width: int, dropout: float):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.dropout(self.down(functional.gelu(self.up(self.norm(x)))))


def prefetch_next_and_previous(model: nn.Module) -> None:
    if getattr(model, "_fsdp2_prefetching_configured", False):
        return
    blocks = list(model.blocks)
    for current, following in pairwise(blocks):
        current.set_modules_to_forward_prefetch([following])
        following.set_modules_to_backward_prefetch([current])
    model._fsdp2_prefetching_configured = True


class Toy(nn.Module):
    _no_split_modules = ("ToyBlock",)
    APPLY_FSDP2_CUSTOM_PREFETCHING = prefetch_next_and_previous
    TP_MODULE_CONFIG: ClassVar = {
        "embed": "rowwise_replicated",
        "blocks.*.up": "colwise",
        "blocks.*.down": "rowwise",
        "head": "colwise_gathered",
    }

    def __init__(self, width: int = 16, depth: int = 3, tied: bool = False, dropout: float = 0.0):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.blocks = nn.ModuleList(ToyBlock(width, dropout) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCAB, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def next_token_loss(model: nn.Module, tokens: Tensor) -> Tensor:
    logits = model(tokens[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def counting_tokens(samples: int) -> Tensor:
    """Rows that count upwards from a start of their own: learnable in a few steps."""
    return (torch.arange(samples)[:, None] * 5 + torch.arange(LENGTH)) % VOCAB


class ToyModelConfig(ConfigSection):
    width: int = 16
    depth: int = 3
    tied: bool = False
    dropout: float = 0.0


class ToyConfig(RunConfig):
    model: ToyModelConfig = ToyModelConfig()


@register_engine("toy")
class ToyEngine(Engine):
    config_schema = ToyConfig

    def prepare_model(self) -> nn.Module:
        model = Toy(**self.config.model.model_dump())
        return parallelize_model(model, self.mesh, self.config.parallel.backend_kwargs)

    def prepare_dataloader(self) -> Any:
        return self.data_loader(counting_tokens(50))

    def forward_step(self, batch: Tensor) -> StepOutput:
        return StepOutput(next_token_loss(self.model, batch), {"first_token": batch[:, 0].max()})

    def example_batches(self) -> dict[str, Tensor]:
        return {"text": counting_tokens(2)}
