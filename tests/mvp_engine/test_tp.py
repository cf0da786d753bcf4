"""Plans under the fake process group; gradients are compared in test_parallel_training.py."""

import re

import pytest
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel

from mvp_engine.distributed.tp import TensorParallelError, apply_tensor_parallel
from tests.mvp_engine.toy import Toy


@pytest.fixture(scope="module")
def mesh():
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield init_device_mesh("cpu", (2,), mesh_dim_names=("tensor",))
    dist.destroy_process_group()


def toy(plan, *, tied=False, postprocessors=()):
    class Planned(Toy):
        TP_MODULE_CONFIG = plan
        TP_MODULE_POSTPROCESSORS = postprocessors

    return Planned(depth=2, tied=tied)


def test_names_styles_and_factories_are_applied_and_postprocessors_run_after(mesh):
    calls = []

    def postprocess(model, tensor_mesh):
        calls.append((model, tensor_mesh, isinstance(model.blocks[1].up.weight, DTensor)))

    model = toy(
        {"blocks.*.up": ColwiseParallel, "blocks.*.down": "rowwise", "head": ColwiseParallel()},
        postprocessors=[postprocess],
    )
    apply_tensor_parallel(model, mesh)
    sharded = {name for name, p in model.named_parameters() if isinstance(p, DTensor)}
    assert sharded == {
        "blocks.0.up.weight", "blocks.0.up.bias", "blocks.0.down.weight", "blocks.0.down.bias",
        "blocks.1.up.weight", "blocks.1.up.bias", "blocks.1.down.weight", "blocks.1.down.bias",
        "head.weight",
    }  # fmt: skip
    assert model.head.weight.to_local().shape == (16, 16)
    assert calls == [(model, mesh, True)]


def test_tied_parameters_stay_tied(mesh):
    model = toy({"embed": "rowwise_replicated", "head": "colwise_gathered"}, tied=True)
    apply_tensor_parallel(model, mesh)
    assert model.head.weight is model.embed.weight
    assert model.embed.weight.to_local().shape == (16, 16)


@pytest.mark.parametrize(
    ("plan", "tied", "message"),
    [
        (None, False, "parallel.mesh.tensor is 2, but Planned has no TP_MODULE_CONFIG"),
        (
            {"blocks.*.gate": "colwise"},
            False,
            "Planned.TP_MODULE_CONFIG: the pattern 'blocks.*.gate' matches no module",
        ),
        (
            {"blocks.*.up": "colwise", "blocks.0.*": "rowwise"},
            False,
            "Planned.TP_MODULE_CONFIG: blocks.0.up is matched by both 'blocks.*.up' and "
            "'blocks.0.*'",
        ),
        (
            {"head": "columns"},
            False,
            "Planned.TP_MODULE_CONFIG['head'] is 'columns', allowed: colwise, colwise_gathered, "
            "rowwise, rowwise_replicated, a ParallelStyle or a callable that makes one",
        ),
        (
            {"head": "colwise_gathered"},
            True,
            "embed.weight and head.weight are one tied parameter, but TP_MODULE_CONFIG shards "
            "them differently: give both modules styles that shard the same dimension",
        ),
    ],
)
def test_a_plan_that_does_not_fit_is_told(mesh, plan, tied, message):
    with pytest.raises(TensorParallelError, match=f"^{re.escape(message)}$"):
        apply_tensor_parallel(toy(plan, tied=tied), mesh)
