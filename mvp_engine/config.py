"""The settings of a run: YAML plus dotted overrides, validated before anything is built.

Recipes extend `RunConfig` and narrow `model` and `data` to sections of their own::

    class ModelConfig(ConfigSection):
        width: int = 64

    class MyConfig(RunConfig):
        model: ModelConfig = ModelConfig()
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from mvp_engine import yaml_source
from mvp_engine.yaml_source import ConfigError, Document, KeyPath

__all__ = [
    "BackendKwargs",
    "ConfigError",
    "ConfigSection",
    "FSDP2Config",
    "MeshConfig",
    "MixedPrecisionConfig",
    "OptimConfig",
    "ParallelConfig",
    "RunConfig",
    "SchedulerConfig",
    "TrainConfig",
    "load_config",
    "parse_config",
]


class ConfigSection(BaseModel):
    """Base of every section: frozen, no unknown keys, no silent conversion between types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=())


DtypeName = Literal["float32", "bfloat16", "float16"]
AxisSize = Annotated[int, Field(ge=-1)]


class MeshConfig(ConfigSection):
    """Ranks along each axis of the mesh; one axis may be -1, "whatever the world size leaves"."""

    replicate: AxisSize = 1
    shard: AxisSize = 1
    tensor: AxisSize = 1

    @model_validator(mode="after")
    def _one_free_axis(self) -> MeshConfig:
        sizes = {name: getattr(self, name) for name in ("replicate", "shard", "tensor")}
        for name, size in sizes.items():
            if size == 0:
                raise ValueError(f"{name} may be -1 or at least 1")
        free = [name for name, size in sizes.items() if size == -1]
        if len(free) > 1:
            raise ValueError(f"only one axis may be -1, not {' and '.join(free)}")
        return self


class MixedPrecisionConfig(ConfigSection):
    """Names of the dtypes of FSDP2's `MixedPrecisionPolicy`; None keeps the parameter's own."""

    param_dtype: DtypeName | None = None
    reduce_dtype: DtypeName | None = None
    output_dtype: DtypeName | None = None
    cast_forward_inputs: bool = True


class FSDP2Config(ConfigSection):
    """What FSDP2 wraps and how; modules are named by class.

    `target_classes` are wrapped beside the model's own `_no_split_modules`.
    `high_precision_modules` become units that compute in float32. `ignore_modules` are never
    wrapped and their (frozen) parameters stay whole on every rank. `reshard_after_forward` is for
    the units; the root keeps FSDP2's default.
    """

    target_classes: tuple[str, ...] = ()
    high_precision_modules: tuple[str, ...] = ()
    ignore_modules: tuple[str, ...] = ()
    mp_policy: MixedPrecisionConfig = MixedPrecisionConfig()
    reshard_after_forward: bool | int | None = None


class BackendKwargs(ConfigSection):
    """Settings of the parallel backends."""

    fsdp2: FSDP2Config = FSDP2Config()


class ParallelConfig(ConfigSection):
    """The mesh, and what runs on it."""

    mesh: MeshConfig = MeshConfig()
    backend_kwargs: BackendKwargs = BackendKwargs()


