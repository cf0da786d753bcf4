"""Every private name of torch that the probe uses, for torch 2.6 to 2.14.

All other modules of the worker see FSDP2 through this one. What changed meanwhile: a state's group
became a list (`_fsdp_param_groups`) in 2.12; `reduce_scatter_state` became a list of states in
2.13; `is_spmd` meshes and grouped one-shot prefetch came and are not looked at here.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule

OLDEST, NEWEST = (2, 6), (2, 14)
FAKE_SINCE = (2, 7)
"""The first torch whose collectives run on fake tensors."""
_FAKE_WITHOUT_HELP = (2, 11)
_COPIES_OUT_UNSEEN = (2, 7)

State = Any
Group = Any
Setter = Callable[[Any, Any], None]

_PATCHED_OF_GROUP = (
    "unshard",
    "wait_for_unshard",
    "post_backward",
    "finalize_backward",
    "_to_sharded",
    "_to_sharded_post_forward",
    "_backward_prefetch",
    "_prefetch_unshard",
)
_PATCHED_OF_STATE = (
    "_pre_forward",
    "_post_forward",
    "_pre_backward",
    "_root_post_backward_final_callback",
)
SETTERS = {
    "set_modules_to_forward_prefetch": "forward",
    "set_modules_to_backward_prefetch": "backward",
}


class UnknownTorchError(Exception):
    """A torch that the probe does not know; the message is one sentence."""


def version() -> tuple[int, int]:
    """Return major and minor version of torch."""
    found = re.match(r"(\d+)\.(\d+)", torch.__version__)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def check_torch() -> None:
    """Make sure that this torch is one whose FSDP2 is known here.

    Raises:
        UnknownTorchError: it is older or newer, or lacks a private name.
    """
    known = f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
    if not OLDEST <= version() <= NEWEST:
        side = "older" if version() < OLDEST else "newer"
        raise UnknownTorchError(
            f"torch {torch.__version__} is {side} than what the probe knows ({known}): "
            "what FSDP2 does there was never compared with what the probe expects"
        )
    try:
        group, state, _ = _classes()
    except (ImportError, AttributeError) as trouble:
        raise UnknownTorchError(
            f"torch {torch.__version__} has no FSDP2 as the probe knows it ({known}): {trouble}"
        ) from trouble
    lacking = [f"FSDPParamGroup.{n}" for n in _PATCHED_OF_GROUP if not hasattr(group, n)]
    lacking += [f"FSDPState.{n}" for n in _PATCHED_OF_STATE if not hasattr(state, n)]
    lacking += [f"FSDPModule.{n}" for n in SETTERS if not hasattr(FSDPModule, n)]
    if lacking:
        raise UnknownTorchError(
            f"torch {torch.__version__} lacks {', '.join(lacking)}, which the probe records"
        )


def complete_cpu_streams() -> None:
    """Give the CPU's stand-in for a stream the two methods that FSDP2 calls and torch 2.6 lacks.

    On a CPU everything runs at once and in order: there is nothing to record and to wait for.
    """
    stream: Any = torch.cpu.Stream
    if not hasattr(stream, "record_event"):
        stream.record_event = lambda self, event=None: event or torch.cpu.Event()
        stream.wait_event = lambda self, event: None


def _classes() -> tuple[type[Any], type[Any], Any]:
    base = "torch.distributed.fsdp._fully_shard"
    groups = importlib.import_module(f"{base}._fsdp_param_group")
    states = importlib.import_module(f"{base}._fsdp_state")
    return groups.FSDPParamGroup, states.FSDPState, groups


@contextmanager
def fake_tensors() -> Iterator[None]:
    """Run a block on fake tensors: shapes and dtypes, no memory, no values."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    if version() < _FAKE_WITHOUT_HELP:
        importlib.import_module("torch.distributed._tools.fake_collectives")
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


