"""Wrapping under the fake process group: real units and errors, nothing is sent."""

import re

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule

from mvp_engine.config import BackendKwargs, FSDP2Config, MeshConfig, MixedPrecisionConfig
from mvp_engine.distributed import fsdp2
from mvp_engine.distributed.fsdp2 import FSDP2WrapError, apply_fsdp2, fsdp2_units
from mvp_engine.distributed.mesh import make_mesh
from mvp_engine.distributed.parallelize import ParallelizeError, parallelize_model
from tests.mvp_engine.toy import Toy, ToyBlock


class Gate(nn.Linear):
    pass


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate(4, 4)
        self.proj = nn.Linear(4, 4)
        self.seen = {}

    def forward(self, x):
        gate = self.gate(x)
        self.seen = {"input": x.dtype, "gate": gate.dtype, "proj": self.proj.weight.dtype}
        return self.proj(x) * gate


class Model(nn.Module):
    def __init__(self, frozen=True):
        super().__init__()
        self.tower = nn.Sequential(Expert())
        if frozen:
            self.tower.requires_grad_(False)
        self.experts = nn.ModuleList([Expert(), Expert()])
        self.head = nn.Linear(4, 4)

    def forward(self, x):
        x = self.tower(x)
        for expert in self.experts:
            x = expert(x)
        return self.head(x)


@pytest.fixture(scope="module")
def mesh():
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    yield make_mesh(MeshConfig(shard=8), 8, "cpu")
    dist.destroy_process_group()


def wrap(model, mesh, **config):
    return apply_fsdp2(model, mesh["shard"], FSDP2Config(**config))


def paths(model):
    return [path for path, _ in fsdp2_units(model)]


def test_units_are_the_named_classes_and_the_root(mesh):
    model = wrap(Model(), mesh, target_classes=("Expert",))
    assert paths(model) == ["", "tower.0", "experts.0", "experts.1"]
    assert type(model).__name__ == "FSDPModel"


def test_no_split_modules_and_target_classes_are_both_wrapped(mesh):
    model = wrap(Toy(depth=2), mesh, target_classes=("Embedding",))
    assert paths(model) == ["", "embed", "blocks.0", "blocks.1"]


def test_children_are_wrapped_before_parents_and_the_root_last(mesh, monkeypatch):
    model, order = Model(), []
    names = {module: path for path, module in model.named_modules()}
    shard = fsdp2.fully_shard

    def fully_shard(module, **arguments):
        order.append(names[module])
        return shard(module, **arguments)

    monkeypatch.setattr(fsdp2, "fully_shard", fully_shard)
    wrap(model, mesh, target_classes=("Expert",), high_precision_modules=("Gate",))
    assert order == [
        "tower.0.gate", "tower.0", "experts.0.gate", "experts.0", "experts.1.gate", "experts.1", "",
    ]  # fmt: skip


def test_a_module_shared_by_two_parents_is_wrapped_before_both(mesh):
    class Holder(nn.Module):
        def __init__(self, shared):
            super().__init__()
            self.shared = shared
            self.own = nn.Linear(4, 4)

        def forward(self, x):
            return self.own(self.shared(x))

    gate = Gate(4, 4)
    model = nn.Sequential(Holder(gate), Holder(gate))
    wrap(model, mesh, target_classes=("Holder", "Gate"))
    assert paths(model) == ["", "0", "0.shared", "1"]


def test_high_precision_units_compute_in_float32_among_bfloat16(mesh):
    model = wrap(
        Model(),
        mesh,
        target_classes=("Expert",),
        high_precision_modules=("Gate",),
        mp_policy=MixedPrecisionConfig(param_dtype="bfloat16", reduce_dtype="float32"),
    )
    gate_inputs = []
    gate = model.experts[0].gate
    gate.register_forward_pre_hook(
        lambda module, args: gate_inputs.append((args[0].dtype, module.weight.dtype))
    )
    model(torch.randn(2, 4))
    assert gate_inputs == [(torch.float32, torch.float32)]
    seen = {"input": torch.bfloat16, "gate": torch.bfloat16, "proj": torch.bfloat16}
    assert model.experts[0].seen == seen


def test_ignored_modules_are_not_wrapped_and_stay_whole(mesh):
    model = wrap(Model(), mesh, target_classes=("Expert",), ignore_modules=("Sequential",))
    assert paths(model) == ["", "experts.0", "experts.1"]
    assert type(model.tower[0].proj.weight) is nn.Parameter
    assert model.tower[0].proj.weight.shape == (4, 4)
    assert type(model.head.weight).__name__ == "DTensor"


def test_tied_parameters_end_in_the_root(mesh):
    model = wrap(Toy(tied=True), mesh)
    assert model.head.weight is model.embed.weight
    assert paths(model) == ["", "blocks.0", "blocks.1", "blocks.2"]


def test_a_parameter_of_an_ignored_module_may_be_used_anywhere(mesh):
    model = Model()
    model.experts[0].gate.weight = model.tower[0].gate.weight
    wrap(model, mesh, target_classes=("Expert",), ignore_modules=("Sequential",))
    assert type(model.experts[0].gate.weight) is nn.Parameter
    assert model.experts[0].gate.weight is model.tower[0].gate.weight


def test_the_hook_is_called_once_with_the_wrapped_model_alone(mesh):
    calls = []

    class Hooked(Toy):
        def APPLY_FSDP2_CUSTOM_PREFETCHING(*args):  # noqa: N802
            calls.append((args, [isinstance(b, FSDPModule) for b in args[0].blocks]))

    model = wrap(Hooked(depth=2), mesh)
    assert calls == [((model,), [True, True])]


