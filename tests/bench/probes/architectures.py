"""Models of transformers, wrapped by `_no_split_modules`, with a right chain or a wrong one.

Overrides: the architecture, `tiny` or `published` (the defaults of its config class), and `right`
or `wrong` (backward edges that follow the forward order).
"""

from itertools import pairwise
from types import SimpleNamespace

import torch
import transformers
from torch import nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

HOOK = "APPLY_FSDP2_CUSTOM_PREFETCHING"
SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
}
DECODER = {**SMALL, "num_key_value_heads": 2, "head_dim": 8}
SEQ2SEQ = {
    "vocab_size": 64,
    "d_model": 32,
    "encoder_layers": 3,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}
EXPERTS = {**DECODER, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}


def text(config):
    tokens = torch.zeros(1, 8, dtype=torch.long)
    return {"input_ids": tokens, "labels": tokens}


def both_texts(config):
    tokens = torch.ones(1, 8, dtype=torch.long)
    return {"input_ids": tokens, "decoder_input_ids": tokens, "labels": tokens}


def sound(config):
    frames = 2 * config.max_source_positions
    tokens = torch.ones(1, 8, dtype=torch.long)
    return {"input_features": torch.zeros(1, config.num_mel_bins, frames), "labels": tokens}


def image(config):
    size = config.image_size
    return {"pixel_values": torch.zeros(1, 3, size, size), "labels": torch.zeros(1).long()}


# Name of the classes' common stem, model class, tiny config, inputs.
ARCHITECTURES = {
    "Llama": ("LlamaForCausalLM", DECODER, text),
    "Mistral": ("MistralForCausalLM", DECODER, text),
    "Qwen3": ("Qwen3ForCausalLM", DECODER, text),
    "Gemma2": ("Gemma2ForCausalLM", DECODER, text),
    "Phi3": ("Phi3ForCausalLM", {**DECODER, "pad_token_id": 0}, text),
    "Qwen3Moe": ("Qwen3MoeForCausalLM", EXPERTS, text),
    "Mixtral": ("MixtralForCausalLM", {**DECODER, "num_local_experts": 4}, text),
    "GPT2": ("GPT2LMHeadModel", {"vocab_size": 64, "n_embd": 32, "n_layer": 4, "n_head": 4}, text),
    "OPT": (
        "OPTForCausalLM",
        {
            "vocab_size": 64,
            "hidden_size": 32,
            "ffn_dim": 64,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "word_embed_proj_dim": 32,
        },
        text,
    ),
    "Mamba": (
        "MambaForCausalLM",
        {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 4, "state_size": 4},
        text,
    ),
    "Bert": ("BertForMaskedLM", SMALL, text),
    "Albert": ("AlbertForMaskedLM", {**SMALL, "embedding_size": 16}, text),
    "T5": (
        "T5ForConditionalGeneration",
        {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 3, "num_heads": 4},
        both_texts,
    ),
    "Bart": ("BartForConditionalGeneration", SEQ2SEQ, both_texts),
    "Whisper": (
        "WhisperForConditionalGeneration",
        {
            **SEQ2SEQ,
            "max_source_positions": 16,
            "num_mel_bins": 8,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
        },
        sound,
    ),
    "ViT": ("ViTForImageClassification", {**SMALL, "image_size": 16, "patch_size": 8}, image),
}


def chains(model):
    """Return the units that stand in one list each, with the units within them.

    They run in the list's order, each before what it holds.
    """
    for module in model.modules():
        if isinstance(module, nn.ModuleList):
            listed = [child for child in module if isinstance(child, FSDPModule)]
            if len(listed) > 1:
                yield [
                    [m for m in child.modules() if isinstance(m, FSDPModule)] for child in listed
                ]


def right(model):
    for nested in chains(model):
        for unit, following in pairwise(unit for units in nested for unit in units):
            unit.set_modules_to_forward_prefetch([following])
        backward = [[units[0], *reversed(units[1:])] for units in reversed(nested)]
        for unit, following in pairwise(unit for units in backward for unit in units):
            unit.set_modules_to_backward_prefetch([following])


def wrong(model):
    for nested in chains(model):
        for unit, following in pairwise(unit for units in nested for unit in units):
            unit.set_modules_to_forward_prefetch([following])
            unit.set_modules_to_backward_prefetch([following])


def build(*, device_mesh, overrides=()):
    name, size, edges = overrides
    cls_name, tiny, inputs = ARCHITECTURES[name]
    config_cls = getattr(transformers, f"{name}Config")
    config = config_cls(**tiny) if size == "tiny" else config_cls()
    cls = getattr(transformers, cls_name)
    hook = {"right": right, "wrong": wrong}[edges]
    # Bound on a class of its own: transformers' class is everybody's.
    model = type(cls_name, (cls,), {HOOK: staticmethod(hook), "__module__": cls.__module__})(config)
    # In fp32, the experts' grouped matrix product runs on neither a CPU nor fake tensors.
    options = {"mesh": device_mesh, "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16)}
    names = set(model._no_split_modules or ())
    for module in reversed(list(model.modules())):
        if type(module).__name__ in names and any(True for _ in module.parameters()):
            fully_shard(module, **options)
    fully_shard(model, **options)
    hook(model)
    batch = inputs(config)
    return SimpleNamespace(model=model, paths={"train": lambda: model(**batch).loss})
