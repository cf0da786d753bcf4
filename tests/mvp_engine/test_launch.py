"""The command line, as a user and as torchrun start it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mvp_engine import launch
from mvp_engine.distributed.fsdp2 import FSDP2WrapError
from mvp_engine.distributed.parallelize import ParallelizeError
from mvp_engine.distributed.tp import TensorParallelError
from mvp_engine.engine.loop import TrainingError
from mvp_engine.launch import main
from tests.mvp_engine.toy import ToyEngine

CONFIG = Path(__file__).with_name("toy.yaml")
ROOT = Path(__file__).parents[2]
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


def losses(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines]


def test_one_process_trains_stops_and_resumes_without_torchrun(tmp_path, capsys):
    command = ["--config", str(CONFIG)]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert main([*command, f"train.output_dir={whole}"]) == 0
    assert len(losses(whole)) == 6
    assert main([*command, f"train.output_dir={stopped}", "train.stop_at=4"]) == 0
    assert losses(stopped) == losses(whole)[:4]
    # The run stops at a step of its own checkpoint; that of step 3 is resumed on purpose.
    checkpoint = stopped / "checkpoints" / "step-00000003"
    again = [*command, f"train.output_dir={stopped}", f"train.resume={checkpoint}"]
    assert main(again) == 0
    assert losses(stopped) == losses(whole)
    assert main(again) == 0  # and the checkpoint of step 6 is written over
    assert losses(stopped) == losses(whole)
    config = json.loads((whole / "config.json").read_text())
    assert config["engine"] == "tests.mvp_engine.toy.ToyEngine"
    assert config["train"]["accumulation"] == 2
    assert "step 6/6 loss " in capsys.readouterr().err


def test_torchrun_trains_on_two_ranks_and_one_of_them_speaks(tmp_path):
    run = subprocess.run(
        [*TORCHRUN, "-m", "mvp_engine.launch", "--config", CONFIG, f"train.output_dir={tmp_path}"],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    assert len(losses(tmp_path)) == 6
    assert losses(tmp_path)[-1] < losses(tmp_path)[0]
    assert run.stderr.count("step 6/6 loss ") == 1


def test_a_config_error_is_one_sentence_and_exit_code_2():
    run = subprocess.run(
        [sys.executable, "-m", "mvp_engine.launch", "--config", str(CONFIG), "train.step=3"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 2
    assert run.stderr == (
        "error: override 'train.step=3': train.step: unknown key, did you mean steps? "
        "allowed: steps, batch_size, accumulation, seed, log_every, checkpoint_every, stop_at, "
        "output_dir, resume, deterministic\n"
    )


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["engine=toi"], "error: override 'engine=toi': engine: found 'toi', allowed: "),
        (["engine=3"], "error: override 'engine=3': engine: found 3, allowed: a valid string\n"),
        (
            ["parallel.mesh.shard=4"],
            "error: parallel.mesh: replicate 1 x shard 4 x tensor 1 does not fit the world size "
            "1: the axes must multiply to it\n",
        ),
        (
            ["train.output_dir=/dev/null/here"],
            "error: train.output_dir: /dev/null/here cannot be made: Not a directory\n",
        ),
        (
            ["train.resume=/nowhere"],
            "error: train.resume: /nowhere is not a checkpoint: it has no .metadata\n",
        ),
    ],
)
def test_settings_that_cannot_be_used_are_told(tmp_path, capsys, overrides, message):
    assert main(["--config", str(CONFIG), f"train.output_dir={tmp_path}", *overrides]) == 2
    assert capsys.readouterr().err.startswith(message)


def test_a_model_that_cannot_be_wrapped_and_a_loss_that_is_lost_are_told(
    tmp_path, capsys, monkeypatch
):
    command = ["--config", str(CONFIG), f"train.output_dir={tmp_path}"]
    for error, code in [
        (FSDP2WrapError("Blok matches no module"), 2),
        (TensorParallelError("no plan"), 2),
        (ParallelizeError("no such axis"), 2),
        (TrainingError("the loss is nan"), 1),
    ]:

        def prepare_model(self, error=error):
            raise error

        monkeypatch.setattr(ToyEngine, "prepare_model", prepare_model)
        assert main(command) == code
        assert capsys.readouterr().err == f"error: {error}\n"


def test_another_rank_than_the_first_lets_it_speak(capsys, monkeypatch):
    waits = []
    monkeypatch.setattr(launch.time, "sleep", waits.append)
    monkeypatch.setenv("RANK", "1")
    assert main(["--config", "nowhere.yaml"]) == 2
    assert capsys.readouterr().err == ""
    assert waits == [3.0]  # torchrun would end rank 0 before it has said why


def test_checkpoints_of_two_runs_are_not_mixed(tmp_path, capsys):
    command = ["--config", str(CONFIG), f"train.output_dir={tmp_path}", "train.steps=1"]
    assert main([*command, "train.resume=true"]) == 0
    capsys.readouterr()
    assert main(command) == 2
    assert capsys.readouterr().err == (
        f"error: train.output_dir: {tmp_path} holds checkpoints of an earlier run: set "
        f"train.resume=true to go on, or choose another folder\n"
    )


def test_a_checkpoint_of_another_model_is_told(tmp_path, capsys):
    command = ["--config", str(CONFIG), f"train.output_dir={tmp_path}", "train.steps=1"]
    assert main(command) == 0
    for other, reason in [
        ("model.depth=4", "Missing key in checkpoint state_dict: model.blocks.3."),
        ("model.width=8", "Size mismatch between saved"),
    ]:
        capsys.readouterr()
        assert main([*command, "train.resume=true", other]) == 2
        path = tmp_path / "checkpoints" / "step-00000001"
        told = capsys.readouterr().err
        assert told.startswith(f"error: train.resume: {path} does not fit this run: {reason}")
        assert told.count("\n") == 1
