"""A training repository with two recipes, in real git, for selecting from."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from action.records import Selection
from action.repository.git import Git
from action.select import select

MODEL = '''
import torch
from torch import nn

from shared.blocks import Attention

from .rope import rotate

DROPOUT = 0.1


class Block(nn.Module):
    """A block."""

    def __init__(self, dim):
        super().__init__()
        self.attention = Attention(dim)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x):
        # Attention first.
        return rotate(self.attention(x))


def apply_prefetching(model: nn.Module) -> None:
    if getattr(model, "_fsdp2_prefetching_configured", False):
        return
    for block, following in zip(model.blocks, model.blocks[1:]):
        block.set_modules_to_forward_prefetch([following])
    model._fsdp2_prefetching_configured = True


class Toy(nn.Module):
    _no_split_modules = ["Block"]
    APPLY_FSDP2_CUSTOM_PREFETCHING = apply_prefetching
    TP_MODULE_CONFIG = {"blocks.*.proj": "colwise"}

    def __init__(self, dim):
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def plot(history):
    return history
'''
ENGINE = """
from runtime.distributed.fsdp2 import apply_fsdp2
from runtime.engine import Engine, register_engine

from recipes.toy.data import batches
from recipes.toy.model import Toy


def build_model(config):
    return Toy(config.dim)


@register_engine("toy")
class ToyEngine(Engine):
    def prepare_model(self):
        model = build_model(self.config)
        return apply_fsdp2(model)

    def prepare_optimizer(self):
        return "adam"

    def prepare_dataloader(self):
        return batches()
"""
CONFIG = """\
engine: toy
model:
  dim: 8
parallel:
  mesh: {shard: 2}
  backend_kwargs:
    fsdp2:
      target_classes: [Block]
optim:
  lr: 0.001
train:
  steps: 3
"""
PASSES = "def test_it():\n    assert 1 + 1 == 2\n"
IMPACT = "recipes/toy/tests/skills/fsdp2-prefetching/test_prefetch_edges_impact.py"
FILES: dict[str, str] = {
    "README.md": "# A training repository\n",
    "Dockerfile": "FROM python:3.12\nRUN pip install -r requirements.txt\n",
    "requirements.txt": "torch==2.12.0  # pinned\ntransformers==5.1.0\nnumpy==2.0\n",
    "runtime/__init__.py": "",
    "runtime/distributed/__init__.py": "",
    "runtime/distributed/fsdp2.py": "def apply_fsdp2(model):\n    return model\n",
    "runtime/engine.py": (
        "class Engine:\n    pass\n\n\ndef register_engine(name):\n    return lambda cls: cls\n"
    ),
    "shared/__init__.py": "from shared.deep import DEEP\n",
    "shared/blocks.py": "class Attention:\n    pass\n",
    "shared/deep.py": "DEEP = 1\n",
    "shared/lonely.py": "X = 1\n",
    "recipes/__init__.py": "",
    "recipes/toy/__init__.py": "",
    "recipes/toy/README.md": "# Toy\n",
    "recipes/toy/model.py": MODEL,
    "recipes/toy/rope.py": "def rotate(x):\n    return x\n",
    "recipes/toy/engine.py": ENGINE,
    "recipes/toy/data.py": "VOCAB = 256\n\n\ndef batches():\n    return iter(range(VOCAB))\n",
    "recipes/toy/configs/tiny.yaml": CONFIG,
    "recipes/toy/tests/test_structure.py": PASSES,
    "recipes/toy/tests/test_smoke.py": PASSES,
    "recipes/toy/tests/test_data.py": PASSES,
    IMPACT: PASSES,
    "recipes/plain/__init__.py": "",
    "recipes/plain/model.py": (
        "from transformers import Qwen3ForCausalLM\n\n\nclass Plain(Qwen3ForCausalLM):\n    pass\n"
    ),
    "recipes/plain/configs/a.yaml": "engine: plain\n",
}
_IDENTITY = ("-c", "user.name=author", "-c", "user.email=author@example.invalid")


@dataclass(frozen=True)
class Repository:
    """A real git repository in a folder."""

    path: Path

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *_IDENTITY, "-c", "protocol.file.allow=always", *arguments],
            cwd=self.path,
            env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"},
            check=True,
            capture_output=True,
        )
        return os.fsdecode(done.stdout).strip()

    def write(self, files: Mapping[str, str | bytes | None]) -> None:
        """Write `files`; None deletes one."""
        for name, content in files.items():
            path = self.path / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(self, files: Mapping[str, str | bytes | None] | None = None) -> str:
        """Commit the working tree after writing `files`, and return the commit's full id."""
        self.write(files or {})
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "change")
        return self.git("rev-parse", "HEAD")

    def select(self, base: str = "main", head: str = "HEAD") -> Selection:
        git = Git(self.path)
        return select(git, git.commit(base), git.commit(head))


@pytest.fixture(scope="session")
def _toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Repository(tmp_path_factory.mktemp("toy"))
    made.git("init", "--quiet", "--initial-branch", "main")
    made.commit(FILES)
    made.git("checkout", "--quiet", "-b", "topic")
    return made.path


@pytest.fixture
def repository(tmp_path: Path, _toy: Path) -> Repository:
    """Give the training repository, on branch `topic`, which starts at `main`."""
    shutil.copytree(_toy, tmp_path / "repository")
    return Repository(tmp_path / "repository")


@pytest.fixture
def selection_of(repository: Repository) -> Callable[[Mapping[str, str | bytes | None]], Selection]:
    """Commit files on `topic`, and select what that change affects."""

    def commit_and_select(files: Mapping[str, str | bytes | None]) -> Selection:
        repository.commit(files)
        return repository.select()

    return commit_and_select


@pytest.fixture(scope="session")
def _training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from .training import FILES as TRAINING  # that module imports this one

    made = Repository(tmp_path_factory.mktemp("training"))
    made.git("init", "--quiet", "--initial-branch", "main")
    made.commit(TRAINING)
    made.git("checkout", "--quiet", "-b", "topic")
    return made.path


@pytest.fixture
def training(tmp_path: Path, _training: Path) -> Repository:
    """Give the second training repository, on branch `topic`, which starts at `main`."""
    shutil.copytree(_training, tmp_path / "training")
    return Repository(tmp_path / "training")
