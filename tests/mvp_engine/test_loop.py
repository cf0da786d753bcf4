"""The loop on one process: how recipes' own loaders are read, and what stops it."""

import json

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

from mvp_engine.config import SchedulerConfig, TrainConfig
from mvp_engine.distributed.process_group import process_group
from mvp_engine.engine.base import lr_factor
from mvp_engine.engine.loop import TrainingError, to_device, train
from mvp_engine.engine.metrics import MetricsLog, read_metrics
from tests.mvp_engine.toy import ToyConfig, ToyEngine, counting_tokens


def run(engine, tmp_path, **settings):
    config = {"steps": 5, "batch_size": 4, "output_dir": str(tmp_path), **settings}
    with process_group() as device:
        assert device == torch.device("cpu")
        return train(
            engine(ToyConfig(engine="toy", train=TrainConfig(**config)), None, torch.device("cpu"))
        )


class Recorded(ToyEngine):
    """Reads a loader of its own that ends after 3 batches; keeps what it was given."""

    seen: list[int]

    def prepare_dataloader(self):
        self.epochs = []
        data = counting_tokens(12)
        sampler = DistributedSampler(data, num_replicas=1, rank=0, shuffle=True)
        set_epoch = sampler.set_epoch
        sampler.set_epoch = lambda epoch: (self.epochs.append(epoch), set_epoch(epoch))
        return DataLoader(data, batch_size=4, sampler=sampler)

    def forward_step(self, batch):
        type(self).seen.append(int(batch[0, 0]))
        assert torch.is_grad_enabled()
        return super().forward_step(batch)


def test_a_loader_that_ends_is_begun_anew_and_read_on_after_a_resume(tmp_path):
    Recorded.seen = whole = []
    first = run(Recorded, tmp_path / "whole")
    assert len(whole) == 5
    Recorded.seen = parts = []
    stopped = run(Recorded, tmp_path / "parts", stop_at=4, checkpoint_every=4)
    resumed = run(Recorded, tmp_path / "parts", resume=True)
    assert parts == whole
    assert stopped.losses + resumed.losses == first.losses


def test_only_every_nth_step_is_logged_and_the_last(tmp_path):
    result = run(ToyEngine, tmp_path, log_every=2)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [2, 4, 5]
    assert result.losses == tuple(line["loss"] for line in lines)
    assert not dist.is_initialized()


def test_a_loss_that_is_not_finite_stops_training(tmp_path):
    class Broken(ToyEngine):
        def forward_step(self, batch):
            return self.model(batch).sum() * float("nan")

    with pytest.raises(TrainingError, match=r"^step 1: the loss is nan, training stops$"):
        run(Broken, tmp_path, checkpoint_every=1)
    assert not (tmp_path / "checkpoints").exists()


def test_a_loader_without_batches_stops_training(tmp_path):
    class Empty(ToyEngine):
        def prepare_dataloader(self):
            return []

    with pytest.raises(TrainingError, match=r"^prepare_dataloader\(\) gave no batch$"):
        run(Empty, tmp_path)


def test_frozen_parameters_train_on_without_an_optimizer_state(tmp_path):
    class Frozen(ToyEngine):
        def prepare_model(self):
            model = super().prepare_model()
            model.embed.requires_grad_(False)
            return model

    stopped = run(Frozen, tmp_path, stop_at=2, checkpoint_every=2)
    resumed = run(Frozen, tmp_path, resume=True)
    assert (stopped.step, resumed.start, resumed.step) == (2, 2, 5)
    assert resumed.losses[-1] < stopped.losses[0]


def test_batches_move_with_all_that_is_in_them():
    meta = torch.device("meta")
    batch = {"x": torch.zeros(2), "pair": (torch.ones(1), [torch.ones(1)]), "name": "text"}
    moved = to_device(batch, meta)
    assert moved["x"].device == moved["pair"][0].device == moved["pair"][1][0].device == meta
    assert moved["name"] == "text"
    assert isinstance(moved["pair"], tuple)


def test_the_schedule_warms_up_and_falls_to_its_floor():
    cosine = SchedulerConfig(kind="cosine", warmup_steps=4, final_fraction=0.1)
    rates = [lr_factor(step, cosine, 12) for step in range(13)]
    assert rates[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert rates[8] == pytest.approx(0.55)
    assert rates[12] == pytest.approx(0.1)
    constant = SchedulerConfig(warmup_steps=2)
    assert [lr_factor(step, constant, 4) for step in range(4)] == [0.5, 1.0, 1.0, 1.0]


def test_a_torn_last_line_of_metrics_is_left_out(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "lo')
    assert read_metrics(path) == [{"step": 1, "loss": 2.0}]
    with MetricsLog(tmp_path, rank=0, start=1, steps=2) as log:
        log.record(2, {"loss": 1.0})
    assert [line["step"] for line in read_metrics(path)] == [1, 2]
