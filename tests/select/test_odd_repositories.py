"""Selection where git, the tree or the source is unusual, or means harm."""

from __future__ import annotations

import os
import time

import pytest

from action.repository.git import Git
from action.select import recipe_names, select, select_all

from .conftest import Repository
from .training import FILES, check_each_change_ends_once, said

VIT = "recipes/vit"
QWEN = "recipes/qwen"


def test_an_unchanged_link_leads_from_a_recipe_to_what_changed(training):
    training.commit()
    (training.path / VIT / "kernels.py").symlink_to("../../shared/tables/kernels.txt")
    base = training.commit({"shared/tables/kernels.txt": "x\n"})
    training.commit({"shared/tables/kernels.txt": "y\n"})
    selection = training.select(base)
    check_each_change_ends_once(training, selection)
    assert said(selection) == {
        "vit": [
            (
                "unknown",
                "`shared/tables/kernels.txt` changed, and the link `recipes/vit/kernels.py` leads "
                "to it",
            )
        ]
    }


def test_a_package_that_is_a_link(training):
    (training.path / "core").symlink_to("vendor/core-1.0")
    base = training.commit(
        {
            "vendor/core-1.0/ops.py": "X = 1\n",
            f"{QWEN}/extras.py": "import core.ops\n" + FILES[f"{QWEN}/extras.py"],
        }
    )
    training.commit({"vendor/core-1.0/ops.py": "X = 2\n"})
    assert said(training.select(base)) == {
        "qwen": [
            ("unknown", "`vendor/core-1.0/ops.py` changed, and the link `core` leads to it"),
        ]
    }


def test_a_link_that_becomes_a_file(training):
    (training.path / VIT / "rope.py").symlink_to("positions.py")
    base = training.commit()
    (training.path / VIT / "rope.py").unlink()
    training.commit({f"{VIT}/rope.py": "from torch import nn\n\n\nclass Rope(nn.Module): pass\n"})
    selection = training.select(base)
    check_each_change_ends_once(training, selection)
    assert said(selection)["vit"] == [("model-class", "the model class `Rope` was added")]


def test_a_submodule_that_a_recipe_imports_and_one_that_none_does(training, tmp_path):
    other = Repository(tmp_path / "other")
    other.path.mkdir()
    other.git("init", "--quiet", "--initial-branch", "main")
    other.commit({"flashkernels/__init__.py": "X = 1\n"})
    for name in ("flashkernels", "assets"):
        training.git("submodule", "--quiet", "add", f"file://{other.path}", f"third_party/{name}")
    imports = "import flashkernels\n" + FILES[f"{QWEN}/extras.py"]
    base = training.commit({f"{QWEN}/extras.py": imports})
    other.commit({"flashkernels/__init__.py": "X = 2\n"})
    for name in ("flashkernels", "assets"):
        training.git("-C", f"third_party/{name}", "fetch", "--quiet")
        training.git("-C", f"third_party/{name}", "checkout", "--quiet", "origin/main")
    training.commit()
    selection = training.select(base)
    check_each_change_ends_once(training, selection)
    assert said(selection) == {
        "qwen": [
            (
                "unknown",
                "`third_party/flashkernels`, a link or submodule whose content is not compared, "
                "changed",
            )
        ]
    }
    assert [(u.path, u.reason) for u in selection.unaffected] == [
        ("third_party/assets", "a link or submodule that no recipe names")
    ]


def test_a_model_that_moves_to_another_recipe_changes_both(training):
    training.git("mv", f"{VIT}/positions.py", f"{QWEN}/positions.py")
    training.commit(
        {
            f"{QWEN}/model.py": FILES[f"{QWEN}/model.py"].replace(
                ".extras import *", ".positions import sincos as scale"
            )
        }
    )
    selection = training.select()
    check_each_change_ends_once(training, selection)
    found = said(selection)
    moved = f"the module was renamed from `{VIT}/positions.py`"
    assert ("model-class", moved) in found["vit"]
    assert ("model-class", moved) in found["qwen"]


def test_a_config_that_moves_to_another_recipe_changes_both(training):
    training.git("mv", f"{VIT}/configs/tiny.yaml", f"{QWEN}/configs/vit.yaml")
    training.commit()
    selection = training.select()
    check_each_change_ends_once(training, selection)
    assert said(selection) == {
        "qwen": [("config", "the config was added")],
        "vit": [("config", "the config was deleted")],
    }


