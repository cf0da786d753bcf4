"""Tensor parallelism from two attributes of the top-level model class.

`TP_MODULE_CONFIG` maps patterns of dotted module paths (`*` matches dots too) to a style: a name
of `STYLES`, a torch `ParallelStyle`, or a callable without arguments that returns one.
`TP_MODULE_POSTPROCESSORS` are callables `(model, tensor_mesh)` that run afterwards, in order, for
instance to set a local head count.
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)

STYLES: dict[str, Callable[[], ParallelStyle]] = {
    "colwise": ColwiseParallel,
    "colwise_gathered": lambda: ColwiseParallel(output_layouts=Replicate()),
    "rowwise": RowwiseParallel,
    "rowwise_replicated": lambda: RowwiseParallel(input_layouts=Replicate()),
}
"""`colwise` leaves its output sharded for a `rowwise` after it; `colwise_gathered` makes it whole
again (an output head); `rowwise_replicated` takes a whole input (an embedding over token ids)."""


class TensorParallelError(Exception):
    """A tensor-parallel plan that does not fit the model; the message is one sentence."""


def apply_tensor_parallel(model: nn.Module, mesh: DeviceMesh) -> None:
    """Parallelizes `model` in place over the 1-D tensor `mesh` as its class says.

    Tied parameters stay tied. Raises TensorParallelError for a class without a plan, a pattern
    that matches no module, a module that two patterns match, an unknown style, and a tied
    parameter of which the plan names only one module or two styles.
    """
    cls = type(model)
    patterns = getattr(cls, "TP_MODULE_CONFIG", None)
    if not patterns:
        raise TensorParallelError(
            f"parallel.mesh.tensor is {mesh.size()}, but {cls.__name__} has no TP_MODULE_CONFIG"
        )
    plan: dict[str, ParallelStyle] = {}
    planned_by: dict[str, str] = {}
    paths = [path for path, _ in model.named_modules() if path]
    for pattern, style in patterns.items():
        matches = [path for path in paths if fnmatchcase(path, pattern)]
        if not matches:
            raise TensorParallelError(
                f"{cls.__name__}.TP_MODULE_CONFIG: the pattern {pattern!r} matches no module"
            )
        for path in matches:
            if path in planned_by:
                raise TensorParallelError(
                    f"{cls.__name__}.TP_MODULE_CONFIG: {path} is matched by both "
                    f"{planned_by[path]!r} and {pattern!r}"
                )
            planned_by[path] = pattern
            plan[path] = _style(cls, pattern, style)

    tied = _tied_parameters(model)
    parallelize_module(model, mesh, plan)
    for names in tied:
        _tie_again(model, names)
    for postprocess in getattr(cls, "TP_MODULE_POSTPROCESSORS", ()):
        postprocess(model, mesh)


def _style(cls: type, pattern: str, style: object) -> ParallelStyle:
    """A style of its own for each module, since a style may keep state."""
    if isinstance(style, str) and style in STYLES:
        return STYLES[style]()
    if isinstance(style, ParallelStyle):
        return style
    if callable(style):
        made = style()
        if isinstance(made, ParallelStyle):
            return made
    raise TensorParallelError(
        f"{cls.__name__}.TP_MODULE_CONFIG[{pattern!r}] is {style!r}, allowed: "
        f"{', '.join(STYLES)}, a ParallelStyle or a callable that makes one"
    )


def _tied_parameters(model: nn.Module) -> list[list[str]]:
    names: dict[nn.Parameter, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    return [group for group in names.values() if len(group) > 1]


def _tie_again(model: nn.Module, names: list[str]) -> None:
    """`parallelize_module` gives each module a new parameter; make one of them again."""
    first = model.get_parameter(names[0])
    for name in names[1:]:
        other = model.get_parameter(name)
        layouts = [p.placements if isinstance(p, DTensor) else None for p in (first, other)]
        if layouts[0] != layouts[1]:
            raise TensorParallelError(
                f"{names[0]} and {name} are one tied parameter, but TP_MODULE_CONFIG shards them "
                f"differently: give both modules styles that shard the same dimension"
            )
        owner, _, attribute = name.rpartition(".")
        model.get_submodule(owner).register_parameter(attribute, first)
