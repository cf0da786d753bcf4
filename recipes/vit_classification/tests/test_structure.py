"""Structure: which class training instantiates, what binds the hook, which modules are units.

Says nothing about which edges the hook installs; that is the impact test's part.
"""

from pathlib import Path

import pytest

from mvp_engine.testing import load_skill_assertions, single_rank_wrapped
from recipes.vit_classification.config import ModelConfig
from recipes.vit_classification.model import VisionTransformer

RECIPE = Path(__file__).parents[1]
CONFIGS = sorted(path.name for path in (RECIPE / "configs").glob("*.yaml"))
asserts = load_skill_assertions(RECIPE)

# Fill in for this recipe: the classes that FSDP2 wraps, and where they are, in module order.
UNIT_CLASSES = ["Block"]


def unit_paths(sizes: ModelConfig) -> list[str]:
    """Paths of the units beside the root."""
    return [f"blocks.{i}" for i in range(sizes.depth)]


# As in every recipe from here on.


@pytest.mark.parametrize("config", CONFIGS)
def test_training_instantiates_the_class_that_binds_the_hook(config: str) -> None:
    with single_rank_wrapped(RECIPE / "configs" / config, fake_tensors=True) as wrapped:
        asserts.assert_hook_is_bound(wrapped.model, VisionTransformer)


@pytest.mark.parametrize("config", CONFIGS)
def test_units_are_the_wrap_targets_and_the_root(config: str) -> None:
    with single_rank_wrapped(RECIPE / "configs" / config, fake_tensors=True) as wrapped:
        settings = wrapped.engine.config
        asserts.assert_units(wrapped.model, UNIT_CLASSES, unit_paths(settings.model))
        named = set(getattr(VisionTransformer, "_no_split_modules", ()))
        named.update(settings.parallel.backend_kwargs.fsdp2.target_classes)
        assert named == set(UNIT_CLASSES)


def test_hook_sets_its_flag_and_a_second_call_sets_nothing() -> None:
    with single_rank_wrapped(RECIPE / "configs" / "digits.yaml") as wrapped:
        assert wrapped.model._fsdp2_prefetching_configured is True
        asserts.assert_second_call_sets_nothing(wrapped.model)