def test_a_renamed_and_edited_model(training):
    training.git("mv", f"{VIT}/positions.py", f"{VIT}/geometry.py")
    training.commit(
        {
            f"{VIT}/geometry.py": "def sincos(width):\n    return list(range(width + 1))\n",
            f"{VIT}/model.py": FILES[f"{VIT}/model.py"].replace("vit.positions", "vit.geometry"),
        }
    )
    selection = training.select()
    check_each_change_ends_once(training, selection)
    assert ("model-class", "`sincos`, which `ViT` mentions, changed") in said(selection)["vit"]


def test_a_module_deleted_while_others_import_it(training):
    training.commit({"shared/kernels.py": None, f"{VIT}/config.py": None})
    selection = training.select()
    check_each_change_ends_once(training, selection)
    details = [detail for _, detail in said(selection)["vit"]]
    assert "the module `shared/kernels.py` was deleted" in details
    assert "`VitConfig`, which `VitEngine` mentions, was removed" in details


def test_a_definition_removed_while_others_import_it(training):
    training.commit({f"{VIT}/data.py": "CORPUS = ''\n"})
    assert said(training.select()) == {
        "vit": [("imported-module", f"`Digits` was removed, and {VIT}/engine.py still imports it")]
    }


def test_an_engine_that_only_inherits_prepare_model(training):
    base = training.commit(
        {
            "mvp_engine/engine.py": FILES["mvp_engine/engine.py"]
            + "\n\nclass LMEngine(Engine):\n    def prepare_model(self):\n"
            "        return self.build()\n",
            f"{QWEN}/engine.py": "from mvp_engine.engine import LMEngine\nfrom . import model\n\n\n"
            "class QwenEngine(LMEngine):\n    def build(self):\n        return model.Qwen()\n",
        }
    )
    source = (training.path / QWEN / "engine.py").read_text()
    training.commit({f"{QWEN}/engine.py": source.replace("Qwen()", "Qwen(1)")})
    assert said(training.select(base)) == {
        "qwen": [("builder", "`QwenEngine.build`, which builds or runs the model, changed")]
    }


def test_what_another_method_leaves_for_prepare_model(training):
    engine = FILES[f"{VIT}/engine.py"].replace("(self.config.model)", "(self.sizes)")
    engine = engine.replace("\n\ndef make_optimizer", "\n    def measure(self):\n        "
                            "self.sizes = 1\n\n\ndef make_optimizer", 1)  # fmt: skip
    base = training.commit({f"{VIT}/engine.py": engine})
    training.commit({f"{VIT}/engine.py": engine.replace("self.sizes = 1", "self.sizes = 2")})
    assert said(training.select(base)) == {
        "vit": [
            (
                "builder",
                "`VitEngine.measure`, whose `sizes` `VitEngine._new_model` mentions, changed",
            )
        ]
    }


@pytest.mark.parametrize("name", ["shared.engines:LM", "shared.engines.LM", "lm"])
def test_an_engine_that_lies_outside_the_recipe(training, name):
    engine = (
        "from mvp_engine.engine import register_engine\n\n\n@register_engine('lm')\nclass LM:\n"
        "    def prepare_model(self):\n        return 1\n"
    )
    base = training.commit(
        {
            "shared/engines.py": engine,
            f"{QWEN}/engine.py": None,
            f"{QWEN}/configs/tiny.yml": f"engine: {name}\n",
        }
    )
    training.commit({"shared/engines.py": engine.replace("return 1", "return 2")})
    assert said(training.select(base)) == {
        "qwen": [("imported-module", "the module `shared/engines.py` changed: `LM`")]
    }


def test_a_module_that_was_broken_before_and_after_hides_its_imports(training):
    base = training.commit({"shared/layers.py": "def attend(:\n"})
    training.commit({"shared/kernels.py": "def softmax(x):\n    return -x\n"})
    (found,) = said(training.select(base))["vit"]
    assert found == (
        "unknown",
        "`shared/kernels.py` changed, and what the recipe imports is not known: shared/layers.py "
        "cannot be read (syntax error: invalid syntax)",
    )


@pytest.mark.parametrize(
    "content",
    [
        b"x = 1\0\n",
        b"# coding: latin-9000\n",
        b"x = '\xff'\n",
        b"(" * 100_000,
        b"x = " + b"-" * 100_000 + b"1\n",
        b"x" + b".a" * 100_000 + b"\n",
    ],
    ids=["null byte", "encoding", "not UTF-8", "brackets", "signs", "attributes"],
)
def test_source_that_cannot_be_read_selects(training, content):
    training.commit({f"{VIT}/model.py": content, "tools/plot.py": content})
    selection = training.select()
    check_each_change_ends_once(training, selection)
    assert ("vit", "unparsable") in {
        (name, rule) for name, found in said(selection).items() for rule, _ in found
    }


