"""What calls out of the repository return, as far as that is known of torch, PEFT and Python."""

from __future__ import annotations

from dataclasses import replace

from action.records import Location
from action.source.values import ClassValue, Foreign, Instance, Unknown, Values

# What stands between the runtime and the class of the model, so that its hook is not found.
_HIDING = {
    "torch.compile": "`torch.compile` returns an `OptimizedModule`",
    "torch.jit.script": "`torch.jit.script` returns a `ScriptModule`",
    "torch.jit.trace": "`torch.jit.trace` returns a `ScriptModule`",
    "torch.fx.symbolic_trace": "`torch.fx.symbolic_trace` returns a `GraphModule`",
    "peft.get_peft_model": "`get_peft_model` returns a `PeftModel`",
}
_HIDING_CLASSES = (
    "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel",
    "torch.nn.parallel.DistributedDataParallel",
    "torch.distributed.fsdp.FullyShardedDataParallel",
)
# Methods of `torch.nn.Module` that return the module itself.
_SELF_RETURNING = (
    "to", "to_empty", "cuda", "cpu", "xpu", "npu", "train", "eval", "half", "float", "double",
    "bfloat16", "type", "apply", "requires_grad_", "share_memory",
)  # fmt: skip
_CONSTRUCTORS = ("from_config", "_from_config", "from_pretrained")
# Functions that return their first argument, or a copy of it.
_PASSING_ON = (
    "copy.copy",
    "copy.deepcopy",
    "typing.cast",
    "peft.prepare_model_for_kbit_training",
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
)


def foreign_call(
    function: Foreign, arguments: tuple[Values, ...], location: Location, shown: str
) -> Values:
    """Return what a call of something from outside the tree may return.

    `arguments` are those given by position, and a `model=` or `module=` after them; `shown` is the
    call as written.
    """
    method = function.name.rpartition(".")[2]
    receiver = function.receiver
    if isinstance(receiver, Instance) and method in _SELF_RETURNING:
        return (receiver,)
    if isinstance(receiver, ClassValue) and method in _CONSTRUCTORS:
        return (Instance(receiver.cls),)
    if receiver is not None:
        return (Unknown(location, f"`{shown}` is inherited from outside the repository"),)
    hiding = _hiding(function.name)
    if hiding is not None:
        if not arguments:
            return (function,)  # torch.compile(mode=…) is called once more, with the model
        return tuple(
            replace(value, hidden=(*value.hidden, (location, hiding)))
            if isinstance(value, Instance) and not value.sharded
            else value
            for value in arguments[0]
        )
    if function.name in _PASSING_ON and arguments:
        return arguments[1] if function.name == "typing.cast" else arguments[0]
    if function.name == "torch.nn.utils.skip_init" and arguments:
        return tuple(Instance(v.cls) if isinstance(v, ClassValue) else v for v in arguments[0])
    # Whatever is done to a model after it was sharded does not change where its hook was looked up.
    sharded = tuple(
        value
        for values in arguments
        for value in values
        if isinstance(value, Instance) and value.sharded
    )
    why = f"`{shown}` is a call of `{function.name}`, which is not in the repository"
    return sharded or (Unknown(location, why),)


def _hiding(name: str) -> str | None:
    if name in _HIDING:
        return _HIDING[name]
    cls = name.removesuffix(".from_pretrained")
    short = cls.rpartition(".")[2]
    if cls in _HIDING_CLASSES or (
        cls.startswith("peft.") and short.startswith(("PeftModel", "PeftMixedModel"))
    ):
        return f"`{short}` is a class around the model's own"
    return None
