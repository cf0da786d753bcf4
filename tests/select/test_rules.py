"""What selects a recipe, what does not, and in which words: one edit of a repository each."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from .conftest import Repository
from .training import FILES, check_each_change_ends_once, said

VIT = "recipes/vit"
QWEN = "recipes/qwen"
TESTS = f"{VIT}/tests/skills/fsdp2-prefetching"
Files = Mapping[str, str | bytes | None]


def edit(path: str, old: str, new: str) -> dict[str, str]:
    text = FILES[path]
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {path}"
    return {path: text.replace(old, new)}


def appended(path: str, text: str) -> dict[str, str]:
    return {path: FILES[path] + text}


SELECTED: dict[str, tuple[Files, dict[str, list[tuple[str, str]]]]] = {
    "a class that the model only contains is no wrap target": (
        edit(f"{VIT}/model.py", "class Norm(nn.Module):\n    def forward(self, x):\n",
             "class Norm(nn.Module):\n    def forward(self, x):\n        x = x * 2\n"),
        {"vit": [("model-class", "the model class `Norm` changed (`forward`)")]},
    ),
    "the list of targets, with what it says": (
        edit(f"{VIT}/model.py", '["Block"]', '["Block", "Norm"]'),
        {"vit": [("wrap-target", '`ViT._no_split_modules` changed: `[\'Block\']` → '
                  "`['Block', 'Norm']`")]},
    ),
    "the hook's binding, with what it binds": (
        edit(f"{VIT}/model.py", "PREFETCHING = apply_fsdp2_custom_prefetching_for_vit",
             "PREFETCHING = None"),
        {"vit": [("hook", "`ViT.APPLY_FSDP2_CUSTOM_PREFETCHING` changed: "
                  "`apply_fsdp2_custom_prefetching_for_vit` → `None`")]},
    ),
    "a TP postprocessor": (
        edit(f"{VIT}/model.py", "def split_head(module, mesh):\n    return module",
             "def split_head(module, mesh):\n    return module.split()"),
        {"vit": [("tp-attributes", "`split_head`, which `ViT.TP_MODULE_POSTPROCESSORS` mentions, "
                  "changed")]},
    ),
    "a method that sets edges does not make its class the hook": (
        edit(f"{VIT}/model.py", "    def forward(self, x):\n        for block",
             "    def prefetch(self):\n        self.blocks[0].set_modules_to_forward_prefetch([])\n"
             "\n    def forward(self, x):\n        for block"),
        {"vit": [("model-class", "the model class `ViT` changed (`prefetch`)")]},
    ),
    "a function registered by a decorator": (
        appended(f"{VIT}/positions.py", "\n\n@register('rope')\ndef rope(x):\n    return x\n"),
        {"vit": [("builder", "`rope`, which registers itself when its module is imported, "
                  "was added")]},
    ),
    "a function registered by a call": (
        appended(f"{VIT}/data.py", "\n\ndef flash(q):\n    return q\n\n_ = REGISTRY.add(flash)\n"),
        {"vit": [("builder", "`_`, which registers something when its module is imported, "
                  "was added"), ("builder", "`flash`, which `_` mentions, was added")]},
    ),
    "a monkeypatch in a module that the engine imports": (
        appended(f"{VIT}/data.py", "\n\nimport recipes.vit.model as m\nm.Block.forward = None\n"),
        {"vit": [("builder", "code that runs when the module is imported changed")]},
    ),
    "a helper method of the engine": (
        edit(f"{VIT}/engine.py", "return build_model(self.config.model)",
             "return build_model(self.config.model).half()"),
        {"vit": [("builder", "`VitEngine._new_model`, which `VitEngine.prepare_model` mentions, "
                  "changed")]},
    ),
    "a method of an object that the model is given": (
        edit(f"{VIT}/engine.py", 'self.model(batch["pixels"]).sum()',
             'self.model(batch.crop(batch["pixels"])).sum()')
        | edit(f"{VIT}/data.py", "    def tokenize(self, text)",
               "    def crop(self, pixels):\n        return pixels\n\n"
               "    def tokenize(self, text)"),
        {"vit": [("builder", "`VitEngine.forward_step`, which builds or runs the model, changed"),
                 ("builder", "`Digits`, whose `crop` `VitEngine.forward_step` mentions, "
                  "changed")]},
    ),
    "a config above the recipes that one of them names without its suffix": (
        edit(f"{VIT}/configs/tiny.yaml", "engine: vit\n", "engine: vit\ndefaults: [../base]\n")
        | {"recipes/configs/base.yaml": "model: {depth: 3}\n"},
        {"vit": [("config", "`defaults[0]`: nothing → ../base"),
                 ("config", "the config was added")]},
    ),
    "a module imported by an alias within an alias": (
        edit("shared/angles.py", "10_000", "1_000_000"),
        {name: [("imported-module", "the module `shared/angles.py` changed: `BASE`")]
         for name in ("vit", "qwen")},
    ),
    "a lazy export that nobody uses here still may be imported": (
        edit("shared/pooling.py", "pass", "size = 1"),
        {"vit": [("imported-module", "the module `shared/pooling.py` changed: `Pooler`")],
         "qwen": [("imported-module", "the module `shared/pooling.py` changed: `Pooler`")]},
    ),
    "a star import, in a circle": (
        edit("shared/kernels.py", "return x", "return -x"),
        {"vit": [("imported-module", "the module `shared/kernels.py` changed: `softmax`")]},
    ),
    "a star import within the recipe": (
        edit(f"{QWEN}/extras.py", "x * 2", "x * 3"),
        {"qwen": [("model-class", "`scale`, which `Qwen` mentions, changed")]},
    ),
    "mvp_engine/distributed": (
        edit("mvp_engine/distributed/fsdp2.py", "return model", "return None"),
        {"vit": [("runtime", "the runtime `mvp_engine/distributed/fsdp2.py` changed: "
                  "`apply_fsdp2`")],
         "qwen": [("runtime", "the runtime `mvp_engine/distributed/fsdp2.py` changed: "
                   "`apply_fsdp2`")]},
    ),
    "what only the smoke test imports": (
        edit("mvp_engine/loop.py", "return 0", "return 1"),
        {"vit": [("imported-module", "the module `mvp_engine/loop.py` changed: `run`")],
         "qwen": [("imported-module", "the module `mvp_engine/loop.py` changed: `run`")]},
    ),
    "a conftest that pytest loads for the prefetch tests": (
        {"recipes/conftest.py": "import sys\n"},
        {"vit": [("prefetch-test", "`recipes/conftest.py`, which pytest loads for the prefetch "
                  "tests, was added")],
         "qwen": [("prefetch-test", "`recipes/conftest.py`, which pytest loads for the prefetch "
                   "tests, was added")]},
    ),
    "data of the prefetch tests": (
        {f"{TESTS}/edges.json": "[]\n"},
        {"vit": [("prefetch-test", f"`{TESTS}/edges.json`, a file of the prefetch tests, "
                  "changed")]},
    ),
    "YAML of the prefetch tests is no config": (
        {f"{TESTS}/edges.yaml": "optim: 1\n"},
        {"vit": [("prefetch-test", f"`{TESTS}/edges.yaml`, a file of the prefetch tests, "
                  "was added")]},
    ),
    "an edge helper in the tests": (
        {f"{TESTS}/asserts.py": "def same(a, b):\n    assert a == b\n"},
        {"vit": [("prefetch-test", "the prefetch test `asserts.py` changed")]},
    ),
    "torch's pin selects all": (
        edit("requirements.txt", "torch==2.6.0", "torch==2.7.0"),
        {"vit": [("dependency-pin", "the pin of torch changed: `==2.6.0` → `==2.7.0`")],
         "qwen": [("dependency-pin", "the pin of torch changed: `==2.6.0` → `==2.7.0`")]},
    ),
    "transformers' pin selects who imports it": (
        edit("requirements.txt", "transformers>=5,<6", "transformers>=5.1,<6"),
        {"qwen": [("dependency-pin", "the pin of transformers changed: `<6,>=5` → `<6,>=5.1`")]},
    ),
    "a pin of one recipe": (
        {f"{QWEN}/requirements.txt": "torch==2.7\n"},
        {"qwen": [("dependency-pin", "the pin of torch changed: nothing → `==2.7`")]},
    ),
    "an image that brings torch": (
        {"docker/Dockerfile": "FROM pytorch/pytorch:2.6.0-cuda12.4\nRUN pip install uv\n"},
        {name: [("dependency-pin", "the base image changed: nothing → "
                 "`pytorch/pytorch:2.6.0-cuda12.4`")] for name in ("vit", "qwen")},
    ),
    "the index that torch comes from": (
        {"requirements.txt": "--extra-index-url https://download.pytorch.org/whl/cu124\n"
         + FILES["requirements.txt"]},
        {name: [("dependency-pin", "the index of torch changed: nothing → "
                 "`https://download.pytorch.org/whl/cu124`")] for name in ("vit", "qwen")},
    ),
    "a key that prepare_model() reads from a harmless section": (
        edit(f"{VIT}/engine.py", "build_model(self.config.model)",
             "build_model(self.config.model, self.config.train.seed)")
        | edit(f"{VIT}/configs/tiny.yaml", "steps: 10", "steps: 10\n  seed: 1"),
        {"vit": [("config", "`train.seed`: nothing → 1"),
                 ("builder", "`VitEngine._new_model`, which `VitEngine.prepare_model` mentions, "
                  "changed")]},
    ),
    "an engine in a config that lies elsewhere": (
        edit(f"{VIT}/configs/tiny.yaml", "engine: vit", "engine: shared.engines:VitEngine"),
        {"vit": [("config", "`engine`: vit → shared.engines:VitEngine")]},
    ),
    "an unparsable module of the runtime": (
        {"mvp_engine/distributed/mesh.py": "def (:\n"},
        {name: [("unparsable", "`mvp_engine/distributed/mesh.py` cannot be compared: "
                 "syntax error: invalid syntax")] for name in ("vit", "qwen")},
    ),
    "code run by exec": (
        edit(f"{VIT}/engine.py", "return Digits(batch_size=4)", "exec(SOURCE)"),
        {"vit": [("unknown", "`VitEngine.prepare_dataloader` changed, and what the recipe reaches "
                  f"is not known: {VIT}/engine.py:24 calls exec()")]},
    ),
    "a future statement": (
        {f"{VIT}/builder.py":
         "from __future__ import annotations\n\n" + FILES[f"{VIT}/builder.py"]},
        {"vit": [("builder", "code that runs when the module is imported changed")]},
    ),
    "a file that the model's code reads": (
        edit(f"{VIT}/positions.py", "return list(range(width))", "return open('table.json').read()")
        | {f"{VIT}/table.json": "[1]\n"},
        {"vit": [("model-class", "`sincos`, which `ViT` mentions, changed"),
                 ("unknown", f"`{VIT}/table.json` was added, and `sincos` in {VIT}/positions.py "
                  "names it")]},
    ),
    "a config without merge keys as before, but for one": (
        edit(f"{VIT}/configs/tiny.yaml", "  depth: 4\n  width: 64\n",
             "  <<: &base {depth: 4, width: 64}\n  depth: 5\n"),
        {"vit": [("config", "`model.depth`: 4 → 5")]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SELECTED)
def test_selected(case: str, training: Repository) -> None:
    files, expected = SELECTED[case]
    training.commit(files)
    selection = training.select()
    check_each_change_ends_once(training, selection)
    found = said(selection)
    assert found.keys() == expected.keys(), (found, selection.unaffected)
    for name, wanted in expected.items():
        assert sorted(found[name]) == sorted(wanted)


NOT_SELECTED: dict[str, tuple[Files, str]] = {
    "a docstring of an attribute": (
        edit(f"{VIT}/model.py", '    _no_split_modules = ["Block"]\n',
             '    _no_split_modules = ["Block"]\n    """What FSDP2 wraps."""\n'),
        "only comments, docstrings or formatting changed",
    ),
    "line ends": (
        {f"{VIT}/model.py": FILES[f"{VIT}/model.py"].replace("\n", "\r\n")},
        "only comments, docstrings or formatting changed",
    ),
    "a byte order mark": (
        {f"{VIT}/model.py": "\ufeff" + FILES[f"{VIT}/model.py"]},
        "only comments, docstrings or formatting changed",
    ),
    "the tokenizer": (
        edit(f"{VIT}/data.py", "text.split()", "list(text)"),
        "only `Digits` changed, which nothing that builds or runs the model mentions",
    ),
    "data that looks like code": (
        edit(f"{VIT}/data.py", "def forward(self): return 1", "def forward(self): return 2"),
        "only `CORPUS` changed, which nothing that builds or runs the model mentions",
    ),
    "the optimizer and its helper": (
        edit(f"{VIT}/engine.py", '("adamw", lr)', '("sgd", lr)'),
        "only `make_optimizer` changed, which nothing that builds or runs the model mentions",
    ),
    "a data loader's prefetching": (
        edit(f"{VIT}/configs/tiny.yaml", "train:\n", "data:\n  prefetch_factor: 2\ntrain:\n"),
        "only `data.prefetch_factor` changed, which decides neither model nor sharding",
    ),
    "a merge key that says the same": (
        edit(f"{VIT}/configs/tiny.yaml", "  depth: 4\n  width: 64\n",
             "  <<: {depth: 4, width: 32}\n  width: 64\n"),
        "only comments or formatting changed",
    ),
    "tests of the runtime": (
        {"tests/distributed/test_fsdp2.py": "def test_it():\n    assert 1\n"},
        "no recipe imports it",
    ),
    "a broken file that nobody imports": (
        {"tools/plot.py": "def (:\n"},
        "it cannot be parsed, but no recipe imports it",
    ),
    "code that is shared, but not by recipes": (
        {"recipes/text_tools/clean.py": "X = 1\n"},
        "no recipe imports it",
    ),
    "another package that needs torch, in a lock file": (
        {"uv.lock": '[[package]]\nname = "accelerate"\nversion = "1.0"\n'
                    'dependencies = [{ name = "torch" }]\n'},
        "it states no release of torch or transformers",
    ),
    "torch in a description": (
        {"pyproject.toml": '[project]\nname = "x"\ndescription = "torch, transformers"\n'
                           'keywords = ["torch"]\n[tool.mypy]\noverrides = ["torch.*"]\n'},
        "it states no release of torch or transformers",
    ),
    "a relative of torch": (
        edit("requirements.txt", "numpy==2.0", "numpy==2.0\ntorchvision==0.21\ntorch-geometric==2"),
        "the releases of torch and transformers that it asks for are the same",
    ),
    "the order and the spelling of pins": (
        {"requirements.txt": "numpy==2.0\ntransformers <6,>=5\nTorch == 2.6.0\n"},
        "the releases of torch and transformers that it asks for are the same",
    ),
    "a base image without torch": (
        edit("docker/Dockerfile", "12.4.0", "12.6.0"),
        "it states no release of torch or transformers",
    ),
    "a README beside the prefetch tests": (
        {f"{TESTS}/README.md": "# Edges\n"},
        "documentation, which no recipe runs",
    ),
    "a script's main guard": (
        appended(f"{VIT}/model.py", "\n\nif __name__ == '__main__':\n    print(ViT)\n"),
        "only `__main__` changed, which nothing that builds or runs the model mentions",
    ),
    "a data file that only the data code reads": (
        {f"{VIT}/notes.txt": "x\n"},
        "no code or config of the recipe names this file",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_SELECTED)
def test_not_selected_but_named(case: str, training: Repository) -> None:
    files, reason = NOT_SELECTED[case]
    training.commit(files)
    selection = training.select()
    check_each_change_ends_once(training, selection)
    assert said(selection) == {}
    assert [(file.path, file.reason) for file in selection.unaffected] == [
        (path, reason) for path in files
    ]