def start_fake_ranks(ranks: int) -> None:
    """Make this process rank 0 of a process group that sends nothing."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)


def stopping_operator(trouble: BaseException) -> str | None:
    """Return the operator that fake tensors could not run, where an error came from one."""
    function = getattr(trouble, "func", None)
    if isinstance(function, torch._ops.OpOverload):
        return str(function)
    step = trouble.__traceback__
    found = None
    while step is not None:
        if step.tb_frame.f_code.co_filename.endswith(("fake_tensor.py", "fake_impls.py")):
            local = step.tb_frame.f_locals.get("func")
            if isinstance(local, torch._ops.OpOverload):
                found = str(local)
        step = step.tb_next
    return found


def state_of(module: nn.Module) -> State | None:
    """Return the FSDP2 state of a module, shared by the modules of one `fully_shard([a, b])`."""
    return module._get_fsdp_state() if isinstance(module, FSDPModule) else None


def modules_of(state: State) -> tuple[nn.Module, ...]:
    """Return the modules that were wrapped together."""
    return tuple(state._modules)


def groups_of(state: State) -> list[Group]:
    """Return a state's parameter groups: none, one, or (2.12 on) several."""
    several = getattr(state, "_fsdp_param_groups", None)
    if several is not None:
        return list(several)
    return [] if state._fsdp_param_group is None else [state._fsdp_param_group]


def edges_of(state: State, direction: str) -> list[State]:
    """Return the states whose all-gather this one starts, in the order of its list."""
    return list(getattr(state, f"_states_to_{direction}_prefetch"))


def set_edges(state: State, direction: str, targets: Sequence[State]) -> None:
    """Replace the list of one state without going through the setters."""
    setattr(state, f"_states_to_{direction}_prefetch", list(targets))


def is_root(state: State) -> bool | None:
    """Tell whether a state became a root; None before the first forward."""
    known: bool | None = state._is_root
    return known


def recomputes(state: State) -> bool:
    """Tell whether a state's backward is under way, so that a forward now is a recomputation."""
    return bool(state._training_state.name == "PRE_BACKWARD")


def is_pending(group: Group) -> bool:
    """Tell whether a group's all-gather was issued and not yet copied out."""
    return group._all_gather_result is not None


def is_unsharded(group: Group) -> bool:
    """Tell whether a group's parameters are there in full."""
    return bool(group.is_unsharded)


def is_sharded(group: Group) -> bool:
    """Tell whether a group holds its shard only."""
    return bool(group.is_sharded)


def ran_backward(group: Group) -> bool:
    """Tell whether a group's post-backward has already run in this backward."""
    return bool(group._training_state.name == "POST_BACKWARD")


def reshards_after_forward(group: Group) -> bool | int:
    """Return True, False, or the number of ranks that a group reshards to after forward."""
    after = group.post_forward_mesh_info
    if after is None:
        return False
    full = group.mesh_info.mesh
    if after.mesh is full or after.mesh.size() == full.size():
        return True
    return int(after.mesh.size(after.shard_mesh_dim))


def shard_size(group: Group) -> int:
    """Return the number of ranks that a group's parameters are sharded over."""
    return int(getattr(group.mesh_info, "shard_mesh_size", 1))


def policy_of(group: Group) -> dict[str, str | None]:
    """Return the dtypes of a group's mixed precision policy."""
    policy = group.mp_policy
    return {
        name: None if (dtype := getattr(policy, name, None)) is None else _dtype(dtype)
        for name in ("param_dtype", "reduce_dtype", "output_dtype")
    }


class Parameter:
    """One parameter of a group.

    `local` is the shape that this rank gathers: the whole parameter, or its part under tensor
    parallelism. It is sharded along `dim`, in chunks that are padded to equal size.
    """

    def __init__(self, managed: Any, policy: Any) -> None:
        self.module: nn.Module = managed._module_info.module
        self.name: str = managed._module_info.param_name
        self.sharded: nn.Parameter = managed.sharded_param
        self.local: tuple[int, ...] = tuple(int(size) for size in managed._orig_size)
        placement = getattr(managed, "fsdp_placement", None)
        self.dim: int = 0 if placement is None else int(placement.dim)
        dtype = policy.param_dtype or managed.sharded_param.dtype
        if not dtype.is_floating_point or not managed.sharded_param.dtype.is_floating_point:
            dtype = managed.sharded_param.dtype
        self.dtype: str = _dtype(dtype)
        self.itemsize: int = dtype.itemsize
        self.requires_grad: bool = managed.sharded_param.requires_grad


