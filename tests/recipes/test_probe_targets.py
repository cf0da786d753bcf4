"""Each recipe's `probe.py`: the full-size model on fake tensors, every training path."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.fsdp import FSDPModule
from torch.testing._internal.distributed.fake_pg import FakeStore

from mvp_engine.config import MeshConfig
from mvp_engine.distributed.mesh import make_mesh
from recipes.qwen3.model import Qwen3ForTraining
from recipes.vit_classification.model import VisionTransformer

RECIPES = Path(__file__).parents[2] / "recipes"
RANKS = 8


@pytest.fixture
def fake_ranks():
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("fake_ranks")
@pytest.mark.parametrize(
    ("recipe", "top_class", "paths", "units"),
    [
        ("vit_classification", VisionTransformer, ["images"], 5),
        ("qwen3", Qwen3ForTraining, ["text"], 37),
    ],
)
def test_probe_runs_every_training_path_forward_and_backward(
    recipe: str, top_class: type[nn.Module], paths: list[str], units: int
) -> None:
    mesh = make_mesh(MeshConfig(shard=RANKS), RANKS, "cpu")
    with FakeTensorMode(allow_non_fake_inputs=True):
        target = probe_module(recipe).build(device_mesh=mesh)
        assert isinstance(target.model, top_class) and type(target.before_wrap) is top_class
        wrapped = [m for m in target.model.modules() if isinstance(m, FSDPModule)]
        assert len(wrapped) == units
        assert not any(isinstance(m, FSDPModule) for m in target.before_wrap.modules())
        assert list(target.paths) == paths
        for run_path in target.paths.values():
            loss = run_path()
            assert loss.shape == ()
            loss.backward()
        without = [name for name, p in target.model.named_parameters() if p.grad is None]
        assert without == []


@pytest.mark.usefixtures("fake_ranks")
def test_probe_takes_overrides() -> None:
    mesh = make_mesh(MeshConfig(shard=RANKS), RANKS, "cpu")
    with FakeTensorMode(allow_non_fake_inputs=True):
        target = probe_module("qwen3").build(
            device_mesh=mesh, overrides=["model.num_hidden_layers=2"]
        )
        assert len(target.model.model.layers) == len(target.before_wrap.model.layers) == 2


def probe_module(recipe: str) -> ModuleType:
    path = RECIPES / recipe / "tests" / "skills" / "fsdp2-prefetching" / "probe.py"
    spec = importlib.util.spec_from_file_location(f"{recipe}_probe", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