class OptimConfig(ConfigSection):
    """AdamW; `weight_decay` spares parameters of fewer than two dimensions (norms, biases).

    `grad_clip` is the largest global gradient norm; None does not clip.
    """

    lr: float = Field(default=1e-3, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = Field(default=1e-8, gt=0)
    grad_clip: float | None = Field(default=1.0, gt=0)


class SchedulerConfig(ConfigSection):
    """Linear warm-up over `warmup_steps`, then constant, or a cosine down to `final_fraction`."""

    kind: Literal["constant", "cosine"] = "constant"
    warmup_steps: int = Field(default=0, ge=0)
    final_fraction: float = Field(default=0.0, ge=0, le=1)


class TrainConfig(ConfigSection):
    """The training loop.

    A step is one optimizer step over `accumulation` micro-batches of `batch_size` samples on each
    data-parallel rank. `checkpoint_every` 0 writes none, else also the last step is written.
    `stop_at` ends the run after that step as an interruption would: the schedule still spans
    `steps`. `resume` is true for the newest checkpoint in `output_dir`, or the path of one.
    """

    steps: int = Field(ge=1)
    batch_size: int = Field(ge=1)
    accumulation: int = Field(default=1, ge=1)
    seed: int = Field(default=0, ge=0, lt=2**32)
    log_every: int = Field(default=1, ge=1)
    checkpoint_every: int = Field(default=0, ge=0)
    stop_at: int | None = Field(default=None, ge=1)
    output_dir: str = Field(min_length=1)
    resume: bool | str = False
    deterministic: bool = False


class RunConfig(ConfigSection):
    """The whole configuration of a run; `engine` is a registered name or a dotted path."""

    engine: str = Field(min_length=1)
    parallel: ParallelConfig = ParallelConfig()
    model: Any = None
    optim: OptimConfig = OptimConfig()
    scheduler: SchedulerConfig = SchedulerConfig()
    data: Any = None
    train: TrainConfig


RunConfigT = TypeVar("RunConfigT", bound=RunConfig)


def load_config(
    path: str | Path,
    overrides: Sequence[str] = (),
    schema: type[RunConfigT] = RunConfig,  # type: ignore[assignment]
) -> RunConfigT:
    """The validated configuration in the YAML file `path` with dotted `overrides` applied.

    The value of an override is YAML: `parallel.backend_kwargs.fsdp2.target_classes=[Block]`.
    Raises ConfigError, one sentence with the file and line or the override, the dotted path, what
    was found and what is allowed.
    """
    return parse_config(yaml_source.read(Path(path), tuple(overrides)), schema)


def parse_config(document: Document, schema: type[RunConfigT]) -> RunConfigT:
    """`document` as a `schema`; raises ConfigError as `load_config` does."""
    try:
        # JSON, since strict validation of Python data would refuse a list for a tuple.
        return schema.model_validate_json(json.dumps(document.data, default=str))
    except ValidationError as error:
        raise ConfigError(_sentence(document, schema, error)) from None


def _sentence(document: Document, schema: type[BaseModel], error: ValidationError) -> str:
    """The first problem of `error`, and how many other settings have one."""
    problems: dict[KeyPath, list[dict[str, Any]]] = {}
    for detail in error.errors(include_url=False):
        problems.setdefault(_written_path(document, detail), []).append(dict(detail))
    path, details = next(iter(problems.items()))
    kind = details[0]["type"]
    where = f"{document.place(path)}: {'.'.join(map(str, path)) or 'the top level'}"
    if kind == "extra_forbidden":
        sentence = f"{where}: unknown key, {_allowed_keys(schema, path)}"
    elif kind == "missing":
        sentence = f"{where}: missing, set it in the file or by an override"
    elif kind == "value_error":
        sentence = f"{where}: {details[0]['ctx']['error']}"
    else:
        messages = (detail["msg"].removeprefix("Input should be ") for detail in details)
        allowed = " or ".join(dict.fromkeys(messages)).replace("an object", "a mapping")
        sentence = f"{where}: found {details[0]['input']!r}, allowed: {allowed}"
    others = len(problems) - 1
    return sentence + (f" (and {others} more)" if others else "")


def _written_path(document: Document, detail: dict[str, Any] | Any) -> KeyPath:
    """`loc` without the members of a union, which pydantic appends though nobody wrote them."""
    path: list[str | int] = []
    value: Any = document.data
    for key in detail["loc"]:
        if isinstance(value, dict) and (key in value or detail["type"] == "missing"):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            break
        path.append(key)
    return tuple(path)


def _allowed_keys(schema: type[BaseModel], path: KeyPath) -> str:
    for key in path[:-1]:
        inner = schema.model_fields[str(key)].annotation if key in schema.model_fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return "remove it"
        schema = inner
    names = list(schema.model_fields)
    near = difflib.get_close_matches(str(path[-1]), names, n=1)
    return (f"did you mean {near[0]}? " if near else "") + f"allowed: {', '.join(names)}"