def parameters_of(group: Group) -> list[Parameter]:
    """Return the parameters that a group gathers together."""
    return [Parameter(managed, group.mp_policy) for managed in group.fsdp_params]


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def restore(states: Sequence[State]) -> None:
    """Bring units back to where a step starts, after an error or when something stayed live."""
    for state in states:
        idle = type(state._training_state).IDLE
        state._training_state = idle
        with suppress(AttributeError):
            state._modules_to_run_forward.clear()
        for group in groups_of(state):
            group._training_state = idle
            _forget_gather(group)
            group._to_sharded()
            group._post_forward_indices.clear()
            group.comm_ctx.post_forward_order.clear()
            group.comm_ctx.all_gather_state = None
        context = state._state_ctx
        context.iter_forward_root = None
        context.post_backward_final_callback_queued = False


def _forget_gather(group: Group) -> None:
    """Wait for a group's all-gather, where one is on its way, and throw it away."""
    result = group._all_gather_result
    work = getattr(result, "all_gather_work", None)
    if work is not None and hasattr(work, "wait"):
        work.wait()
    group._all_gather_result = None


class Listener:
    """What `listening` tells, one method per thing that FSDP2 does; the default is to ignore it."""

    def enters(self, state: State) -> None:
        """A unit's forward begins, before its own all-gather."""

    def leaves(self, state: State) -> None:
        """A unit's forward has ended."""

    def turns(self, state: State) -> None:
        """A unit's backward begins, before its own all-gather."""

    def hook_done(self, state: State) -> None:
        """The hook behind `enters` or `turns` has ended, its edges have fired."""

    def default_begins(self, group: Group) -> None:
        """FSDP2's default backward prefetch of a group begins."""

    def default_done(self, group: Group) -> None:
        """FSDP2's default backward prefetch of a group has ended."""

    def prefetches(self, group: Group, direction: str) -> None:
        """A group is about to be prefetched, by an edge or by default."""

    def prefetched(self, group: Group, direction: str) -> None:
        """The prefetch has returned, whether or not it had anything to do."""

    def gathers(self, group: Group) -> None:
        """A group's all-gather was issued."""

    def copied_out(self, group: Group) -> None:
        """A group waited for its all-gather and has its parameters in full."""

    def reshards(self, group: Group) -> None:
        """A group freed its full parameters."""

    def reduces(self, group: Group) -> None:
        """A group's gradients were reduce-scattered."""

    def backward_done(self, group: Group) -> None:
        """A group's post-backward has run."""

    def ends(self) -> None:
        """The root's final callback begins: autograd is through."""

    def drops(self, group: Group) -> None:
        """A group's all-gather was thrown away unused at the end of backward."""

    def sets(self, module: nn.Module, direction: str, given: Any, before: Any) -> None:
        """A setter was called on a wrapped module; `before` is the list that it replaces."""


@contextmanager
def listening(to: Listener) -> Iterator[None]:
    """Tell `to` everything that FSDP2 does in this process while the block runs.

    Must be entered before `fully_shard`, which registers bound methods as hooks.
    """
    group_class, state_class, group_module = _classes()
    before: list[tuple[Any, str, Any]] = []

    def replace(owner: Any, name: str, value: Any) -> None:
        before.append((owner, name, owner.__dict__[name]))
        setattr(owner, name, value)

    def original(owner: Any, name: str) -> Any:
        return getattr(owner, name)

    replace(group_class, "unshard", _unshard(original(group_class, "unshard"), to))
    replace(group_class, "wait_for_unshard", _wait(original(group_class, "wait_for_unshard"), to))
    for name in ("_to_sharded", "_to_sharded_post_forward"):
        replace(group_class, name, _reshard(original(group_class, name), to))
    replace(
        group_class, "post_backward", _post_backward(original(group_class, "post_backward"), to)
    )
    replace(
        group_class, "finalize_backward", _finalize(original(group_class, "finalize_backward"), to)
    )
    replace(
        group_class, "_backward_prefetch", _default(original(group_class, "_backward_prefetch"), to)
    )
    replace(
        group_class,
        "_prefetch_unshard",
        staticmethod(_prefetch(original(group_class, "_prefetch_unshard"), to)),
    )
    replace(
        state_class,
        "_pre_forward",
        _state_hook(original(state_class, "_pre_forward"), to.enters, to),
    )
    replace(
        state_class,
        "_pre_backward",
        _state_hook(original(state_class, "_pre_backward"), to.turns, to),
    )
    replace(state_class, "_post_forward", _post_forward(original(state_class, "_post_forward"), to))
    replace(
        state_class,
        "_root_post_backward_final_callback",
        _final(original(state_class, "_root_post_backward_final_callback"), to),
    )
    replace(group_module, "foreach_reduce", _reduce(group_module.foreach_reduce))
    for name, direction in SETTERS.items():
        replace(FSDPModule, name, _setter(original(FSDPModule, name), direction, to))
    try:
        yield
    finally:
        for owner, name, value in reversed(before):
            setattr(owner, name, value)


