"""A recipe's run that was stopped goes on as if it had not been."""

from pathlib import Path

import pytest

from mvp_engine.launch import run
from mvp_engine.testing import run_ranks

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.mark.parametrize(
    "config", ["vit_classification/configs/digits.yaml", "qwen3/configs/tiny.yaml"]
)
def test_resumed_losses_are_those_of_a_run_without_a_stop(config: str, tmp_path: Path) -> None:
    arguments = (str(RECIPES / config), str(tmp_path))
    for whole, stopped, resumed in run_ranks(_three_runs, 2, *arguments, timeout_s=300):
        assert len(whole) == 12 and len(stopped) == 7
        assert stopped + resumed == whole


def _three_runs(config: str, folder: str) -> list[tuple[float, ...]]:
    settings = ["train.steps=12", "train.log_every=1", "train.checkpoint_every=7"]
    stopped = [*settings, f"train.output_dir={folder}/stopped"]
    runs = (
        [*settings, f"train.output_dir={folder}/whole"],
        [*stopped, "train.stop_at=7"],
        [*stopped, "train.resume=true"],
    )
    return [run(Path(config), overrides).losses for overrides in runs]
