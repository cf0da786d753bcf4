"""The recipes' tests are made from `tests/templates`: the same text but for each recipe's part."""

from pathlib import Path
from string import Template

import pytest

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "tests" / "templates"
FILES = sorted(path.relative_to(TEMPLATES) for path in TEMPLATES.rglob("*.py"))
VALUES = {
    "qwen3": {
        "recipe": "qwen3",
        "top_class": "Qwen3ForTraining",
        "config": "tiny.yaml",
        "probe_config": "qwen3_8b.yaml",
    },
    "vit_classification": {
        "recipe": "vit_classification",
        "top_class": "VisionTransformer",
        "config": "digits.yaml",
        "probe_config": "digits.yaml",
    },
}
OWN_PART = "# Fill in for this recipe: "
COMMON_PART = "# As in every recipe from here on.\n"


def test_there_are_templates_for_all_that_the_skill_asks_for() -> None:
    skill = Path("skills") / "fsdp2-prefetching"
    assert set(FILES) == {
        skill / "asserts.py",
        skill / "probe.py",
        skill / "test_prefetch_edges_impact.py",
        Path("test_smoke.py"),
        Path("test_structure.py"),
    }


def test_every_recipe_is_compared() -> None:
    recipes = {path.parent.name for path in (ROOT / "recipes").glob("*/engine.py")}
    assert recipes == set(VALUES)


@pytest.mark.parametrize("recipe", VALUES)
@pytest.mark.parametrize("file", FILES, ids=str)
def test_recipe_s_file_is_the_template_filled_in(recipe: str, file: Path) -> None:
    template = (TEMPLATES / file).read_text(encoding="utf-8")
    expected = Template(template).substitute(VALUES[recipe])
    written = (ROOT / "recipes" / recipe / "tests" / file).read_text(encoding="utf-8")
    if OWN_PART not in template:
        assert written == expected
        return
    assert _without_own_part(written) == _without_own_part(expected)
    assert "NotImplementedError" in expected
    assert "NotImplementedError" not in written


def _without_own_part(text: str) -> tuple[str, str, str]:
    before, rest = text.split(OWN_PART)
    instruction, rest = rest.split("\n", 1)
    _, after = rest.split(COMMON_PART)
    return before, instruction, after