def _unshard(real: Any, to: Listener) -> Any:
    def unshard(self: Group, *args: Any, **kwargs: Any) -> Any:
        was_pending = is_pending(self)
        result = real(self, *args, **kwargs)
        if not was_pending and is_pending(self):
            to.gathers(self)
        return result

    return unshard


def _wait(real: Any, to: Listener) -> Any:
    def wait_for_unshard(self: Group, *args: Any, **kwargs: Any) -> Any:
        was_pending = is_pending(self)
        with _copied_out_unseen(self):
            result = real(self, *args, **kwargs)
        if was_pending and not is_pending(self):
            to.copied_out(self)
        return result

    return wait_for_unshard


@contextmanager
def _copied_out_unseen(group: Group) -> Iterator[None]:
    """Keep autograd from taking a second copy-out for a change of the parameters.

    From 2.7 on FSDP2 does so itself; on a CPU, 2.6 would stop at it in backward.
    """
    if version() >= _COPIES_OUT_UNSEEN:
        yield
        return
    from torch.autograd import grad_mode

    with ExitStack() as stack:
        for managed in group.fsdp_params:
            for output in managed.all_gather_outputs:
                stack.enter_context(grad_mode._unsafe_preserve_version_counter(output))
        yield


def _reshard(real: Any, to: Listener) -> Any:
    def to_sharded(self: Group, *args: Any, **kwargs: Any) -> Any:
        was_unsharded = is_unsharded(self)
        result = real(self, *args, **kwargs)
        if was_unsharded and not is_unsharded(self):
            to.reshards(self)
        return result

    return to_sharded


_reducing: list[bool] = []


def _post_backward(real: Any, to: Listener) -> Any:
    def post_backward(self: Group, *args: Any, **kwargs: Any) -> Any:
        _reducing.append(False)
        try:
            return real(self, *args, **kwargs)
        finally:
            if _reducing.pop():
                to.reduces(self)
            to.backward_done(self)

    return post_backward


def _reduce(real: Any) -> Any:
    def foreach_reduce(*args: Any, **kwargs: Any) -> Any:
        if _reducing:
            _reducing[-1] = True
        return real(*args, **kwargs)

    return foreach_reduce


def _finalize(real: Any, to: Listener) -> Any:
    def finalize_backward(self: Group, *args: Any, **kwargs: Any) -> Any:
        if is_pending(self):
            to.drops(self)
            # FSDP2 would wait on the stream of a GPU, whatever device the mesh is on.
            _forget_gather(self)
        return real(self, *args, **kwargs)

    return finalize_backward


def _default(real: Any, to: Listener) -> Any:
    def backward_prefetch(self: Group, *args: Any, **kwargs: Any) -> Any:
        to.default_begins(self)
        try:
            return real(self, *args, **kwargs)
        finally:
            to.default_done(self)

    return backward_prefetch


def _prefetch(real: Any, to: Listener) -> Any:
    def prefetch_unshard(target: Group, pass_type: str) -> Any:
        to.prefetches(target, pass_type)
        try:
            return real(target, pass_type)
        finally:
            to.prefetched(target, pass_type)

    return prefetch_unshard


def _state_hook(real: Any, begins: Callable[[State], None], to: Listener) -> Any:
    def hook(self: State, *args: Any, **kwargs: Any) -> Any:
        begins(self)
        try:
            return real(self, *args, **kwargs)
        finally:
            to.hook_done(self)

    return hook


def _post_forward(real: Any, to: Listener) -> Any:
    def post_forward(self: State, *args: Any, **kwargs: Any) -> Any:
        result = real(self, *args, **kwargs)
        to.leaves(self)
        return result

    return post_forward


def _final(real: Any, to: Listener) -> Any:
    def final_callback(self: State, *args: Any, **kwargs: Any) -> Any:
        to.ends()
        return real(self, *args, **kwargs)

    return final_callback


def _setter(real: Any, direction: str, to: Listener) -> Setter:
    def setter(self: Any, modules: Any) -> None:
        before = edges_of(state_of(self), direction)
        real(self, modules)
        to.sets(self, direction, modules, before)

    return setter
