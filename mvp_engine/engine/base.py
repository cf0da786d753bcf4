"""What a recipe implements: an engine that builds its model, its data and its loss."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from torch.utils.data import DataLoader, Dataset

from mvp_engine.config import RunConfig, SchedulerConfig
from mvp_engine.distributed.mesh import axis_rank, axis_size
from mvp_engine.engine.data import SampleOrder


@dataclass(frozen=True)
class StepOutput:
    """A forward's loss (scalar, with graph) and further scalars to log, by name."""

    loss: Tensor
    metrics: Mapping[str, Tensor | float] = field(default_factory=dict)


class Engine(ABC):
    """One recipe's training, on one rank.

    A subclass names its configuration in `config_schema` and implements `prepare_model`,
    `prepare_dataloader`, `forward_step` and `example_batches`. `mesh` has the axes of
    `mvp_engine.distributed.mesh`, or is None to build without any parallelism. The training loop
    calls `setup`, which seeds and then fills `model`, `optimizer`, `scheduler` and `dataloader`.
    """

    config_schema: ClassVar[type[RunConfig]] = RunConfig

    model: nn.Module
    optimizer: Optimizer
    scheduler: LRScheduler
    dataloader: Iterable[Any]

    def __init__(self, config: RunConfig, mesh: DeviceMesh | None, device: torch.device):
        self.config: Any = config  # a subclass's own schema
        self.mesh = mesh
        self.device = device

    @abstractmethod
    def prepare_model(self) -> nn.Module:
        """Builds the model and returns `parallelize_model(model, mesh, backend_kwargs)` of it.

        Must not read a tensor's values, so that it also runs on fake tensors.
        """

    @abstractmethod
    def prepare_dataloader(self) -> Iterable[Any]:
        """Batches of this rank: `self.data_loader(dataset)`, or any iterable of batches.

        An iterable that ends is begun anew, after `sampler.set_epoch(epoch)` where it has that.
        """

    @abstractmethod
    def forward_step(self, batch: Any) -> Tensor | StepOutput:
        """The loss of `batch`, a scalar: the mean over its samples, by `self.model`.

        `batch` is on `self.device`. Micro-batches and ranks weigh the same in a step.
        """

    @abstractmethod
    def example_batches(self) -> dict[str, Any]:
        """One small batch for each path that training takes through the model, by its name."""

    def prepare_optimizer(self) -> Optimizer:
        """AdamW over the trainable parameters as `optim` says."""
        optim = self.config.optim
        trainable = [p for p in self.model.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in trainable if p.ndim >= 2], "weight_decay": optim.weight_decay},
            {"params": [p for p in trainable if p.ndim < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(
            [group for group in groups if group["params"]],
            lr=optim.lr,
            betas=optim.betas,
            eps=optim.eps,
        )

    def prepare_scheduler(self) -> LRScheduler:
        """The learning rate as `scheduler` says, over `train.steps`."""
        factor = partial(lr_factor, config=self.config.scheduler, steps=self.config.train.steps)
        return LambdaLR(self.optimizer, factor)

    def setup(self) -> None:
        """Fills `model`, `optimizer`, `scheduler` and `dataloader`.

        Every rank seeds alike, so that all build the same parameters.
        """
        torch.manual_seed(self.config.train.seed)
        self.model = self.prepare_model()
        self.optimizer = self.prepare_optimizer()
        self.scheduler = self.prepare_scheduler()
        self.dataloader = self.prepare_dataloader()

    @property
    def data_ranks(self) -> int:
        """How many ranks see different data: replicas times shards."""
        return axis_size(self.mesh, "replicate") * axis_size(self.mesh, "shard")

    @property
    def data_rank(self) -> int:
        """Which of `data_ranks` this is; ranks of one tensor-parallel group share it."""
        shards = axis_size(self.mesh, "shard")
        return axis_rank(self.mesh, "replicate") * shards + axis_rank(self.mesh, "shard")

    def data_loader(
        self, dataset: Dataset[Any], collate_fn: Callable[[list[Any]], Any] | None = None
    ) -> DataLoader[Any]:
        """Endless batches of this rank's part of `dataset`, shuffled anew in each epoch.

        The order depends on `train.seed` alone, and a resumed run goes on where it stopped.
        """
        train = self.config.train
        order = SampleOrder(
            len(dataset),  # type: ignore[arg-type]
            batch_size=train.batch_size,
            seed=train.seed,
            rank=self.data_rank,
            ranks=self.data_ranks,
        )
        return DataLoader(dataset, batch_sampler=order, collate_fn=collate_fn)


def lr_factor(step: int, config: SchedulerConfig, steps: int) -> float:
    """The share of the peak learning rate for optimizer step `step`, counted from 0."""
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    if config.kind == "constant":
        return 1.0
    progress = (step - config.warmup_steps) / max(1, steps - config.warmup_steps)
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return config.final_fraction + (1 - config.final_fraction) * cosine
