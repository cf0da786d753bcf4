"""Qwen3 for training: transformers' model with its parallel layout and its prefetch hook."""

from __future__ import annotations

from itertools import pairwise

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import SequenceParallel
from transformers import Qwen3Config, Qwen3ForCausalLM

from mvp_engine.config import ConfigError
from recipes.qwen3.config import ModelConfig


def apply_fsdp2_custom_prefetching_for_qwen3(model: nn.Module) -> None:
    """Sets each decoder layer to gather its neighbour early: the next one in forward, the one
    before in backward. A second call does nothing.
    """
    if getattr(model, "_fsdp2_prefetching_configured", False):
        return

    for current_layer, next_layer in pairwise(model.model.layers):
        current_layer.set_modules_to_forward_prefetch([next_layer])
        next_layer.set_modules_to_backward_prefetch([current_layer])

    model._fsdp2_prefetching_configured = True


def norm_over_local_heads() -> SequenceParallel:
    """For a norm on (batch, sequence, heads, head_dim) of which each rank has some heads.

    Its weight is the same for all heads, so its gradient must be summed over the ranks.
    """
    return SequenceParallel(sequence_dim=2, use_local_output=True)


def require_whole_heads(model: nn.Module, tensor_mesh: DeviceMesh) -> None:
    """Raises ConfigError when the tensor axis would cut through an attention head."""
    for name in ("num_attention_heads", "num_key_value_heads"):
        heads = getattr(model.config, name)
        if heads % tensor_mesh.size():
            raise ConfigError(
                f"parallel.mesh.tensor is {tensor_mesh.size()}, which does not divide "
                f"model.{name} {heads}"
            )


class Qwen3ForTraining(Qwen3ForCausalLM):
    """Qwen3 with a language model head.

    FSDP2 wraps every decoder layer; the embedding, the last norm and the head stay with the root,
    so that a head tied to the embedding shares one sharded parameter with it.
    """

    _no_split_modules = ["Qwen3DecoderLayer"]  # noqa: RUF012

    APPLY_FSDP2_CUSTOM_PREFETCHING = apply_fsdp2_custom_prefetching_for_qwen3

    # Embedding and head both shard the vocabulary, as tied weights must.
    TP_MODULE_CONFIG = {  # noqa: RUF012
        "model.embed_tokens": "rowwise_replicated",
        "model.layers.*.self_attn.q_proj": "colwise",
        "model.layers.*.self_attn.k_proj": "colwise",
        "model.layers.*.self_attn.v_proj": "colwise",
        "model.layers.*.self_attn.q_norm": norm_over_local_heads,
        "model.layers.*.self_attn.k_norm": norm_over_local_heads,
        "model.layers.*.self_attn.o_proj": "rowwise",
        "model.layers.*.mlp.gate_proj": "colwise",
        "model.layers.*.mlp.up_proj": "colwise",
        "model.layers.*.mlp.down_proj": "rowwise",
        "lm_head": "colwise_gathered",
    }
    TP_MODULE_POSTPROCESSORS = (require_whole_heads,)


def transformers_config(config: ModelConfig) -> Qwen3Config:
    """The same sizes as transformers has them, with settings for training."""
    return Qwen3Config(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        num_key_value_heads=config.num_key_value_heads,
        head_dim=config.head_dim,
        max_position_embeddings=config.max_position_embeddings,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
        rms_norm_eps=config.rms_norm_eps,
        initializer_range=config.initializer_range,
        tie_word_embeddings=config.tie_word_embeddings,
        use_cache=False,
    )
