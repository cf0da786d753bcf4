"""Checkpoints through `torch.distributed.checkpoint`: a run that resumes goes on exactly.

A checkpoint is a folder `<output_dir>/checkpoints/step-00000100`, written beside and renamed when
whole. It may be loaded on another mesh or number of ranks.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from mvp_engine.config import ConfigError, TrainConfig
from mvp_engine.engine.base import Engine


@dataclass(frozen=True)
class Progress:
    """How far training has come: optimizer steps, and samples read by all ranks together."""

    step: int = 0
    samples: int = 0


def find(train: TrainConfig) -> Path | None:
    """The checkpoint that `train.resume` asks for; None starts from the beginning.

    Raises ConfigError for a path that is no checkpoint, and for a new run that would mix its
    checkpoints with those of another.
    """
    if isinstance(train.resume, str):
        path = Path(train.resume)
        if not (path / ".metadata").is_file():
            raise ConfigError(f"train.resume: {path} is not a checkpoint: it has no .metadata")
        return path
    found = sorted(
        path
        for path in (Path(train.output_dir) / "checkpoints").glob("step-*")
        if re.fullmatch(r"step-\d{8}", path.name) and (path / ".metadata").is_file()
    )
    if found and not train.resume:
        raise ConfigError(
            f"train.output_dir: {train.output_dir} holds checkpoints of an earlier run: set "
            f"train.resume=true to go on, or choose another folder"
        )
    return found[-1] if found else None


def save(engine: Engine, progress: Progress) -> Path:
    """Writes a checkpoint; every rank calls this, and returns when it is whole."""
    folder = Path(engine.config.train.output_dir) / "checkpoints"
    path = folder / f"step-{progress.step:08d}"
    partial = folder / f".{path.name}.partial"
    dcp.save(_state(engine, progress), checkpoint_id=partial)
    if dist.get_rank() == 0:
        if path.exists():  # a run that went on from an earlier checkpoint comes by again
            shutil.rmtree(path)
        partial.rename(path)
    dist.barrier()
    return path


def load(engine: Engine, path: Path) -> Progress:
    """Loads `path` into the engine's model, optimizer and scheduler.

    Raises ConfigError when the checkpoint is of another model or optimizer.
    """
    state = _state(engine, Progress())
    try:
        dcp.load(state, checkpoint_id=path)
        set_state_dict(
            engine.model,
            engine.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
    except (dcp.api.CheckpointException, RuntimeError, ValueError, KeyError) as error:
        raise ConfigError(f"train.resume: {path} does not fit this run: {_cause(error)}") from error
    engine.scheduler.load_state_dict(state["scheduler"])
    return Progress(**state["progress"])


def _state(engine: Engine, progress: Progress) -> dict[str, Any]:
    model, optimizer = get_state_dict(engine.model, engine.optimizer)
    return {
        "model": model,
        "optimizer": optimizer,
        "scheduler": engine.scheduler.state_dict(),
        "progress": {"step": progress.step, "samples": progress.samples},
    }


def _cause(error: BaseException) -> str:
    """The first line of what went wrong, on the first rank that says so."""
    if isinstance(error, dcp.api.CheckpointException):
        failure = next(iter(error.failures.values()))
        error = failure[0]
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
