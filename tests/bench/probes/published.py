"""Published sizes, as bare configs: the dense 70 B of Llama 3 and the 235 B mixture of Qwen3."""

import os
from itertools import pairwise
from types import SimpleNamespace

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

HOOK = "APPLY_FSDP2_CUSTOM_PREFETCHING"
MESH = {"shard": 128}


def dense():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=128_256,
        hidden_size=8192,
        intermediate_size=28_672,
        num_hidden_layers=80,
        num_attention_heads=64,
        num_key_value_heads=8,
    )
    return LlamaForCausalLM, config


def mixture():
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    config = Qwen3MoeConfig(
        vocab_size=151_936,
        hidden_size=4096,
        intermediate_size=12_288,
        moe_intermediate_size=1536,
        num_hidden_layers=94,
        num_attention_heads=64,
        num_key_value_heads=4,
        head_dim=128,
        num_experts=128,
        num_experts_per_tok=8,
        experts_implementation="batched_mm",
    )
    return Qwen3MoeForCausalLM, config


def chain(model):
    layers = list(model.model.layers)
    for layer, following in pairwise(layers):
        layer.set_modules_to_forward_prefetch([following])
        following.set_modules_to_backward_prefetch([layer])


def build(*, device_mesh, overrides=()):
    name = next(iter(overrides), os.environ.get("BENCH_MODEL", "dense"))
    cls, config = {"dense": dense, "mixture": mixture}[name]()
    # Bound on a class of its own: transformers' class is everybody's.
    model = type(cls.__name__, (cls,), {HOOK: staticmethod(chain)})(config)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    for layer in model.model.layers:
        fully_shard(layer, mesh=device_mesh, mp_policy=policy)
    fully_shard(model, mesh=device_mesh, mp_policy=policy)
    getattr(type(model), HOOK)(model)
    tokens = torch.zeros(1, 16, dtype=torch.long)
    return SimpleNamespace(
        model=model, paths={"text": lambda: model(input_ids=tokens, labels=tokens).loss}
    )
