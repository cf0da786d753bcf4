"""What is trained on, what is held out, and what the model makes of the latter."""

from pathlib import Path

import pytest
import torch

from mvp_engine.config import ConfigError
from mvp_engine.distributed.process_group import process_group
from mvp_engine.launch import run
from recipes.vit_classification.data import digits_split
from recipes.vit_classification.evaluate import evaluate

CONFIG = Path(__file__).parents[1] / "configs" / "digits.yaml"


def test_held_out_digits_are_a_fifth_and_never_trained_on() -> None:
    (training, digits), (held_out, _) = (split.tensors for split in digits_split(0.2, seed=0))
    assert (len(training), len(held_out)) == (1438, 359)
    assert training.shape[1:] == held_out.shape[1:] == (1, 8, 8)
    assert training.min() == -1 and training.max() == 1
    assert sorted(set(digits.tolist())) == list(range(10))

    both = torch.cat([training, held_out]).flatten(1)
    everything = torch.cat([split.tensors[0] for split in digits_split(0.5, seed=1)]).flatten(1)
    assert sorted(both.tolist()) == sorted(everything.tolist())


def test_same_seed_is_the_same_split() -> None:
    assert digits_split(0.2, seed=3)[1].tensors[0].equal(digits_split(0.2, seed=3)[1].tensors[0])
    assert not digits_split(0.2, 3)[1].tensors[0].equal(digits_split(0.2, 4)[1].tensors[0])


def test_a_short_training_recognises_digits_that_it_never_saw(tmp_path: Path) -> None:
    settings = "{steps: 120, batch_size: 64, checkpoint_every: 120, log_every: 60}"
    overrides = [f"train={settings}", f"train.output_dir={tmp_path}"]
    with process_group() as device:
        run(CONFIG, overrides)
        step, accuracy, count = evaluate(CONFIG, overrides, device)
    assert (step, count) == (120, 359)
    assert 0.6 < accuracy <= 1, "chance is 0.1, the whole training reaches 0.96"


def test_evaluation_without_a_checkpoint_says_so(tmp_path: Path) -> None:
    expected = f"train.output_dir: {tmp_path} holds no checkpoint"
    with process_group() as device, pytest.raises(ConfigError, match=expected):
        evaluate(CONFIG, [f"train.output_dir={tmp_path}"], device)


def test_another_image_size_is_refused_where_the_data_are_loaded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.image_size: found 16, allowed: 8"):
        run(CONFIG, ["model.image_size=16", f"train.output_dir={tmp_path}"])