def test_a_model_without_a_hook_is_wrapped_all_the_same(mesh):
    assert paths(wrap(Model(), mesh, target_classes=("Expert",)))


def test_reshard_after_forward_is_for_units_and_the_root_keeps_its_default(mesh, monkeypatch):
    given = []
    monkeypatch.setattr(
        fsdp2, "fully_shard", lambda module, **kw: given.append(kw.get("reshard_after_forward"))
    )
    monkeypatch.delattr(Toy, "APPLY_FSDP2_CUSTOM_PREFETCHING")  # nothing is wrapped here
    for value in (None, True, False, 4):
        given.clear()
        wrap(Toy(depth=1), mesh, reshard_after_forward=value)
        assert given == [value, None]


class NoForward(Model):
    _no_split_modules = ("ModuleList",)


class Bad(Model):
    APPLY_FSDP2_CUSTOM_PREFETCHING = "apply"


class Listed(Model):
    _no_split_modules = ("Missing",)


SETTING = "parallel.backend_kwargs.fsdp2"


@pytest.mark.parametrize(
    ("make", "config", "message"),
    [
        (
            Model,
            {"target_classes": ("Blok",)},
            f"Blok, named in {SETTING}.target_classes, matches no module of Model",
        ),
        (
            Model,
            {"high_precision_modules": ("Gat",)},
            f"Gat, named in {SETTING}.high_precision_modules, matches no module of Model",
        ),
        (
            Model,
            {"ignore_modules": ("Tower",)},
            f"Tower, named in {SETTING}.ignore_modules, matches no module of Model",
        ),
        (
            Listed,
            {},
            "Missing, named in Listed._no_split_modules, matches no module of Listed",
        ),
        (
            Model,
            {"target_classes": ("Model",)},
            f"Model, named in {SETTING}.target_classes, is the model itself, which is always "
            "wrapped, last: take it out",
        ),
        (
            Model,
            {"ignore_modules": ("Model",)},
            "ignore_modules names Model, which is the model itself",
        ),
        (
            NoForward,
            {},
            "experts is a ModuleList, named in NoForward._no_split_modules, and cannot be "
            "wrapped: it has no forward, so FSDP2 would never gather it; name the class of its "
            "children",
        ),
        (
            Model,
            {"target_classes": ("Sequential",), "ignore_modules": ("Sequential",)},
            f"Sequential, named in {SETTING}.target_classes, matches only modules inside "
            "ignore_modules (1) of Model",
        ),
        (
            lambda: Model(frozen=False),
            {"target_classes": ("Expert",), "ignore_modules": ("Sequential",)},
            "tower.0.gate.weight lies in ignore_modules and is trainable, but nobody would reduce "
            "its gradient: freeze it, or do not ignore Gate",
        ),
        (
            lambda: Toy(tied=True),
            {"target_classes": ("Embedding",)},
            "the parameter head.weight is embed.weight too, but one lies in the root and the "
            "other in unit embed: wrap neither, or one module that holds both",
        ),
        (
            Bad,
            {},
            "Bad.APPLY_FSDP2_CUSTOM_PREFETCHING is 'apply', which is not callable: bind a "
            "function of one argument, the model",
        ),
        (
            Toy,
            {"reshard_after_forward": 3},
            "reshard_after_forward is 3, allowed: true, false, or a divisor of the shard axis (8) "
            "other than 1 and itself",
        ),
    ],
)
def test_what_cannot_be_wrapped_is_told_and_nothing_is_wrapped(mesh, make, config, message):
    model = make()
    with pytest.raises(FSDP2WrapError, match=f"^{re.escape(message)}$"):
        wrap(model, mesh, **config)
    assert paths(model) == []


def test_a_torch_without_ignored_params_is_told(mesh, monkeypatch):
    monkeypatch.setattr(fsdp2, "fully_shard", lambda module, *, mesh, mp_policy: module)
    with pytest.raises(FSDP2WrapError, match=r"^ignore_modules needs torch 2\.7 or newer, this is"):
        wrap(Model(), mesh, target_classes=("Expert",), ignore_modules=("Sequential",))


def test_parallelize_takes_a_mesh_with_fewer_axes_and_refuses_unknown_ones(mesh):
    from torch.distributed.device_mesh import init_device_mesh

    model = parallelize_model(Toy(), mesh["shard"], BackendKwargs())
    assert isinstance(model, FSDPModule)
    other = init_device_mesh("cpu", (8,), mesh_dim_names=("dp",))
    with pytest.raises(
        ParallelizeError,
        match=r"^the device mesh has an axis 'dp', allowed: replicate, shard, tensor$",
    ):
        parallelize_model(Toy(), other, BackendKwargs())


def test_mixed_precision_without_fsdp2_is_told(mesh, caplog):
    config = FSDP2Config(mp_policy=MixedPrecisionConfig(param_dtype="bfloat16"))
    parallelize_model(Toy(), mesh["tensor"], BackendKwargs(fsdp2=config))
    assert caplog.messages == [
        "mp_policy has no effect: FSDP2 is not active, parallel.mesh.shard is 1"
    ]


def test_without_a_mesh_the_model_is_left_alone():
    model = Toy()
    assert parallelize_model(model, None, BackendKwargs()) is model
    assert type(model.blocks[0]) is ToyBlock


def test_meta_parameters_are_wrapped_and_materialized_later(mesh):
    with torch.device("meta"):
        model = Toy()
    parallelize_model(model, mesh, BackendKwargs())
    assert all(parameter.is_meta for parameter in model.parameters())
    model.to_empty(device="cpu")
    assert not any(parameter.is_meta for parameter in model.parameters())
