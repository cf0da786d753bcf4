"""Trains a recipe: `torchrun --nproc-per-node=2 -m mvp_engine.launch --config <yaml> [a.b=c ...]`.

`python -m mvp_engine.launch` runs the same in one process.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist

from mvp_engine import yaml_source
from mvp_engine.config import ConfigError, RunConfig, parse_config
from mvp_engine.distributed.fsdp2 import FSDP2WrapError
from mvp_engine.distributed.mesh import make_mesh
from mvp_engine.distributed.parallelize import ParallelizeError
from mvp_engine.distributed.process_group import process_group, rank
from mvp_engine.distributed.tp import TensorParallelError
from mvp_engine.engine.base import Engine
from mvp_engine.engine.loop import TrainingError, TrainResult, train
from mvp_engine.engine.registry import engine_class, import_recipe_engine

_HEAD_START_S = 3.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Returns 0, 1 for training that cannot go on, or 2 for a configuration, or a model under it,
    that cannot be used; rank 0 then says why in one sentence.
    """
    parser = argparse.ArgumentParser(
        prog="mvp_engine.launch", description="Train a recipe from its YAML configuration."
    )
    parser.add_argument("--config", required=True, type=Path, help="recipes/<r>/configs/<c>.yaml")
    parser.add_argument(
        "overrides", nargs="*", metavar="a.b=value", help="settings to change, values in YAML"
    )
    options = parser.parse_args(arguments)
    try:
        run(options.config, options.overrides)
    except (ConfigError, FSDP2WrapError, ParallelizeError, TensorParallelError) as error:
        _say(error)
        return 2
    except TrainingError as error:
        _say(error)
        return 1
    return 0


def _say(error: Exception) -> None:
    if rank() == 0:
        print(f"error: {error}", file=sys.stderr)
    else:
        # torchrun ends every rank when one exits: let rank 0 speak first.
        time.sleep(_HEAD_START_S)


def resolve(config_path: Path, overrides: Sequence[str]) -> tuple[type[Engine], RunConfig]:
    """The engine that a config names and the config as that engine's schema has it.

    Raises ConfigError.
    """
    document = yaml_source.read(config_path, tuple(overrides))
    import_recipe_engine(config_path)
    name = document.data.get("engine")
    cls: type[Engine] = Engine  # whose schema tells of a name that is missing or mistyped
    if isinstance(name, str) and name:
        try:
            cls = engine_class(name)
        except ConfigError as error:
            raise ConfigError(f"{document.place(('engine',))}: {error}") from error
    return cls, parse_config(document, cls.config_schema)


def run(config_path: Path, overrides: Sequence[str] = ()) -> TrainResult:
    """Trains on this rank from torchrun's environment, or alone; raises ConfigError."""
    cls, config = resolve(config_path, overrides)
    if config.train.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    with process_group() as device:
        mesh = make_mesh(config.parallel.mesh, dist.get_world_size(), device.type)
        return train(cls(config, mesh, device))


if __name__ == "__main__":
    sys.exit(main())
