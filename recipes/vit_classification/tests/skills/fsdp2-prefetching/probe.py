"""The model that the probe observes: this recipe's engine, at full size."""

from pathlib import Path

from mvp_engine.testing import configured_mesh, probe_target

CONFIG = Path(__file__).parents[3] / "configs" / "digits.yaml"
TINY_CONFIG = Path(__file__).parents[3] / "configs" / "digits.yaml"


def mesh():
    return configured_mesh(CONFIG)


def build(*, device_mesh, overrides=()):
    return probe_target(CONFIG, device_mesh, overrides)
