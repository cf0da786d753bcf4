"""Impact validation: which prefetch edges the hook installs on the real wrapped model.

The model is built by the recipe's engine and wrapped by the runtime; expected paths are resolved to
live modules and compared with the installed targets by identity. The process group is a fake one,
so edges are proved here, not that training runs.
"""

from pathlib import Path

import pytest

from mvp_engine.testing import load_skill_assertions, single_rank_wrapped
from recipes.vit_classification.config import ModelConfig
from recipes.vit_classification.model import VisionTransformer

RECIPE = Path(__file__).parents[3]
asserts = load_skill_assertions(RECIPE)

# Fill in for this recipe: the configs and overrides to build, and the edges that they must have.
CASES = {
    "as trained": ("digits.yaml",),
    "twelve blocks": ("digits.yaml", "model.depth=12"),
    "two blocks": ("digits.yaml", "model.depth=2"),
    "one block": ("digits.yaml", "model.depth=1"),
}


def expected_edges(sizes: ModelConfig) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Forward and backward edges, from the path of a unit to the paths of what it prefetches."""
    last = sizes.depth - 1
    forward = {f"blocks.{i}": [f"blocks.{i + 1}"] for i in range(last)}
    backward = {f"blocks.{i}": [f"blocks.{i - 1}"] for i in range(last, 0, -1)}
    return forward, backward


# As in every recipe from here on.


@pytest.mark.parametrize("case", CASES)
def test_installed_edges_are_exactly_the_expected_modules(case: str) -> None:
    config, *overrides = CASES[case]
    with single_rank_wrapped(RECIPE / "configs" / config, overrides, fake_tensors=True) as wrapped:
        forward, backward = expected_edges(wrapped.engine.config.model)
        asserts.assert_prefetch_edges(wrapped.model, forward, backward)
        asserts.assert_second_call_sets_nothing(wrapped.model)


def test_hook_fails_on_a_model_that_is_not_wrapped_and_stays_callable() -> None:
    with single_rank_wrapped(RECIPE / "configs" / "digits.yaml", fake_tensors=True) as wrapped:
        engine = type(wrapped.engine)(wrapped.engine.config, None, wrapped.engine.device)
        plain = engine.prepare_model()
        assert type(plain) is VisionTransformer
        with pytest.raises(AttributeError, match="set_modules_to_"):
            VisionTransformer.APPLY_FSDP2_CUSTOM_PREFETCHING(plain)
        assert not getattr(plain, "_fsdp2_prefetching_configured", False)
