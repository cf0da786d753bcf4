import os
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(scope="package", autouse=True)
def cpu_only() -> Iterator[None]:
    """These tests are about ranks on the CPU, also on a machine with GPUs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "CUDA_VISIBLE_DEVICES", "")
        patch.setattr(torch.cuda, "is_available", lambda: False)
        yield
