"""Meshes of every kind at little cost: exact bytes for the configured one, exact edges."""

import os
import sys
import textwrap
import time
from pathlib import Path

import pytest

from action.probe import Limits, Request, Surroundings, observe
from action.records import Observation

ROOT = Path(__file__).resolve().parents[2]
PROBE = """
import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from tests.hazards.building import Built, Stack, backward_chain, batch, forward_chain, with_hook

{extra}

def hook(model):
    forward_chain(model.blocks)
    backward_chain(model.blocks)

class Model(Stack):
    pass

with_hook(Model, hook)

def build(*, device_mesh, overrides=()):
    model = Model(3)
    {before}
    for block in model.blocks:
        fully_shard(block, mesh={mesh}, {options})
    fully_shard(model, mesh={mesh}, {options})
    Model.APPLY_FSDP2_CUSTOM_PREFETCHING(model)
    return Built(model, {{"train": lambda: model(batch())}})
"""
TENSOR = """
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.distributed.tensor import Replicate
"""
SPLIT = (
    "for b in model.blocks: parallelize_module(b, device_mesh['tensor'], "
    "{'up': ColwiseParallel(output_layouts=Replicate())})"
)


def seen(tmp_path: Path, **parts: str) -> Observation:
    parts = {"extra": "", "before": "", "mesh": "device_mesh", "options": "", **parts}
    probe = tmp_path / "probe.py"
    probe.write_text(textwrap.dedent(PROBE).format(**parts))
    around = Surroundings(sys.executable, os.environ, time.monotonic)
    (observation,) = observe([Request("toy", probe, ROOT)], Limits(seconds=60), around)
    assert observation.outcome == "observed", f"{observation.summary}\n{observation.tail}"
    assert observation.findings == ()
    assert observation.forward == ("blocks.0 → blocks.1 → blocks.2",)
    assert observation.backward == ("blocks.2 → blocks.1 → blocks.0",)
    return observation


@pytest.mark.parametrize(
    ("extra", "options", "block", "root"),
    [
        # 8 x 8 floats over 2 ranks; the head's 1 x 8 is padded to 2 rows.
        ("", "", 8 * 8 * 4, 2 * 8 * 4),
        # Over 4096 ranks each has one row, however few there are.
        ("MESH = {'shard': 4096}", "", 4096 * 8 * 4, 4096 * 8 * 4),
        ("MESH = {'shard': 3}", "", 9 * 8 * 4, 3 * 8 * 4),
        (
            "MESH = {'shard': 3}",
            "mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16)",
            9 * 8 * 2,
            3 * 8 * 2,
        ),
    ],
)
def test_bytes_are_those_of_the_configured_mesh(tmp_path, extra, options, block, root):
    observation = seen(tmp_path, extra=extra, options=options)
    assert observation.mode == "fake"
    assert observation.mesh == "shard 2"
    sizes = {unit.name: unit.bytes for unit in observation.units}
    assert sizes == {"(root)": root, "blocks.0": block, "blocks.1": block, "blocks.2": block}
    (path,) = observation.paths
    # The root stays; a block and the one that it prefetches are there at a time.
    assert path.with_hook is not None and path.with_hook.peak_bytes == root + 2 * block


def test_hybrid_sharding(tmp_path):
    observation = seen(tmp_path, extra="MESH = {'replicate': 4, 'shard': 8}")
    assert (observation.mode, observation.mesh) == ("fake", "replicate 2, shard 2")
    assert observation.shard == 8


def test_tensor_parallelism_with_fsdp2(tmp_path):
    observation = seen(
        tmp_path,
        extra=f"MESH = {{'shard': 8, 'tensor': 2}}\n{TENSOR}",
        before=SPLIT,
        mesh="device_mesh['shard']",
    )
    assert observation.shard == 8
    assert observation.mode == "fake" or observation.why_not_fake is not None
