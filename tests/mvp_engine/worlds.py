"""What the spawned ranks of test_parallel_training.py do: one function a world, each run once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from mvp_engine.config import BackendKwargs, MeshConfig
from mvp_engine.distributed.gradients import clip_gradients, gradient_sync
from mvp_engine.distributed.mesh import axis_rank, axis_size, make_mesh
from mvp_engine.distributed.parallelize import parallelize_model
from mvp_engine.engine.loop import TrainResult
from mvp_engine.launch import run
from tests.mvp_engine.toy import Toy, counting_tokens, next_token_loss

SAMPLES = 8
MAX_NORM = 0.25


def two_ranks(config: str, folder: str) -> dict[str, Any]:
    return {
        "fsdp2": step(MeshConfig(shard=2)),
        "fsdp2 tied": step(MeshConfig(shard=2), tied=True),
        "fsdp2 at once": step(MeshConfig(shard=2), micro_batches=1),
        "ddp": step(MeshConfig(replicate=2)),
        "tp": step(MeshConfig(tensor=2)),
        "whole": train(config, folder, "whole"),
        "stopped": train(config, folder, "stopped", "train.stop_at=3"),
        "resumed": train(config, folder, "stopped", "train.resume=true"),
        "ddp from fsdp2": train(
            config,
            folder,
            "ddp",
            f"train.resume={folder}/whole/checkpoints/step-00000003",
            "parallel.mesh={replicate: 2, shard: 1}",
        ),
    }


def four_ranks(config: str, folder: str) -> dict[str, Any]:
    mesh = "parallel.mesh={shard: 2, tensor: 2}"
    return {
        "tp and fsdp2": step(MeshConfig(shard=2, tensor=2)),
        "tp and fsdp2 tied": step(MeshConfig(shard=2, tensor=2), tied=True),
        "hsdp": step(MeshConfig(replicate=2, shard=2)),
        "tp and replicas": step(MeshConfig(replicate=2, tensor=2)),
        "whole": train(config, folder, "tp-whole", mesh),
        "stopped": train(config, folder, "tp-stopped", mesh, "train.stop_at=3"),
        "resumed": train(config, folder, "tp-stopped", mesh, "train.resume=true"),
    }


def step(config: MeshConfig, *, tied: bool = False, micro_batches: int = 2) -> dict[str, Any]:
    """Gradients of one step, accumulated and clipped, whole again on every rank."""
    mesh = make_mesh(config, dist.get_world_size(), "cpu")
    torch.manual_seed(0)
    model = parallelize_model(Toy(tied=tied), mesh, BackendKwargs())
    ranks = axis_size(mesh, "replicate") * axis_size(mesh, "shard")
    rank = axis_rank(mesh, "replicate") * axis_size(mesh, "shard") + axis_rank(mesh, "shard")
    mine = counting_tokens(SAMPLES).chunk(ranks)[rank]
    for micro, tokens in enumerate(mine.chunk(micro_batches)):
        with gradient_sync(model, last=micro == micro_batches - 1):
            (next_token_loss(model, tokens) / micro_batches).backward()
        if micro == 0:
            early = [p.grad.clone() for p in model.parameters() if type(p.grad) is Tensor]
            reduced_early = [p for p in model.parameters() if isinstance(p.grad, DTensor)]
    measured = clip_gradients(model.parameters(), None)
    before = whole_gradients(model)
    norm = clip_gradients(model.parameters(), MAX_NORM)
    return {
        "class": type(model).__name__,
        "count": len(list(model.parameters())),
        "parameters": {type(p).__name__ for p in model.parameters()},
        "early": early,
        "reduced_early": len(reduced_early),
        "measured": measured,
        "norm": norm,
        "before": before,
        "after": whole_gradients(model),
    }


def whole_gradients(model: nn.Module) -> dict[str, Tensor]:
    gradients = {}
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        assert gradient is not None, name
        if isinstance(gradient, DTensor):
            gradient = gradient.full_tensor()
        gradients[name.removeprefix("module.")] = gradient.clone()
    return gradients


def train(config: str, folder: str, name: str, *overrides: str) -> TrainResult:
    return run(Path(config), [f"train.output_dir={folder}/{name}", *overrides])
