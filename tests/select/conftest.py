"""Real git repositories for the selection: a small training repository, and edits to it."""

from __future__ import annotations

import os
import subprocess
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from action.records import Reason, Selection
from action.repository.git import Git
from action.select import select

Content = str | bytes | None

_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}

_VIT_MODEL = '''
"""A small vision transformer."""

import torch
from torch import nn

import shared.layers as layers
from recipes.vit.positions import sincos


class Norm(nn.Module):
    def forward(self, x):
        return x


class Block(nn.Module):
    """One pre-norm block."""

    def __init__(self, config):
        super().__init__()
        self.norm = Norm()

    def forward(self, x):
        return x + layers.attend(self.norm(x))  # residual


def apply_fsdp2_custom_prefetching_for_vit(model: nn.Module) -> None:
    if getattr(model, "_fsdp2_prefetching_configured", False):
        return
    for block, following in zip(model.blocks, model.blocks[1:]):
        block.set_modules_to_forward_prefetch([following])
    model._fsdp2_prefetching_configured = True


def split_head(module, mesh):
    return module


class ViT(nn.Module):
    _no_split_modules = ["Block"]
    APPLY_FSDP2_CUSTOM_PREFETCHING = apply_fsdp2_custom_prefetching_for_vit
    TP_MODULE_CONFIG = {"blocks.*.proj": "rowwise"}
    TP_MODULE_POSTPROCESSORS = [split_head]

    def __init__(self, config):
        super().__init__()
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.depth))
        self.positions = sincos(config.width)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
'''
_VIT_ENGINE = """
from mvp_engine.distributed.parallelize import parallelize_model
from mvp_engine.engine import Engine, register_engine
from recipes.vit.builder import build_model
from recipes.vit.config import VitConfig
from recipes.vit.data import Digits


@register_engine("vit")
class VitEngine(Engine):
    config_schema = VitConfig

    def prepare_model(self):
        model = self._new_model()
        return parallelize_model(model, self.mesh, self.config.parallel.backend_kwargs)

    def _new_model(self):
        return build_model(self.config.model)

    def prepare_optimizer(self):
        return make_optimizer(self.model, lr=self.config.optim.lr)

    def prepare_dataloader(self):
        return Digits(batch_size=4)

    def forward_step(self, batch):
        return self.model(batch["pixels"]).sum()


def make_optimizer(model, lr):
    return ("adamw", lr)
"""
_CONFIG = """
engine: vit
model:
  depth: 4
  width: 64
parallel:
  mesh: {replicate: 1, shard: 2}
  backend_kwargs:
    fsdp2:
      target_classes: [Block]
optim:
  lr: 0.001
train:
  steps: 10
"""
_QWEN_MODEL = """
from torch import nn
from transformers import Qwen3ForCausalLM
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer

from shared import Rotary

from .extras import *


def apply_fsdp2_custom_prefetching_for_qwen(model):
    for layer, following in zip(model.model.layers, model.model.layers[1:]):
        layer.set_modules_to_forward_prefetch([following])


class Qwen(Qwen3ForCausalLM):
    _no_split_modules = ["Qwen3DecoderLayer"]
    APPLY_FSDP2_CUSTOM_PREFETCHING = apply_fsdp2_custom_prefetching_for_qwen

    def rotate(self, x):
        return Rotary()(scale(x))
"""

