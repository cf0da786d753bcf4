"""The device mesh: axes `replicate`, `shard` and `tensor`, outermost first."""

from __future__ import annotations

from math import prod

from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from mvp_engine.config import ConfigError, MeshConfig

AXES = ("replicate", "shard", "tensor")


def axis_sizes(config: MeshConfig, world_size: int) -> dict[str, int]:
    """The size of each axis for `world_size` ranks, -1 resolved.

    Raises ConfigError when the axes do not multiply to the world size.
    """
    sizes = {axis: getattr(config, axis) for axis in AXES}
    written = " x ".join(f"{axis} {size}" for axis, size in sizes.items())
    fixed = prod(size for size in sizes.values() if size != -1)
    if world_size % fixed == 0:
        sizes = {axis: world_size // fixed if size == -1 else size for axis, size in sizes.items()}
    if -1 in sizes.values() or prod(sizes.values()) != world_size:
        raise ConfigError(
            f"parallel.mesh: {written} does not fit the world size {world_size}: the axes must "
            f"multiply to it"
        )
    return sizes


def make_mesh(config: MeshConfig, world_size: int, device_type: str) -> DeviceMesh:
    """The mesh (replicate, shard, tensor) over all ranks; every axis is there, also of size 1.

    `device_type` is "cuda" or "cpu". Needs the default process group. Raises ConfigError as
    `axis_sizes` does.
    """
    sizes = axis_sizes(config, world_size)
    return init_device_mesh(device_type, tuple(sizes.values()), mesh_dim_names=AXES)


def axis_size(mesh: DeviceMesh | None, axis: str) -> int:
    """The size of `axis`; 1 for an axis that `mesh` does not have, and without a mesh."""
    if mesh is None or axis not in (mesh.mesh_dim_names or ()):
        return 1
    return mesh[axis].size()


def axis_rank(mesh: DeviceMesh | None, axis: str) -> int:
    """This process's coordinate along `axis`; 0 where `axis_size` is 1."""
    return mesh[axis].get_local_rank() if mesh is not None and axis_size(mesh, axis) > 1 else 0
