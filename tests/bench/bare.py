"""What the probe is measured against: import, build, wrap, one forward and backward, nothing else.

`python -m tests.bench.bare PROBE` runs the first path of a probe file under the fake group.
"""

from __future__ import annotations

import importlib.util
import sys

import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore


def main() -> None:
    spec = importlib.util.spec_from_file_location("bare_probe", sys.argv[1])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    axes = ("replicate", "shard", "tensor")
    mesh = init_device_mesh("cpu", (1, 2, 1), mesh_dim_names=axes)
    with FakeTensorMode(allow_non_fake_inputs=True):
        target = module.build(device_mesh=mesh)
        next(iter(target.paths.values()))().backward()


if __name__ == "__main__":
    main()
