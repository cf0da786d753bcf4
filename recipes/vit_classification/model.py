"""A vision transformer in plain torch, and the order in which FSDP2 prefetches its blocks."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from recipes.vit_classification.config import ModelConfig


def apply_fsdp2_custom_prefetching_for_vision_transformer(model: nn.Module) -> None:
    """Sets each block to gather its neighbour early: the next one in forward, the one before in
    backward. A second call does nothing.
    """
    if getattr(model, "_fsdp2_prefetching_configured", False):
        return

    for current_block, next_block in pairwise(model.blocks):
        current_block.set_modules_to_forward_prefetch([next_block])
        next_block.set_modules_to_backward_prefetch([current_block])

    model._fsdp2_prefetching_configured = True


class SelfAttention(nn.Module):
    """Multi-head attention of every token to every token; (batch, tokens, width) in and out."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Returns what each token gathers from all tokens."""
        batch, count, width = tokens.shape
        qkv = self.qkv(tokens).view(batch, count, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value)
        return self.output(attended.transpose(1, 2).reshape(batch, count, width))


class Block(nn.Module):
    """One pre-norm transformer block: attention, then a two-layer MLP, each with a residual."""

    def __init__(self, width: int, heads: int, mlp_width: int):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, mlp_width), nn.GELU(), nn.Linear(mlp_width, width)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Takes and returns tokens of shape (batch, tokens, width)."""
        tokens = tokens + self.attention(self.attention_norm(tokens))
        return tokens + self.mlp(self.mlp_norm(tokens))


class VisionTransformer(nn.Module):
    """Patches, a class token, pre-norm blocks, and a linear head on the class token.

    FSDP2 wraps every `Block`; the patch embedding, the tokens' positions, the last norm and the
    head stay with the root.
    """

    APPLY_FSDP2_CUSTOM_PREFETCHING = apply_fsdp2_custom_prefetching_for_vision_transformer

    def __init__(self, config: ModelConfig):
        super().__init__()
        patches = (config.image_size // config.patch_size) ** 2
        self.patch_embedding = nn.Conv2d(
            1, config.width, kernel_size=config.patch_size, stride=config.patch_size
        )
        self.class_token = nn.Parameter(torch.zeros(1, 1, config.width))
        self.positions = nn.Parameter(torch.zeros(1, 1 + patches, config.width))
        self.blocks = nn.ModuleList(
            Block(config.width, config.heads, config.mlp_width) for _ in range(config.depth)
        )
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.classes)
        nn.init.normal_(self.class_token, std=0.02)
        nn.init.normal_(self.positions, std=0.02)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of shape (batch, classes) for images of shape (batch, 1, side, side)."""
        tokens = self.patch_embedding(images).flatten(2).transpose(1, 2)
        class_token = self.class_token.expand(len(images), -1, -1)
        tokens = torch.cat([class_token, tokens], dim=1) + self.positions
        for block in self.blocks:
            tokens = block(tokens)
        return self.head(self.norm(tokens)[:, 0])
