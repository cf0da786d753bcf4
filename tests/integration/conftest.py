"""A repository with one recipe in it, small enough that its tests need no torch."""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

MODEL = """
from torch import nn


class Block(nn.Module):
    def forward(self, x):
        return x


def apply_prefetching(model: nn.Module) -> None:
    if getattr(model, "_fsdp2_prefetching_configured", False):
        return
    for block, following in zip(model.blocks, model.blocks[1:]):
        block.set_modules_to_forward_prefetch([following])
        following.set_modules_to_backward_prefetch([block])
    model._fsdp2_prefetching_configured = True


class Toy(nn.Module):
    _no_split_modules = ["Block"]
    APPLY_FSDP2_CUSTOM_PREFETCHING = apply_prefetching

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
"""
ENGINE = """
from runtime import Engine, parallelize_model, register_engine

from recipes.toy.model import Toy


@register_engine("toy")
class ToyEngine(Engine):
    def prepare_model(self):
        model = Toy()
        return parallelize_model(model, self.mesh, self.config.parallel.backend_kwargs)
"""
RUNTIME = """
class Engine:
    pass


def register_engine(name):
    return lambda engine: engine


def parallelize_model(model, mesh, backend_kwargs):
    return model
"""
CONFIG = """
engine: toy
parallel:
  mesh: {shard: 2}
  backend_kwargs:
    fsdp2:
      target_classes: [Block]
optim:
  lr: 0.001
"""
PASSES = "def test_it():\n    assert 1 + 1 == 2\n"
IMPACT = "recipes/toy/tests/skills/fsdp2-prefetching/test_prefetch_edges_impact.py"
FILES = {
    "README.md": "# A training repository\n",
    "runtime.py": RUNTIME,
    "recipes/__init__.py": "",
    "recipes/toy/__init__.py": "",
    "recipes/toy/model.py": MODEL,
    "recipes/toy/engine.py": ENGINE,
    "recipes/toy/configs/tiny.yaml": CONFIG,
    "recipes/toy/tests/test_structure.py": PASSES,
    "recipes/toy/tests/test_smoke.py": PASSES,
    IMPACT: PASSES,
}


@dataclass(frozen=True)
class Repository:
    """A real git repository in a folder."""

    path: Path

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=author", "-c", "user.email=author@example.invalid")
        return subprocess.run(
            ["git", *identity, *arguments],
            cwd=self.path,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    def commit_files(self, files: dict[str, str | None], message: str = "change") -> str:
        """Commit `files` (None deletes one) and return the commit's full id."""
        for name, text in files.items():
            path = self.path / name
            if text is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    path = tmp_path / "repository"
    path.mkdir()
    made = Repository(path)
    made.git("init", "--quiet", "--initial-branch", "main")
    made.commit_files(dict(FILES), "a recipe")
    made.git("checkout", "--quiet", "-b", "topic")
    return made


@pytest.fixture
def edited_model() -> Callable[[str, str], str]:
    """Return the recipe's model with one text replaced by another."""

    def edit(old: str, new: str) -> str:
        assert MODEL.count(old) == 1
        return MODEL.replace(old, new)

    return edit
