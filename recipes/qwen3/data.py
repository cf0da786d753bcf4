"""Byte-level text that every CPython ships: the help topics of `pydoc`."""

from __future__ import annotations

from pydoc_data.topics import topics

import torch
from torch import Tensor
from torch.utils.data import Dataset


class TextBytes(Dataset[Tensor]):
    """Samples of `sequence_length` bytes, one after the other, as token ids 0 to 255 (int64).

    The rest that fills no sample is left out. Raises ValueError for text shorter than one sample.
    """

    def __init__(self, text: str, sequence_length: int):
        tokens = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).long()
        samples = len(tokens) // sequence_length
        if samples == 0:
            raise ValueError(f"the text has {len(tokens)} bytes, a sample {sequence_length}")
        self.samples = tokens[: samples * sequence_length].view(samples, sequence_length)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Tensor:
        return self.samples[index]


def python_help() -> str:
    """What `help()` says about Python's topics, in the order of their names; half a megabyte."""
    return "\n".join(topics[name] for name in sorted(topics))
