"""What recipe tests are given: the wrapped model, its edges, a smoke run, the probe's target."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.distributed.fsdp import FSDPModule, fully_shard

from mvp_engine.config import MeshConfig
from mvp_engine.distributed import fsdp2_introspection
from mvp_engine.distributed.fsdp2_introspection import UnknownTorchError
from mvp_engine.distributed.mesh import make_mesh
from mvp_engine.testing import (
    RankError,
    load_skill_assertions,
    prefetch_edges,
    probe_target,
    single_rank_wrapped,
    train_smoke,
)
from tests.mvp_engine.toy import Toy, ToyBlock, ToyEngine

CONFIG = Path(__file__).with_name("toy.yaml")


def test_edges_are_the_live_modules_in_list_order():
    with single_rank_wrapped(CONFIG) as wrapped:
        first, second, third = wrapped.model.blocks
        edges = prefetch_edges(wrapped.model)
        assert edges.forward == {first: (second,), second: (third,)}
        assert edges.backward == {second: (first,), third: (second,)}

        first.set_modules_to_forward_prefetch([third, second])
        second.set_modules_to_backward_prefetch([])
        changed = prefetch_edges(wrapped.model)
        assert changed.forward == {first: (third, second), second: (third,)}
        assert changed.forward != {first: (second, third), second: (third,)}
        assert changed.backward == {third: (second,)}


def test_two_wrapped_recipes_have_equal_classes_but_not_equal_edges():
    with single_rank_wrapped(CONFIG) as one:
        forward = prefetch_edges(one.model).forward
    with single_rank_wrapped(CONFIG) as other:
        assert prefetch_edges(other.model).forward != forward


def test_the_wrapped_model_is_the_engines_own_and_its_group_is_removed():
    with single_rank_wrapped(CONFIG, ["model.depth=2"], shard=4) as wrapped:
        assert isinstance(wrapped.engine, ToyEngine)
        assert wrapped.engine.model is wrapped.model
        assert isinstance(wrapped.model, Toy)
        assert isinstance(wrapped.model, FSDPModule)
        assert dist.get_world_size() == 4
        assert wrapped.model.blocks[0].up.weight.to_local().shape == (16, 16)
        with (
            pytest.raises(RuntimeError, match=r"^a process group exists already"),
            single_rank_wrapped(CONFIG),
        ):
            pass
    assert not dist.is_initialized()


def test_the_group_is_removed_after_a_failure_too():
    with pytest.raises(LookupError), single_rank_wrapped(CONFIG):
        raise LookupError
    assert not dist.is_initialized()


def test_a_model_of_any_size_is_wrapped_on_fake_tensors():
    with single_rank_wrapped(CONFIG, ["model.width=8192"], fake_tensors=True) as wrapped:
        assert isinstance(wrapped.model.head.weight.to_local(), FakeTensor)
        assert len(prefetch_edges(wrapped.model).forward) == 2


@pytest.mark.parametrize("fake", [False, True])
def test_the_probe_gets_the_wrapped_model_its_paths_and_the_plain_one(fake):
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        mesh = make_mesh(MeshConfig(shard=2), 2, "cpu")
        for device_mesh in (mesh, mesh["shard"]):
            with FakeTensorMode(allow_non_fake_inputs=True) if fake else torch.enable_grad():
                target = probe_target(CONFIG, device_mesh, ["model.depth=2"])
                assert type(target.model).__name__ == "FSDPToy"
                assert type(target.before_wrap) is Toy
                assert {type(block) for block in target.before_wrap.blocks} == {ToyBlock}
                assert list(target.paths) == ["text"]
                loss = target.paths["text"]()
                loss.backward()
            assert loss.shape == ()
            assert target.model.blocks[1].up.weight.grad is not None
    finally:
        dist.destroy_process_group()


def test_a_grouped_state_counts_as_its_first_module():
    with single_rank_wrapped(CONFIG) as wrapped:
        mesh = wrapped.engine.mesh["shard"]
        pair = [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)]
        fully_shard(pair, mesh=mesh)
        wrapped.model.blocks[0].set_modules_to_forward_prefetch([pair[1]])
        assert fsdp2_introspection.forward_prefetch(wrapped.model.blocks[0]) == (pair[0],)


def test_a_torch_that_keeps_edges_elsewhere_is_told():
    with single_rank_wrapped(CONFIG) as wrapped:
        del wrapped.model.blocks[0]._get_fsdp_state()._states_to_backward_prefetch
        with pytest.raises(
            UnknownTorchError,
            match=r"^torch \S+ keeps FSDP2's state without _states_to_backward_prefetch: ",
        ):
            prefetch_edges(wrapped.model)


def test_a_smoke_run_trains_on_two_sharded_ranks():
    results = train_smoke(CONFIG, ["optim.lr=0.02"], world_size=2, steps=8, timeout_s=90)
    assert len(results) == 2
    assert results[0] == results[1]
    assert results[0].step == len(results[0].losses) == 8
    assert results[0].losses[-1] < results[0].losses[0] - 0.3
    assert results[0].mesh == {"replicate": 1, "shard": 2, "tensor": 1}
    assert results[0].fsdp2_units == ("", "blocks.0", "blocks.1", "blocks.2")


def test_a_smoke_run_that_cannot_start_tells_why():
    with pytest.raises(RankError, match=r"ConfigError: override 'model\.depht=1': model\.depht: "):
        train_smoke(CONFIG, ["model.depht=1"], world_size=1, timeout_s=60)


def test_skill_assertions_are_loaded_by_path(tmp_path):
    folder = tmp_path / "walk" / "tests" / "skills" / "fsdp2-prefetching"
    folder.mkdir(parents=True)
    (folder / "asserts.py").write_text("def expected(): return 'edges'\n")
    assert load_skill_assertions(tmp_path / "walk").expected() == "edges"
    with pytest.raises(
        FileNotFoundError, match=r"asserts\.py: the recipe has no skill assertions$"
    ):
        load_skill_assertions(tmp_path / "run")
