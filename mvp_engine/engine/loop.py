"""The training loop, as every rank runs it."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from mvp_engine.config import ConfigError
from mvp_engine.distributed.fsdp2 import fsdp2_units
from mvp_engine.distributed.gradients import clip_gradients, gradient_sync
from mvp_engine.distributed.mesh import AXES, axis_size
from mvp_engine.engine import checkpoint
from mvp_engine.engine.base import Engine, StepOutput
from mvp_engine.engine.checkpoint import Progress
from mvp_engine.engine.metrics import MetricsLog


class TrainingError(Exception):
    """Training that cannot go on; the message is one sentence."""


@dataclass(frozen=True)
class TrainResult:
    """What a run did on this rank.

    `start` and `step` are the optimizer steps done before and after it. `losses` and `grad_norms`
    are those of the logged steps, the loss averaged over ranks. `fsdp2_units` are the paths of the
    wrapped modules (root ""; empty when FSDP2 is not active) and `mesh` the size of each axis.
    """

    start: int
    step: int
    losses: tuple[float, ...]
    grad_norms: tuple[float, ...]
    fsdp2_units: tuple[str, ...]
    mesh: Mapping[str, int]


def train(engine: Engine) -> TrainResult:
    """Sets the engine up, resumes if asked, and trains to `train.steps` (or `train.stop_at`).

    Needs the default process group. Raises ConfigError for settings that cannot be used, and
    TrainingError when the loss or the gradients stop being finite.
    """
    config = engine.config.train
    folder = _output_folder(config.output_dir)
    found = checkpoint.find(config)
    engine.setup()
    start = checkpoint.load(engine, found) if found else Progress()
    last = min(config.steps, config.stop_at or config.steps)
    samples_per_step = config.batch_size * config.accumulation * engine.data_ranks
    if dist.get_rank() == 0:
        text = engine.config.model_dump_json(indent=2)
        (folder / "config.json").write_text(text + "\n", encoding="utf-8")

    engine.model.train()
    batches = _batches(engine, start.samples)
    progress = start
    logged: list[dict[str, float]] = []
    since, since_step = time.perf_counter(), start.step
    with MetricsLog(folder, dist.get_rank(), start.step, last) as log:
        for step in range(start.step + 1, last + 1):
            output, grad_norm, rate = _optimizer_step(engine, batches, step)
            progress = Progress(step, progress.samples + samples_per_step)
            if step % config.log_every == 0 or step == last:
                values = _average_over_ranks(output) | {"lr": rate, "grad_norm": grad_norm.item()}
                now = time.perf_counter()
                seconds = now - since
                values["samples_per_s"] = samples_per_step * (step - since_step) / seconds
                since, since_step = now, step
                _require_finite(step, values)
                logged.append(values)
                log.record(step, values)
            if config.checkpoint_every and (step % config.checkpoint_every == 0 or step == last):
                checkpoint.save(engine, progress)
            log.advance()
    return TrainResult(
        start=start.step,
        step=progress.step,
        losses=tuple(values["loss"] for values in logged),
        grad_norms=tuple(values["grad_norm"] for values in logged),
        fsdp2_units=tuple(path for path, _ in fsdp2_units(engine.model)),
        mesh={axis: axis_size(engine.mesh, axis) for axis in AXES},
    )


def _optimizer_step(
    engine: Engine, batches: Iterator[Any], step: int
) -> tuple[dict[str, Tensor], Tensor, float]:
    """One step over all micro-batches: means of loss and metrics, gradient norm, learning rate."""
    config = engine.config
    # Random numbers of a step depend on nothing before it, so a resumed run draws the same.
    torch.manual_seed(_seed(config.train.seed, step, engine.data_rank))
    count = config.train.accumulation
    means: dict[str, Tensor] = {}
    for micro in range(count):
        batch = to_device(next(batches), engine.device)
        with gradient_sync(engine.model, last=micro == count - 1):
            output = engine.forward_step(batch)
            if not isinstance(output, StepOutput):
                output = StepOutput(output)
            (output.loss / count).backward()
        for name, value in {**output.metrics, "loss": output.loss}.items():
            value = torch.as_tensor(value, device=engine.device).detach().float() / count
            means[name] = means[name] + value if name in means else value
    grad_norm = clip_gradients(engine.model.parameters(), config.optim.grad_clip)
    rate = float(engine.optimizer.param_groups[0]["lr"])
    engine.optimizer.step()
    engine.optimizer.zero_grad()
    engine.scheduler.step()
    return means, grad_norm, rate


def _seed(*parts: int) -> int:
    """A seed for `parts`, without pattern between neighbours; the same in every process."""
    return random.Random(repr(parts)).getrandbits(63)


def _batches(engine: Engine, samples: int) -> Iterator[Any]:
    """This rank's batches without end, from where all ranks had read `samples` samples."""
    loader: Any = engine.dataloader
    order: Any = getattr(loader, "batch_sampler", None)
    skip = 0
    if hasattr(order, "seek"):
        order.seek(samples)
    else:
        skip = samples // (engine.config.train.batch_size * engine.data_ranks)
    epoch = 0
    while True:
        if hasattr(getattr(loader, "sampler", None), "set_epoch"):
            loader.sampler.set_epoch(epoch)
        # A step's random numbers must not depend on whether its run was resumed: an iterator draws
        # a seed of its own when it is made, and batches that are read again may draw some.
        with torch.random.fork_rng(devices=[]):
            iterator = iter(loader)
            skipped = sum(1 for _ in islice(iterator, skip))
        skip -= skipped
        empty = skipped == 0
        for batch in iterator:
            empty = False
            yield batch
        if empty:
            raise TrainingError("prepare_dataloader() gave no batch")
        epoch += 1


def to_device(batch: Any, device: torch.device) -> Any:
    """`batch` with every tensor in it, in dicts, lists and tuples, on `device`."""
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, dict):
        return {key: to_device(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(to_device(value, device) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(to_device(value, device) for value in batch)
    return batch


def _average_over_ranks(values: dict[str, Tensor]) -> dict[str, float]:
    """Mean of each value over all ranks, loss first; ranks must have the same names."""
    names = ["loss", *sorted(values.keys() - {"loss"})]
    stacked = torch.stack([values[name] for name in names])
    dist.all_reduce(stacked)
    return dict(zip(names, (stacked / dist.get_world_size()).tolist(), strict=True))


def _require_finite(step: int, values: Mapping[str, float]) -> None:
    for name in ("loss", "grad_norm"):
        if not math.isfinite(values[name]):
            raise TrainingError(f"step {step}: the {name} is {values[name]}, training stops")


def _output_folder(name: str) -> Path:
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"train.output_dir: {name} cannot be made: {error.strerror}") from None
    return folder
