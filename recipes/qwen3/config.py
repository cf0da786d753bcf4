"""The settings of this recipe."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from mvp_engine.config import ConfigSection, RunConfig

Size = Annotated[int, Field(ge=1)]


class ModelConfig(ConfigSection):
    """Sizes of the model, by the names that Qwen3's published configurations use."""

    vocab_size: Size
    hidden_size: Size
    intermediate_size: Size
    num_hidden_layers: Size
    num_attention_heads: Size
    num_key_value_heads: Size
    head_dim: Size
    max_position_embeddings: Size
    rope_theta: float = Field(gt=0)
    rms_norm_eps: float = Field(default=1e-6, gt=0)
    initializer_range: float = Field(default=0.02, gt=0)
    tie_word_embeddings: bool

    @model_validator(mode="after")
    def _sizes_fit(self) -> ModelConfig:
        if self.vocab_size < 256:
            raise ValueError(f"vocab_size {self.vocab_size} has no room for the 256 bytes")
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(
                f"num_attention_heads {self.num_attention_heads} is no multiple of "
                f"num_key_value_heads {self.num_key_value_heads}"
            )
        return self


class DataConfig(ConfigSection):
    """Text is cut into samples of `sequence_length` bytes."""

    sequence_length: int = Field(ge=2)


class Qwen3RecipeConfig(RunConfig):
    """The whole configuration of a run of this recipe."""

    model: ModelConfig
    data: DataConfig

    @model_validator(mode="after")
    def _sequences_fit(self) -> Qwen3RecipeConfig:
        longest = self.model.max_position_embeddings
        if self.data.sequence_length > longest:
            raise ValueError(
                f"data.sequence_length {self.data.sequence_length} is longer than "
                f"model.max_position_embeddings {longest}"
            )
        return self
