"""Selection on real git repositories: rules, sentences, and what is left out, with reasons."""

from __future__ import annotations

import pytest

from action.records import Location, Selection

from .conftest import CONFIG, ENGINE, FILES, IMPACT, MODEL

TOY = "recipes/toy/"


def model(old: str, new: str) -> dict[str, str]:
    assert MODEL.count(old) >= 1, old
    return {TOY + "model.py": MODEL.replace(old, new)}


def engine(old: str, new: str) -> dict[str, str]:
    assert old in ENGINE
    return {TOY + "engine.py": ENGINE.replace(old, new)}


def config(old: str, new: str) -> dict[str, str]:
    assert old in CONFIG
    return {TOY + "configs/tiny.yaml": CONFIG.replace(old, new)}


SELECTED = {
    "the hook": (
        model("following])", "following, block])"),
        ("hook", "the hook `apply_prefetching` changed"),
    ),
    "the hook's binding": (
        model("    APPLY_FSDP2_CUSTOM_PREFETCHING = apply_prefetching\n", ""),
        ("hook", "`Toy.APPLY_FSDP2_CUSTOM_PREFETCHING` was removed"),
    ),
    "a binding after the class": (
        {TOY + "model.py": MODEL + "\n\nToy.APPLY_FSDP2_CUSTOM_PREFETCHING = plot\n"},
        ("hook", "module-level code that sets the hook changed"),
    ),
    "the list of targets": (
        model('["Block"]', '["Block", "Attention"]'),
        ("wrap-target", "`Toy._no_split_modules` changed"),
    ),
    "a TP attribute": (
        model('"colwise"', '"rowwise"'),
        ("tp-attributes", "`Toy.TP_MODULE_CONFIG` changed"),
    ),
    "a wrap target": (
        model("self.attention = Attention(dim)", "self.attention = Attention(2 * dim)"),
        ("wrap-target", "the wrap target `Block` changed (`__init__`)"),
    ),
    "a model class": (
        model("range(3)", "range(4)"),
        ("model-class", "the model class `Toy` changed (`__init__`)"),
    ),
    "a constant the model uses": (
        model("DROPOUT = 0.1", "DROPOUT = 0.2"),
        ("model-class", "`DROPOUT`, which `Block` mentions, changed"),
    ),
    "a function the model uses": (
        {TOY + "rope.py": "def rotate(x):\n    return -x\n"},
        ("model-class", "`rotate`, which `Block` mentions, changed"),
    ),
    "prepare_model": (
        engine("model = build_model(self.config)", "model = build_model(self.config).eval()"),
        ("builder", "`ToyEngine.prepare_model`, which builds or runs the model, changed"),
    ),
    "the builder": (
        engine("Toy(config.dim)", "Toy(config.dim * 2)"),
        ("builder", "`build_model`, which `ToyEngine.prepare_model` mentions, changed"),
    ),
    "the engine's registered name": (
        engine('register_engine("toy")', 'register_engine("toy2")'),
        ("builder", "`ToyEngine`, which builds or runs the model, changed"),
    ),
    "a parallel key": (
        config("shard: 2", "shard: 4"),
        ("config", "`parallel.mesh.shard`: 2 → 4"),
    ),
    "a target class in the config": (
        config("[Block]", "[Block, Attention]"),
        ("config", "`parallel.backend_kwargs.fsdp2.target_classes[1]`: nothing → Attention"),
    ),
    "a model key": (config("dim: 8", "dim: 16"), ("config", "`model.dim`: 8 → 16")),
    "the engine key": (config("engine: toy", "engine: other"), ("config", "`engine`: toy → other")),
    "a key that nobody knows": (
        {TOY + "configs/tiny.yaml": CONFIG + "precision: bf16\n"},
        ("config", "`precision`: nothing → bf16"),
    ),
    "checkpointing among harmless keys": (
        config("steps: 3", "steps: 3\n  activation_checkpointing: true"),
        ("config", "`train.activation_checkpointing`: nothing → True"),
    ),
    "a type that equals another": (
        config("dim: 8", "dim: 8.0"),
        ("config", "`model.dim`: 8 → 8.0"),
    ),
    "a new config": (
        {TOY + "configs/big.yaml": CONFIG},
        ("config", "the config was added"),
    ),
    "a deleted config": (
        {TOY + "configs/tiny.yaml": None},
        ("config", "the config was deleted"),
    ),
    "broken YAML": (
        {TOY + "configs/tiny.yaml": "engine: [toy\n"},
        ("unparsable", f"`{TOY}configs/tiny.yaml` cannot be compared: broken YAML: "),
    ),
    "a key that stands twice": (
        {TOY + "configs/tiny.yaml": CONFIG + "engine: toy\n"},
        ("unparsable", f"`{TOY}configs/tiny.yaml` cannot be compared: broken YAML: the key "
         "`engine` stands twice"),
    ),
    "a syntax error": (
        {TOY + "model.py": "class Toy(:\n"},
        ("unparsable", f"`{TOY}model.py` cannot be compared: syntax error: "),
    ),
    "not UTF-8": (
        {TOY + "model.py": b"x = '\xff'\n"},
        ("unparsable", f"`{TOY}model.py` cannot be compared: its encoding cannot be read"),
    ),
    "the impact test": (
        {IMPACT: "def test_it():\n    assert True\n"},
        ("prefetch-test", "the prefetch test `test_prefetch_edges_impact.py` changed"),
    ),
    "the smoke test deleted": (
        {TOY + "tests/test_smoke.py": None},
        ("prefetch-test", "the prefetch test `test_smoke.py` was deleted"),
    ),
    "a conftest of the tests": (
        {TOY + "tests/conftest.py": "X = 1\n"},
        ("prefetch-test", "the prefetch test `conftest.py` was added"),
    ),
    "the runtime": (
        {"runtime/distributed/fsdp2.py": "def apply_fsdp2(model):\n    return None\n"},
        ("runtime", "the runtime `runtime/distributed/fsdp2.py` changed: `apply_fsdp2`"),
    ),
    "torch's pin": (
        {"requirements.txt": FILES["requirements.txt"].replace("2.12.0", "2.13.0")},
        ("dependency-pin", "the pin of torch changed: `==2.12.0` → `==2.13.0`"),
    ),
    "the base image": (
        {"Dockerfile": FILES["Dockerfile"].replace("python:3.12", "nvcr.io/nvidia/pytorch:26.01")},
        ("dependency-pin", "the base image changed: nothing → `nvcr.io/nvidia/pytorch:26.01`"),
    ),
    "code after a hash in a string": (
        model('return rotate(self.attention(x))', 'return rotate(self.attention(x)), "#", 1'),
        ("wrap-target", "the wrap target `Block` changed (`forward`)"),
    ),
    "data in triple quotes": (
        model("DROPOUT = 0.1", 'DROPOUT = """\n# 0.2\n"""'),
        ("model-class", "`DROPOUT`, which `Block` mentions, changed"),
    ),
    "an import that the model uses": (
        model("from shared.blocks import Attention", "from shared.lonely import X as Attention"),
        ("model-class", "`Attention`, which `Block` mentions, changed"),
    ),
    "code that runs at import": (
        {TOY + "model.py": MODEL + "\ntorch.set_default_dtype(torch.bfloat16)\n"},
        ("builder", "code that runs when the module is imported changed"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SELECTED)
def test_selected(case, selection_of):
    files, (rule, detail) = SELECTED[case]
    selection = selection_of(files)
    toy = {recipe.name: recipe for recipe in selection.recipes}["toy"]
    found = [(reason.rule, reason.detail) for reason in toy.reasons]
    assert any(r == rule and d.startswith(detail) for r, d in found), found
    assert toy.reasons[0].location is not None


NOT_SELECTED = {
    "a comment": (
        model("# Attention first.", "# Attention, then the rest."),
        "only comments, docstrings or formatting changed",
    ),
    "a docstring": (
        model('"""A block."""', '"""One block of the model."""'),
        "only comments, docstrings or formatting changed",
    ),
    "formatting": (
        model("Attention(dim)\n", "Attention(\n            dim,\n        )\n"),
        "only comments, docstrings or formatting changed",
    ),
    "the learning rate": (
        config("lr: 0.001", "lr: 0.01"),
        "only `optim.lr` changed, which decides neither model nor sharding",
    ),
    "a comment in YAML": (
        config("engine: toy", "engine: toy  # the toy"),
        "only comments or formatting changed",
    ),
    "YAML in another style": (
        config("mesh: {shard: 2}", "mesh:\n    shard: 2"),
        "only comments or formatting changed",
    ),
    "a README": ({TOY + "README.md": "# Other\n"}, "documentation, which no recipe runs"),
    "the optimizer": (
        engine('"adam"', '"sgd"'),
        "only `ToyEngine.prepare_optimizer` changed, which nothing that builds or runs the model "
        "mentions",
    ),
    "the data": (
        {TOY + "data.py": FILES[TOY + "data.py"].replace("256", "512")},
        "only `VOCAB` changed, which nothing that builds or runs the model mentions",
    ),
    "a function beside the model": (
        model("return history", "return history[1:]"),
        "only `plot` changed, which nothing that builds or runs the model mentions",
    ),
    "a module that nobody imports": (
        {"shared/lonely.py": "X = 2\n"},
        "no recipe imports it",
    ),
    "another test of the recipe": (
        {TOY + "tests/test_data.py": "def test_data():\n    assert 1\n"},
        "a test that is none of the prefetch tests, and none of those imports it",
    ),
    "another pin": (
        {"requirements.txt": FILES["requirements.txt"].replace("numpy==2.0", "numpy==2.1")},
        "the releases of torch and transformers that it asks for are the same",
    ),
    "a comment beside a pin": (
        {"requirements.txt": FILES["requirements.txt"].replace("# pinned", "# torch!")},
        "the releases of torch and transformers that it asks for are the same",
    ),
    "a workflow": (
        {".github/workflows/ci.yml": "on: push\n"},
        "no recipe names this file",
    ),
    "a data file that nobody names": (
        {TOY + "notes.json": "{}\n"},
        "no code or config of the recipe names this file",
    ),
    "some other file": (
        {"tool.sh": "echo\n"},
        "not Python, not a recipe's config, not a pinned dependency",
    ),
}


@pytest.mark.parametrize("case", NOT_SELECTED)
def test_not_selected_but_named(case, selection_of):
    files, reason = NOT_SELECTED[case]
    selection = selection_of(files)
    assert selection.recipes == ()
    assert [(u.path, u.reason) for u in selection.unaffected] == [(next(iter(files)), reason)]


def names(selection):
    return [recipe.name for recipe in selection.recipes]


def reasons(selection, name="toy"):
    return {recipe.name: recipe for recipe in selection.recipes}[name].reasons


@pytest.mark.parametrize(
    ("source", "chain"),
    [
        ("from shared import blocks\n", ("shared/deep.py", "shared/__init__.py")),
        ("import shared.blocks as b\n", ("shared/deep.py", "shared/__init__.py")),
        ("from shared.deep import *\n", ("shared/deep.py",)),
        ("from shared import deep\n", ("shared/deep.py",)),
        ("def f():\n    from shared import deep\n", ("shared/deep.py",)),
        ("from importlib import import_module\nimport_module('shared.deep')\n",
         ("shared/deep.py",)),
    ],
)  # fmt: skip
def test_every_import_form_carries_a_change(repository, source, chain):
    files = {"recipes/form/model.py": source, "recipes/form/__init__.py": ""}
    base = repository.commit(files)
    repository.commit({"shared/deep.py": "DEEP = 2\n"})
    selection = repository.select(base)
    (reason,) = reasons(selection, "form")
    assert reason.rule == "imported-module"
    assert reason.detail == "the module `shared/deep.py` changed: `DEEP`"
    assert reason.chain == (*chain, "recipes/form/model.py")


def test_a_lazy_export_carries_a_change(repository):
    lazy = "_T = {'Attention': '.blocks'}\n\n\ndef __getattr__(name):\n    return load(name)\n"
    base = repository.commit(
        {
            "lazy/__init__.py": lazy,
            "lazy/blocks.py": "class Attention: pass\n",
            TOY + "model.py": MODEL.replace("shared.blocks", "lazy"),
        }
    )
    repository.commit({"lazy/blocks.py": "class Attention: x = 1\n"})
    (reason,) = reasons(repository.select(base))
    assert reason.chain == ("lazy/blocks.py", "lazy/__init__.py", TOY + "model.py")


def test_a_relative_module_import_carries_a_change(repository):
    base = repository.commit(
        {
            TOY + "layers/__init__.py": "from . import norm\n",
            TOY + "layers/norm.py": "from torch import nn\n\n\nclass Norm(nn.Module): pass\n",
            TOY + "model.py": MODEL + "\n\nfrom .layers import norm as n\n",
        }
    )
    repository.commit(
        {TOY + "layers/norm.py": "from torch import nn\n\n\nclass Norm(nn.Module): x = 1\n"}
    )
    (reason,) = reasons(repository.select(base))
    assert (reason.rule, reason.detail) == ("model-class", "the model class `Norm` changed (`x`)")


def test_a_module_that_only_a_test_imports(selection_of):
    selection = selection_of({"runtime/engine.py": "class Engine:\n    x = 1\n"})
    (reason,) = reasons(selection)
    assert reason.rule == "imported-module"
    assert reason.chain == ("runtime/engine.py", TOY + "engine.py")
    assert names(selection) == ["toy"]


def test_imports_in_a_circle(repository):
    deep = "from shared import blocks\nDEEP = 1\n"
    blocks = "import shared.deep\nclass Attention: pass\n"
    base = repository.commit({"shared/deep.py": deep, "shared/blocks.py": blocks})
    repository.commit({"shared/deep.py": "from shared import blocks\nDEEP = 2\n"})
    assert names(repository.select(base)) == ["toy"]


def test_the_runtime_selects_every_recipe_torch_too_transformers_only_its_users(repository):
    def selected(files):
        repository.git("checkout", "--quiet", "-B", "topic", "main")
        repository.commit(files)
        return names(repository.select())

    pins = FILES["requirements.txt"]
    assert selected({"runtime/distributed/new.py": "X = 1\n"}) == []
    assert selected({"mvp_engine/distributed/new.py": "X = 1\n"}) == ["plain", "toy"]
    assert selected({"requirements.txt": pins.replace("2.12.0", "2.13.0")}) == ["plain", "toy"]
    assert selected({"requirements.txt": pins.replace("5.1.0", "5.2.0")}) == ["plain"]
    lock = '[[package]]\nname = "torch"\nversion = "2.12.0"\n'
    base = repository.commit({"uv.lock": lock})
    repository.commit({"uv.lock": lock.replace("2.12.0", "2.13.0")})
    (reason,) = reasons(repository.select(base))
    assert reason.detail == "the pin of torch changed: `==2.12.0` → `==2.13.0`"


def test_a_rename_is_followed(repository):
    repository.git("mv", TOY + "rope.py", TOY + "rotary.py")
    repository.commit({TOY + "model.py": MODEL.replace(".rope", ".rotary")})
    selection = repository.select()
    assert [(r.rule, r.detail) for r in reasons(selection)] == [
        ("model-class", "`rotate`, which `Block` mentions, changed"),
        ("model-class", f"the module was renamed from `{TOY}rope.py`"),
    ]
    assert selection.unaffected == ()


def test_a_renamed_document_and_a_renamed_config_select_nothing(repository):
    repository.git("mv", "README.md", "READ.md")
    repository.git("mv", TOY + "configs/tiny.yaml", TOY + "configs/small.yaml")
    repository.commit()
    selection = repository.select()
    assert [(u.path, u.reason) for u in selection.unaffected] == [
        ("READ.md", "documentation, which no recipe runs"),
        (TOY + "configs/small.yaml", "it was renamed"),
    ]


def test_a_renamed_and_edited_config_is_compared_as_data(repository):
    repository.git("mv", TOY + "configs/tiny.yaml", TOY + "configs/small.yaml")
    repository.commit({TOY + "configs/small.yaml": CONFIG.replace("shard: 2", "shard: 8")})
    (reason,) = reasons(repository.select())
    assert reason.detail == "`parallel.mesh.shard`: 2 → 8"


def test_a_renamed_recipe_is_new(repository):
    repository.git("mv", "recipes/plain", "recipes/fancy")
    repository.commit()
    selection = repository.select()
    assert names(selection) == ["fancy"]
    assert {r.detail for r in reasons(selection, "fancy")} == {
        "the recipe is new, renamed from `plain`"
    }
    assert selection.notes == ("Recipe `plain` was deleted.",)


def test_a_new_and_a_deleted_recipe(selection_of):
    selection = selection_of(
        {
            "recipes/new/model.py": "X = 1\n",
            "recipes/plain/__init__.py": None,
            "recipes/plain/model.py": None,
            "recipes/plain/configs/a.yaml": None,
        }
    )
    assert names(selection) == ["new"]
    assert [r.detail for r in reasons(selection, "new")] == ["the recipe is new"]
    assert {u.reason for u in selection.unaffected} == {"recipe `plain` was deleted"}


def test_a_folder_without_engine_model_or_configs_is_no_recipe(selection_of):
    selection = selection_of({"recipes/shared_code/text.py": "X = 1\n"})
    assert names(selection) == []


def test_a_dynamic_import_takes_in_what_cannot_be_followed(repository):
    dynamic = "import importlib\nimport sys\nimportlib.import_module(sys.argv[1])\n"
    base = repository.commit({TOY + "extra.py": dynamic})
    repository.commit({"shared/lonely.py": "X = 2\n"})
    (reason,) = reasons(repository.select(base))
    assert reason.rule == "unknown"
    assert reason.location == Location(path="shared/lonely.py")
    assert reason.detail == (
        "`shared/lonely.py` changed, and what the recipe imports is not known: "
        f"{TOY}extra.py:3 imports a module whose name is made at run time"
    )


def test_a_change_that_git_cannot_compare_is_taken(repository):
    (repository.path / TOY / "link.py").symlink_to("/etc/passwd")
    repository.commit()
    (reason,) = reasons(repository.select())
    assert reason.rule == "unknown"
    assert reason.detail.startswith(f"`{TOY}link.py`, a link or submodule whose content")


def test_only_the_mode_changed(repository):
    (repository.path / TOY / "model.py").chmod(0o755)
    repository.commit()
    selection = repository.select()
    assert [(u.path, u.reason) for u in selection.unaffected] == [
        (TOY + "model.py", "only its file mode changed")
    ]


@pytest.mark.parametrize("name", ["a b.py", "a\nb.py", 'a"b.py', "ü.py", "-x.py", "\udcff.py"])
def test_odd_file_names(selection_of, name):
    selection = selection_of({name: "x = 1\n", "shared/" + name: "x = 1\n"})
    shown = name.replace("\udcff", r"\xff")
    assert sorted(u.path for u in selection.unaffected) == sorted([shown, "shared/" + shown])
    assert Selection.model_validate_json(selection.model_dump_json()) == selection


def test_a_file_too_large_to_be_source(selection_of):
    selection = selection_of({TOY + "model.py": b"x = 1\n" + b"#" * (17 * 2**20)})
    (reason,) = reasons(selection)
    assert reason.detail == (
        f"`{TOY}model.py` cannot be compared: it is too large to be read as source"
    )


def test_nothing_at_all(repository):
    repository.commit()
    selection = repository.select()
    assert (selection.recipes, selection.unaffected) == ((), ())
    assert selection.notes == ("The two commits have the same files.",)


def test_no_recipes_at_all(repository):
    repository.git("rm", "-r", "--quiet", "recipes")
    repository.commit()
    assert "There is no recipe under `recipes/`." in repository.select().notes


def test_every_changed_file_is_a_reason_or_unaffected(repository):
    every = {}
    for files, _ in [*SELECTED.values(), *NOT_SELECTED.values()]:
        every |= {path: text for path, text in files.items() if path not in every}
    repository.commit(every)
    selection = repository.select()
    changed = set(repository.git("diff", "--name-only", "main").splitlines())
    explained = {r.location.path for recipe in selection.recipes for r in recipe.reasons}
    unaffected = {u.path for u in selection.unaffected}
    assert changed == (explained & changed) | unaffected
    assert not explained & unaffected
    assert len(unaffected) == len(selection.unaffected)


def test_nothing_is_checked_out(repository):
    repository.commit(model("range(3)", "range(5)"))
    repository.git("checkout", "--quiet", "main")
    before = sorted(path.stat().st_mtime_ns for path in repository.path.rglob("*.py"))
    assert names(repository.select("main", "topic")) == ["toy"]
    assert sorted(path.stat().st_mtime_ns for path in repository.path.rglob("*.py")) == before
    assert repository.git("status", "--porcelain") == ""
