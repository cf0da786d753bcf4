"""The digits that scikit-learn ships: 1,797 handwritten digits of 8 by 8 pixels."""

from __future__ import annotations

from functools import cache

import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.utils.data import TensorDataset

IMAGE_SIZE = 8


def digits_split(held_out: float, seed: int) -> tuple[TensorDataset, TensorDataset]:
    """(image, digit) pairs to train on, and the share `held_out` that is never trained on.

    Images are (1, 8, 8) in float32 and span -1 to 1. `seed` alone decides which sample goes where.
    """
    images, labels = _digits()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    split = round(len(images) * held_out)
    return (
        TensorDataset(images[order[split:]], labels[order[split:]]),
        TensorDataset(images[order[:split]], labels[order[:split]]),
    )


@cache
def _digits() -> tuple[Tensor, Tensor]:
    pixels, labels = load_digits(return_X_y=True)
    images = torch.from_numpy(pixels).float().view(-1, 1, IMAGE_SIZE, IMAGE_SIZE)
    return images / 8 - 1, torch.from_numpy(labels).long()
