import json
from functools import cache
from pathlib import Path

import pytest
import torch
from torch.nn.utils import clip_grad_norm_

from mvp_engine.testing import run_ranks
from tests.mvp_engine import worlds
from tests.mvp_engine.toy import Toy, counting_tokens, next_token_loss

CONFIG = Path(__file__).with_name("toy.yaml")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def two(folder):
    return run_ranks(worlds.two_ranks, 2, str(CONFIG), str(folder), timeout_s=120)


@pytest.fixture(scope="module")
def four(folder):
    return run_ranks(worlds.four_ranks, 4, str(CONFIG), str(folder), timeout_s=180)


@cache
def reference_step(tied):
    """The same step in one process, over the whole batch at once."""
    torch.manual_seed(0)
    model = Toy(tied=tied)
    next_token_loss(model, counting_tokens(worlds.SAMPLES)).backward()
    before = {name: p.grad.clone() for name, p in model.named_parameters()}
    norm = clip_grad_norm_(model.parameters(), worlds.MAX_NORM)
    after = {name: p.grad.clone() for name, p in model.named_parameters()}
    return {"before": before, "norm": norm, "after": after}


def check_step(results, name, tied=False):
    reference = reference_step(tied)
    assert reference["norm"] > 2 * worlds.MAX_NORM
    for result in results:
        torch.testing.assert_close(result[name]["before"], reference["before"])
        torch.testing.assert_close(result[name]["measured"], reference["norm"])
        torch.testing.assert_close(result[name]["norm"], reference["norm"])
        torch.testing.assert_close(result[name]["after"], reference["after"])


@pytest.mark.parametrize(
    ("name", "wrapper", "parameters"),
    [
        ("fsdp2", "FSDPToy", {"DTensor"}),
        ("fsdp2 at once", "FSDPToy", {"DTensor"}),
        ("ddp", "DistributedDataParallel", {"Parameter"}),
        ("tp", "Toy", {"DTensor", "Parameter"}),
    ],
)
def test_two_ranks_have_the_gradients_of_the_full_batch(two, name, wrapper, parameters):
    assert {result[name]["class"] for result in two} == {wrapper}
    assert two[0][name]["parameters"] == parameters
    check_step(two, name)


def test_only_the_last_micro_batch_reduces_gradients(two, four):
    assert [result["fsdp2"]["reduced_early"] for result in two] == [0, 0]
    assert [result["hsdp"]["reduced_early"] for result in four] == [0, 0, 0, 0]
    assert two[0]["fsdp2 at once"]["reduced_early"] == two[0]["fsdp2 at once"]["count"]
    one, other = (result["ddp"]["early"][0] for result in two)
    assert not torch.allclose(one, other)


def test_tied_embeddings_have_one_gradient_under_fsdp2(two):
    check_step(two, "fsdp2 tied", tied=True)


@pytest.mark.parametrize("name", ["tp and fsdp2", "hsdp", "tp and replicas"])
def test_four_ranks_have_the_gradients_of_the_full_batch(four, name):
    assert {result[name]["class"] for result in four} == {"FSDPToy"}
    check_step(four, name)


def test_tied_embeddings_have_one_gradient_under_tp_and_fsdp2(four):
    check_step(four, "tp and fsdp2 tied", tied=True)


def check_resume(results, folder, prefix):
    for result in results:
        assert result["whole"].step == 6
        assert (result["stopped"].start, result["stopped"].step) == (0, 3)
        assert (result["resumed"].start, result["resumed"].step) == (3, 6)
        assert result["stopped"].losses + result["resumed"].losses == result["whole"].losses
        norms = result["stopped"].grad_norms + result["resumed"].grad_norms
        assert norms == result["whole"].grad_norms
        assert result["whole"] == results[0]["whole"]
    whole, resumed = (
        [
            json.loads(line)
            for line in (folder / f"{prefix}{run}" / "metrics.jsonl").read_text().splitlines()
        ]
        for run in ("whole", "stopped")
    )
    assert [line["step"] for line in whole] == [1, 2, 3, 4, 5, 6]
    for line in (*whole, *resumed):
        assert line.pop("samples_per_s") > 0
    assert resumed == whole


def test_a_resumed_run_is_exactly_the_uninterrupted_one(two, folder):
    check_resume(two, folder, "")
    assert two[0]["whole"].fsdp2_units == ("", "blocks.0", "blocks.1", "blocks.2")
    assert two[0]["whole"].mesh == {"replicate": 1, "shard": 2, "tensor": 1}


def test_a_resumed_run_is_exact_under_tp_and_fsdp2(four, folder):
    check_resume(four, folder, "tp-")
    assert four[0]["whole"].mesh == {"replicate": 1, "shard": 2, "tensor": 2}


def test_the_loss_falls_and_the_schedule_is_followed(two, folder):
    losses = two[0]["whole"].losses
    assert losses[-1] < losses[0] - 0.3
    lines = (folder / "whole" / "metrics.jsonl").read_text().splitlines()
    rates = [json.loads(line)["lr"] for line in lines]
    assert rates == pytest.approx([0.005, 0.01, 0.01, 0.0085355, 0.005, 0.0014645], rel=1e-4)
    assert json.loads(lines[0]).keys() == {
        "step", "loss", "first_token", "lr", "grad_norm", "samples_per_s",
    }  # fmt: skip


def test_checkpoints_are_written_when_asked_and_whole(two, folder):
    names = sorted(path.name for path in (folder / "whole" / "checkpoints").iterdir())
    assert names == ["step-00000003", "step-00000006"]


def test_a_checkpoint_of_fsdp2_goes_on_under_ddp(two):
    assert two[0]["ddp from fsdp2"].start == 3
    assert two[0]["ddp from fsdp2"].fsdp2_units == ()
    assert two[0]["ddp from fsdp2"].losses == pytest.approx(two[0]["whole"].losses[3:], rel=1e-4)
