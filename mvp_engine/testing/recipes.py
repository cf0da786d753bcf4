"""A recipe as its tests see it: trained in ranks, or wrapped in this process."""

from __future__ import annotations

import importlib.util
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh

from mvp_engine.distributed.mesh import make_mesh
from mvp_engine.engine.base import Engine, StepOutput
from mvp_engine.engine.loop import TrainResult, to_device
from mvp_engine.launch import resolve, run
from mvp_engine.testing.ranks import run_ranks


def train_smoke(
    config_path: str | Path,
    overrides: Sequence[str] = (),
    *,
    world_size: int | None = None,
    steps: int = 10,
    timeout_s: float = 120.0,
) -> list[TrainResult]:
    """Trains a recipe for `steps` real steps as `mvp_engine.launch` does; a result for each rank.

    `world_size` None takes all GPUs where there are two or more, else 2 gloo ranks on the CPU.
    The shard axis takes all ranks unless `overrides` say otherwise, and the output goes to a
    temporary folder unless they name one. Raises RankError as `run_ranks` does.
    """
    if world_size is None:
        gpus = torch.cuda.device_count()
        world_size = gpus if gpus >= 2 else 2
    with tempfile.TemporaryDirectory(prefix="smoke-") as folder:
        settings = (
            "parallel.mesh={replicate: 1, shard: -1, tensor: 1}",
            f"train.steps={steps}",
            "train.log_every=1",
            f"train.output_dir={folder}",
            *overrides,
        )
        path = str(Path(config_path).resolve())
        return run_ranks(_train, world_size, path, settings, timeout_s=timeout_s)


def _train(config_path: str, overrides: tuple[str, ...]) -> TrainResult:
    return run(Path(config_path), overrides)


def load_skill_assertions(recipe_dir: str | Path) -> ModuleType:
    """The recipe's `tests/skills/fsdp2-prefetching/asserts.py`, loaded by path.

    Its folder's name has a hyphen, so it cannot be imported. Raises FileNotFoundError.
    """
    path = Path(recipe_dir).resolve() / "tests" / "skills" / "fsdp2-prefetching" / "asserts.py"
    if not path.is_file():
        raise FileNotFoundError(f"{path}: the recipe has no skill assertions")
    name = f"{Path(recipe_dir).resolve().name}_fsdp2_prefetching_asserts"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class WrappedRecipe:
    """A recipe's engine and its model as `prepare_model()` returned it."""

    engine: Engine
    model: nn.Module


@contextmanager
def single_rank_wrapped(
    config_path: str | Path,
    overrides: Sequence[str] = (),
    *,
    shard: int = 2,
    fake_tensors: bool = False,
) -> Iterator[WrappedRecipe]:
    """The recipe's real wrapped model, as rank 0 of `shard` pretended ranks on the CPU.

    The fake process group sends nothing, so structure, units and edges are real while gathered
    values are not: do not train on it. With `fake_tensors` the model is built under FakeTensorMode
    and takes no memory, at full size too. Raises RuntimeError when a process group exists already;
    removes its own at the end of the block.
    """
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if dist.is_initialized():
        raise RuntimeError("a process group exists already; single_rank_wrapped needs its own")
    cls, config = resolve(
        Path(config_path),
        [f"parallel.mesh={{replicate: 1, shard: {shard}, tensor: 1}}", *overrides],
    )
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=shard)
    try:
        # Outside fake mode: the constructor of a mesh reads values.
        mesh = make_mesh(config.parallel.mesh, shard, "cpu")
        mode = FakeTensorMode(allow_non_fake_inputs=True) if fake_tensors else nullcontext()
        with mode:
            engine = cls(config, mesh, torch.device("cpu"))
            torch.manual_seed(config.train.seed)
            engine.model = engine.prepare_model()
            yield WrappedRecipe(engine, engine.model)
    finally:
        dist.destroy_process_group()


@dataclass(frozen=True)
class ProbeTarget:
    """What a recipe hands to the probe.

    `model` is wrapped as training has it, `before_wrap` the same model unwrapped. Each function of
    `paths` runs one forward of a training path, by its name, and returns the loss. `mixed_paths`
    are groups of paths that ranks may run in one step, None when that was not declared.
    """

    model: nn.Module
    paths: Mapping[str, Callable[[], Tensor]]
    before_wrap: nn.Module
    mixed_paths: Sequence[Sequence[str]] | None = None


def configured_mesh(config_path: str | Path, ranks: int = 2) -> dict[str, int]:
    """The mesh axes of a config by name, for the probe to reckon bytes with.

    An axis of -1 takes what the others leave of `ranks`. Raises ConfigError as the config does.
    """
    _, config = resolve(Path(config_path), ())
    mesh = config.parallel.mesh
    sizes = {"replicate": mesh.replicate, "shard": mesh.shard, "tensor": mesh.tensor}
    fixed = math.prod(size for size in sizes.values() if size > 0)
    return {name: size if size > 0 else max(1, ranks // fixed) for name, size in sizes.items()}


def probe_target(
    config_path: str | Path,
    device_mesh: DeviceMesh,
    overrides: Sequence[str] = (),
    *,
    mixed_paths: Sequence[Sequence[str]] | None = None,
) -> ProbeTarget:
    """Builds the recipe's model twice, wrapped on `device_mesh` and plain.

    `mixed_paths` are the groups of paths that ranks may run in one step; `[]` when all ranks
    always run the same one.

    Works on fake tensors when called under FakeTensorMode; `device_mesh` is made outside of it.
    """
    cls, config = resolve(Path(config_path), overrides)
    device = torch.device(device_mesh.device_type)
    engine = cls(config, device_mesh, device)
    torch.manual_seed(config.train.seed)
    engine.model = engine.prepare_model()
    batches = engine.example_batches()
    return ProbeTarget(
        model=engine.model,
        paths={
            name: partial(_loss, engine, to_device(batch, device))
            for name, batch in batches.items()
        },
        before_wrap=cls(config, None, device).prepare_model(),
        mixed_paths=mixed_paths,
    )


def _loss(engine: Engine, batch: object) -> Tensor:
    output = engine.forward_step(batch)
    return output.loss if isinstance(output, StepOutput) else output
