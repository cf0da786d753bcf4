"""Smoke: real training steps with FSDP2 active, on all GPUs or on two CPU ranks.

A falling loss shows that training runs; it would fall with wrong prefetch edges too.
"""

from pathlib import Path
from statistics import mean

from mvp_engine.testing import train_smoke

CONFIG = Path(__file__).parents[1] / "configs" / "tiny.yaml"
STEPS = 30


def test_loss_falls_with_fsdp2_active() -> None:
    results = train_smoke(CONFIG, steps=STEPS, timeout_s=300)
    assert len(results) >= 2
    for result in results:
        assert result.mesh == {"replicate": 1, "shard": len(results), "tensor": 1}
        assert len(result.fsdp2_units) > 1, "only the root is a unit, or nothing is"
        assert len(result.losses) == STEPS
        # The loss is averaged over ranks, so ranks that disagree did not train together.
        assert result.losses == results[0].losses
    first, last = mean(results[0].losses[:5]), mean(results[0].losses[-5:])
    assert last < 0.9 * first, f"the loss went from {first:.3f} to {last:.3f}"