FILES: dict[str, Content] = {
    "README.md": "# Training\n",
    "requirements.txt": "torch==2.6.0  # the trainer\ntransformers>=5,<6\nnumpy==2.0\n",
    "docker/Dockerfile": "FROM nvidia/cuda:12.4.0-runtime\nRUN pip install uv\n",
    "recipes/__init__.py": "",
    "recipes/vit/__init__.py": "",
    "recipes/vit/README.md": "# ViT\n",
    "recipes/vit/model.py": _VIT_MODEL,
    "recipes/vit/positions.py": "def sincos(width):\n    return list(range(width))\n",
    "recipes/vit/builder.py": (
        "from recipes.vit.model import ViT\n\n\ndef build_model(config):\n    return ViT(config)\n"
    ),
    "recipes/vit/config.py": "class VitConfig:\n    depth: int = 4\n",
    "recipes/vit/data.py": """
        import json

        CORPUS = '''
        def forward(self): return 1  # data that looks like code
        '''


        class Digits:
            def __init__(self, batch_size):
                self.batch_size = batch_size

            def tokenize(self, text):
                return text.split()
        """,
    "recipes/vit/engine.py": _VIT_ENGINE,
    "recipes/vit/configs/tiny.yaml": _CONFIG,
    "recipes/vit/tests/test_structure.py": "from recipes.vit.model import ViT\n",
    "recipes/vit/tests/test_smoke.py": "from mvp_engine.testing import train_smoke\n",
    "recipes/vit/tests/test_data.py": "from recipes.vit.data import Digits\n",
    "recipes/vit/tests/skills/fsdp2-prefetching/asserts.py": "def same(a, b):\n    assert a is b\n",
    "recipes/vit/tests/skills/fsdp2-prefetching/probe.py": "def build():\n    return None\n",
    "recipes/vit/tests/skills/fsdp2-prefetching/edges.json": "{}\n",
    "recipes/qwen/__init__.py": "",
    "recipes/qwen/model.py": _QWEN_MODEL,
    "recipes/qwen/extras.py": "def scale(x):\n    return x * 2\n",
    "recipes/qwen/engine.py": """
        from mvp_engine.engine import Engine, register_engine
        from . import model


        @register_engine("qwen")
        class QwenEngine(Engine):
            def prepare_model(self):
                return model.Qwen.from_config(self.config.model)
        """,
    "recipes/qwen/configs/tiny.yml": "engine: qwen\nmodel: {layers: 2}\noptim: {lr: 0.1}\n",
    "recipes/qwen/tests/test_smoke.py": "from mvp_engine.testing import train_smoke\n",
    "shared/__init__.py": """
        import importlib

        _EXPORTS = {"Rotary": ".rotary", "Pooler": ".pooling"}


        def __getattr__(name):
            return getattr(importlib.import_module(_EXPORTS[name], __name__), name)
        """,
    "shared/rotary.py": "from . import angles as a\n\n\nclass Rotary:\n    base = a.BASE\n",
    "shared/angles.py": "BASE = 10_000\n",
    "shared/pooling.py": "class Pooler:\n    pass\n",
    "shared/layers.py": "from shared.kernels import *\n\n\ndef attend(x):\n    return softmax(x)\n",
    "shared/kernels.py": "import shared.layers\n\n\ndef softmax(x):\n    return x\n",
    "tools/plot.py": "def plot():\n    return 1\n",
    "mvp_engine/__init__.py": "",
    "mvp_engine/distributed/__init__.py": "",
    "mvp_engine/distributed/fsdp2.py": "def apply_fsdp2(model):\n    return model\n",
    "mvp_engine/distributed/parallelize.py": """
        from mvp_engine.distributed.fsdp2 import apply_fsdp2


        def parallelize_model(model, mesh, kwargs):
            return apply_fsdp2(model)
        """,
    "mvp_engine/engine.py": """
        class Engine:
            def __init__(self, config, mesh):
                self.config = config


        def register_engine(name):
            return lambda cls: cls
        """,
    "mvp_engine/testing.py": "from mvp_engine import loop\n\n\ndef train_smoke():\n    loop.run()\n",
    "mvp_engine/loop.py": "def run():\n    return 0\n",
}


class Repository:
    """A git repository in a folder of the test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        return git(self.root, *arguments)

    def write(self, files: Mapping[str, Content]) -> None:
        for path, content in files.items():
            file = self.root / path
            if content is None:
                file.unlink()
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                content = textwrap.dedent(content).encode()
            file.write_bytes(content)

    def commit(self, files: Mapping[str, Content] | None = None, message: str = "change") -> str:
        self.write(files or {})
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        return self.head()

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def read(self, path: str) -> str:
        return (self.root / path).read_text()

    def replace(self, path: str, old: str, new: str) -> None:
        text = self.read(path)
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {path}"
        (self.root / path).write_text(text.replace(old, new))

    def select(self, base: str = "base", head: str = "HEAD") -> Selection:
        here = Git(self.root)
        return select(here, here.commit(base), here.commit(head))


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *arguments],
        cwd=root, env=_ENVIRONMENT, check=True, capture_output=True,
    )  # fmt: skip
    return done.stdout.decode(errors="surrogateescape").strip()


@pytest.fixture(scope="session")
def _template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repository = Repository(tmp_path_factory.mktemp("template") / "repository")
    repository.commit(FILES, "base")
    repository.git("tag", "base")
    return repository.root


@pytest.fixture
def repository(tmp_path: Path, _template: Path) -> Repository:
    """The training repository above, with its one commit tagged `base`."""
    root = tmp_path / "repository"
    subprocess.run(["cp", "-r", str(_template), str(root)], check=True)
    copy = object.__new__(Repository)
    copy.root = root
    return copy


@pytest.fixture
def empty(tmp_path: Path) -> Callable[[str], Repository]:
    """Make an empty repository of a given name."""
    return lambda name: Repository(tmp_path / name)


def reasons(selection: Selection) -> dict[str, list[Reason]]:
    return {recipe.name: list(recipe.reasons) for recipe in selection.recipes}


def rules(selection: Selection) -> dict[str, set[str]]:
    return {name: {reason.rule for reason in found} for name, found in reasons(selection).items()}


def unaffected(selection: Selection) -> dict[str, str]:
    return {file.path: file.reason for file in selection.unaffected}


def uncovered(repository: Repository, selection: Selection) -> set[str]:
    """Return the changed paths that are not in exactly one of reasons and `unaffected`."""
    assert selection.merge_base is not None
    listing = repository.git(
        "diff-tree", "-r", "-z", "--name-only", "-M", selection.merge_base, selection.head
    )
    changed = set(filter(None, listing.split("\0")))
    reasoned = {
        reason.location.path if reason.location is not None else ""
        for found in reasons(selection).values()
        for reason in found
    }
    idle = unaffected(selection)
    assert len(idle) == len(selection.unaffected)
    return {path for path in changed if (path in reasoned) == (path in idle)}
