"""Trains Qwen3 from scratch on byte-level text."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from mvp_engine.config import ConfigError
from mvp_engine.distributed.parallelize import parallelize_model
from mvp_engine.engine import Engine, StepOutput, register_engine
from recipes.qwen3.config import Qwen3RecipeConfig
from recipes.qwen3.data import TextBytes, python_help
from recipes.qwen3.model import Qwen3ForTraining, transformers_config


@register_engine("qwen3")
class Qwen3Engine(Engine):
    """Predicts the next byte; also logs the loss in bits per byte."""

    config_schema = Qwen3RecipeConfig

    def prepare_model(self) -> nn.Module:
        """Qwen3 on this rank's device, made parallel.

        Parameters are float32; FSDP2's policy decides what computes in less.
        """
        with self.device:
            model = Qwen3ForTraining(transformers_config(self.config.model))
        parallel = self.config.parallel
        return parallelize_model(model, self.mesh, parallel.backend_kwargs)

    def prepare_dataloader(self) -> Iterable[Any]:
        """Batches of token ids, (batch, sequence)."""
        try:
            dataset = TextBytes(python_help(), self.config.data.sequence_length)
        except ValueError as error:
            raise ConfigError(f"data.sequence_length: {error}") from None
        return self.data_loader(dataset)

    def forward_step(self, batch: Tensor) -> StepOutput:
        """Mean cross-entropy of every byte but the first, given those before it."""
        logits = self.model(input_ids=batch).logits[:, :-1]
        loss = functional.cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten())
        return StepOutput(loss, {"bits_per_byte": loss.detach() / math.log(2)})

    def example_batches(self) -> dict[str, Any]:
        """Training has one path: tokens in, logits out."""
        return {"text": torch.zeros(1, self.config.data.sequence_length, dtype=torch.long)}
