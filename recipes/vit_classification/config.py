"""The settings of this recipe."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from mvp_engine.config import ConfigSection, RunConfig

Size = Annotated[int, Field(ge=1)]


class ModelConfig(ConfigSection):
    """Sizes of the model; images are square, `image_size` pixels on a side, one channel."""

    image_size: Size = 8
    patch_size: Size = 2
    width: Size = 64
    depth: Size = 4
    heads: Size = 4
    mlp_width: Size = 256
    classes: Size = 10

    @model_validator(mode="after")
    def _sizes_divide(self) -> ModelConfig:
        if self.image_size % self.patch_size:
            raise ValueError(f"image_size {self.image_size} is no multiple of patch_size")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is no multiple of heads")
        return self


class DataConfig(ConfigSection):
    """How the digits are split: a share is held out and never trained on."""

    held_out: float = Field(default=0.2, gt=0, lt=1)
    split_seed: int = Field(default=0, ge=0)


class ViTConfig(RunConfig):
    """The whole configuration of a run of this recipe."""

    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
