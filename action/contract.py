"""The names that a recipe and the runtime agree on, fixed by the skill and by torch."""

HOOK = "APPLY_FSDP2_CUSTOM_PREFETCHING"
"""Class attribute: called as `model.__class__.HOOK(model)` after wrapping."""

TARGET_LIST = "_no_split_modules"
"""Class attribute: names of the classes to wrap."""

TP_ATTRIBUTES = ("TP_MODULE_CONFIG", "TP_MODULE_POSTPROCESSORS")
"""Class attributes of tensor parallelism."""

SETTERS = {
    "forward": "set_modules_to_forward_prefetch",
    "backward": "set_modules_to_backward_prefetch",
}
"""The methods of `torch.distributed.fsdp.FSDPModule` that set edges, by direction."""