def test_a_file_too_large_to_be_read_beside_other_changes(training):
    training.commit(
        {
            "shared/layers.py": b"#" * (17 * 2**20),
            f"{VIT}/model.py": FILES[f"{VIT}/model.py"] + "\n# end\n",
            "shared/angles.py": "BASE = 2\n",
        }
    )
    selection = training.select()
    check_each_change_ends_once(training, selection)
    assert (
        "unparsable",
        "`shared/layers.py` cannot be compared: it is too large to be read as source",
    ) in said(selection)["vit"]


@pytest.mark.parametrize(
    "name", ["a b.py", "a\nb.py", 'a"b.py', "a'b.py", "ü.py", "-x.py", ":(glob)x.py", "a\\b.py"]
)
def test_odd_names_within_a_recipe(training, name):
    path = f"{VIT}/{name}"
    training.commit({path: "from torch import nn\n\n\nclass Odd(nn.Module): pass\n"})
    selection = training.select()
    check_each_change_ends_once(training, selection)
    assert said(selection)["vit"] == [("model-class", "the model class `Odd` was added")]
    assert selection.recipes[0].reasons[0].location.path == path


def test_a_name_that_is_no_utf8_is_escaped_in_the_record(training):
    name = os.fsdecode(b"tools/\xff.py")
    training.commit({name: "x = 1\n"})
    selection = training.select()
    assert [u.path for u in selection.unaffected] == [r"tools/\xff.py"]
    assert selection.model_dump_json()


def test_a_hostile_configuration_of_the_clone_runs_nothing(training, tmp_path):
    ran = tmp_path / "ran"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    script.chmod(0o755)
    for key in ("diff.external", "core.fsmonitor", "diff.x.textconv", "filter.x.smudge",
                "core.pager", "diff.x.command"):  # fmt: skip
        training.git("config", key, str(script))
    hook = training.path / ".git/hooks/post-checkout"
    hook.write_text(script.read_text())
    hook.chmod(0o755)
    training.git("-c", "core.fsmonitor=false", "rev-parse", "HEAD")
    ran.unlink(missing_ok=True)
    git = Git(training.path)
    (training.path / ".gitattributes").write_text("*.py diff=x filter=x\n")
    quiet = ("-c", "core.fsmonitor=false", "-c", "filter.x.smudge=", "-c", "filter.x.clean=")
    training.write({f"{VIT}/positions.py": "def sincos(width):\n    return 1\n"})
    training.git(*quiet, "add", "--all")
    training.git(*quiet, "-c", "core.hooksPath=/dev/null", "commit", "--quiet", "-m", "x")
    ran.unlink(missing_ok=True)
    selection = select(git, git.commit("main"), git.commit("HEAD"))
    assert [recipe.name for recipe in selection.recipes] == ["vit"]
    assert not ran.exists()


def test_another_root_and_all_of_it(empty_repository):
    files = {
        "examples/recipes/a/engine.py": "X = 1\n",
        "examples/recipes/b/configs/x.yaml": "engine: b\n",
        "examples/recipes/tools/x.py": "X = 1\n",
    }
    head = empty_repository.commit(files)
    git = Git(empty_repository.path)
    root = "examples/recipes"
    assert recipe_names(git, head, recipes_root=root) == ("a", "b")
    selection = select_all(git, head, recipes_root=root)
    assert (selection.mode, [recipe.path for recipe in selection.recipes]) == (
        "all",
        ["examples/recipes/a", "examples/recipes/b"],
    )
    nightly = select_all(git, head, recipes_root=root, why="a run on `schedule` has no base")
    assert nightly.notes == ("Every recipe is selected: a run on `schedule` has no base.",)


@pytest.fixture
def empty_repository(tmp_path):
    made = Repository(tmp_path / "empty")
    made.path.mkdir()
    made.git("init", "--quiet", "--initial-branch", "main")
    return made


def test_forty_recipes_and_four_hundred_changes_take_seconds(empty_repository):
    model = FILES[f"{VIT}/model.py"].replace("recipes.vit.positions", "shared.positions")
    files = {"shared/layers.py": "def attend(x):\n    return x\n"}
    files["shared/positions.py"] = FILES[f"{VIT}/positions.py"]
    files |= {f"recipes/r{number}/model.py": model for number in range(40)}
    files |= {f"tools/t{number}.py": "X = 1\n" for number in range(400)}
    base = empty_repository.commit(files)
    empty_repository.commit(
        {f"tools/t{number}.py": "X = 2\n" for number in range(400)}
        | {"shared/layers.py": "def attend(x):\n    return -x\n"}
    )
    begun = time.process_time()
    selection = empty_repository.select(base)
    assert time.process_time() - begun < 10
    assert len(selection.recipes) == 40
    assert len(selection.unaffected) == 400
