"""The recipes' tests are made from `tests/templates`: the same text but for each recipe's part."""

from pathlib import Path
from string import Template

import pytest

from tests.templates.__main__ import main

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "tests" / "templates"
FILES = sorted(
    path.relative_to(TEMPLATES) for path in TEMPLATES.rglob("*.py") if path.name != "__main__.py"
)
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


def test_command_writes_a_new_recipe_s_tests_and_overwrites_none(tmp_path: Path) -> None:
    smoke = tmp_path / "qwen3" / "tests" / "test_smoke.py"
    smoke.parent.mkdir(parents=True)
    smoke.write_text("mine", encoding="utf-8")
    arguments = [f"{name}={value}" for name, value in VALUES["qwen3"].items()]

    assert main(arguments, recipes=tmp_path) == 0
    assert smoke.read_text(encoding="utf-8") == "mine"
    asserts = Path("tests") / "skills" / "fsdp2-prefetching" / "asserts.py"
    written = (tmp_path / "qwen3" / asserts).read_bytes()
    assert written == (ROOT / "recipes" / "qwen3" / asserts).read_bytes()
    files = (path.relative_to(smoke.parent) for path in smoke.parent.rglob("*.py"))
    assert sorted(files) == FILES


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["recipe=qwen3"], "usage: recipe=... top_class=... config=... probe_config=..."),
        (["recipe=no", "top_class=A", "config=a", "probe_config=a"], "no is not a folder"),
    ],
)
def test_command_refuses_what_it_cannot_fill_in(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments, recipes=tmp_path) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def _without_own_part(text: str) -> tuple[str, str, str]:
    before, rest = text.split(OWN_PART)
    instruction, rest = rest.split("\n", 1)
    _, after = rest.split(COMMON_PART)
    return before, instruction, after
