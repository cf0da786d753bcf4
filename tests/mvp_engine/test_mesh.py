import re

import pytest

from mvp_engine.config import ConfigError, MeshConfig
from mvp_engine.distributed.mesh import axis_sizes


@pytest.mark.parametrize(
    ("mesh", "world_size", "sizes"),
    [
        ({}, 1, (1, 1, 1)),
        ({"shard": -1}, 8, (1, 8, 1)),
        ({"replicate": -1, "shard": 2, "tensor": 2}, 8, (2, 2, 2)),
        ({"shard": -1, "tensor": 4}, 4, (1, 1, 4)),
        ({"replicate": 2, "shard": 4}, 8, (2, 4, 1)),
    ],
)
def test_axes_multiply_to_the_world_size(mesh, world_size, sizes):
    assert axis_sizes(MeshConfig(**mesh), world_size) == dict(
        zip(("replicate", "shard", "tensor"), sizes, strict=True)
    )


@pytest.mark.parametrize(
    ("mesh", "written"),
    [
        ({"shard": 4}, "replicate 1 x shard 4 x tensor 1"),
        ({"shard": -1, "tensor": 4}, "replicate 1 x shard -1 x tensor 4"),
        ({}, "replicate 1 x shard 1 x tensor 1"),
        ({"replicate": 3}, "replicate 3 x shard 1 x tensor 1"),
    ],
)
def test_a_mesh_that_does_not_fit_is_told(mesh, written):
    message = (
        f"parallel.mesh: {written} does not fit the world size 2: the axes must multiply to it"
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        axis_sizes(MeshConfig(**mesh), 2)
