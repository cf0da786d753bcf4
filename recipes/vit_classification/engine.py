"""Trains the vision transformer on scikit-learn's digits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from mvp_engine.config import ConfigError
from mvp_engine.distributed.parallelize import parallelize_model
from mvp_engine.engine import Engine, StepOutput, register_engine
from recipes.vit_classification.config import ViTConfig
from recipes.vit_classification.data import IMAGE_SIZE, digits_split
from recipes.vit_classification.model import VisionTransformer


@register_engine("vit_classification")
class ViTEngine(Engine):
    """Cross-entropy over the classes; also logs the accuracy on the training batch."""

    config_schema = ViTConfig

    def prepare_model(self) -> nn.Module:
        """The vision transformer on this rank's device, made parallel."""
        with self.device:
            model = VisionTransformer(self.config.model)
        parallel = self.config.parallel
        return parallelize_model(model, self.mesh, parallel.backend_kwargs)

    def prepare_dataloader(self) -> Iterable[Any]:
        """Batches of (images, digits) from those that are not held out.

        Raises ConfigError for a model of another image size.
        """
        if self.config.model.image_size != IMAGE_SIZE:
            raise ConfigError(
                f"model.image_size: found {self.config.model.image_size}, allowed: {IMAGE_SIZE}, "
                f"the size of the digits"
            )
        data = self.config.data
        training, _ = digits_split(data.held_out, data.split_seed)
        return self.data_loader(training)

    def forward_step(self, batch: tuple[Tensor, Tensor]) -> StepOutput:
        """Mean cross-entropy of the batch."""
        images, labels = batch
        logits = self.model(images)
        accuracy = (logits.argmax(dim=1) == labels).float().mean()
        return StepOutput(functional.cross_entropy(logits, labels), {"accuracy": accuracy})

    def example_batches(self) -> dict[str, Any]:
        """Training has one path: images in, logits out."""
        model = self.config.model
        images = torch.zeros(2, 1, model.image_size, model.image_size)
        return {"images": (images, torch.zeros(2, dtype=torch.long))}
