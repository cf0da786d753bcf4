"""In which order a rank reads its samples, so that a resumed run reads on where it stopped."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.utils.data import Sampler


class SampleOrder(Sampler[list[int]]):
    """Endless batches of indices into `length` samples for one of `ranks`.

    Each epoch is a permutation that `seed` and the epoch's number fix. Consecutive batches go to
    ranks in turn, so `rank` r reads batches r, r + ranks, r + 2 ranks, ... of that one sequence,
    and samples run on from one epoch into the next. Raises ValueError for an empty dataset.
    """

    def __init__(self, length: int, batch_size: int, seed: int, rank: int, ranks: int):
        if length < 1:
            raise ValueError("the dataset is empty")
        self.length = length
        self.batch_size = batch_size
        self.seed = seed
        self.rank = rank
        self.ranks = ranks
        self.start = 0

    def seek(self, samples: int) -> None:
        """Goes on as if all ranks together had read `samples` samples."""
        self.start = samples

    def __iter__(self) -> Iterator[list[int]]:
        position = self.start + self.rank * self.batch_size
        epoch, order = -1, torch.empty(0, dtype=torch.long)
        while True:
            batch = []
            for sample in range(position, position + self.batch_size):
                if sample // self.length != epoch:
                    epoch = sample // self.length
                    generator = torch.Generator().manual_seed(self.seed + epoch)
                    order = torch.randperm(self.length, generator=generator)
                batch.append(int(order[sample % self.length]))
            yield batch
            position += self.ranks * self.batch_size
