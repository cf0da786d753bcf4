"""A healthy recipe as files, and verdicts on variations of it."""

from __future__ import annotations

from action.checklist import Context, Diff, check_recipe
from action.records import CheckResult, RecipeSource
from action.repository.diff import Change
from action.repository.python import PythonTree
from action.repository.tree import MappingTree
from action.source import read_recipe

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
    TP_MODULE_CONFIG = {"blocks.*": "colwise"}
    APPLY_FSDP2_CUSTOM_PREFETCHING = apply_prefetching

    def __init__(self, dim):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
"""
ENGINE = """
from runtime import Engine, parallelize_model, register_engine

from .model import Toy


@register_engine("toy")
class ToyEngine(Engine):
    def prepare_model(self):
        model = Toy(self.config.model.dim)
        return parallelize_model(model, self.mesh, self.config.parallel.backend_kwargs)
"""
CONFIG = """
engine: toy
parallel:
  mesh: {shard: 2}
  backend_kwargs:
    fsdp2:
      target_classes: [Block]
"""
FILES = {
    "runtime.py": "class Engine: ...\ndef register_engine(name): ...\n"
    "def parallelize_model(model, mesh, kwargs): ...\n",
    "recipes/__init__.py": "",
    "recipes/toy/__init__.py": "",
    "recipes/toy/model.py": MODEL,
    "recipes/toy/engine.py": ENGINE,
    "recipes/toy/configs/tiny.yaml": CONFIG,
}


def edited(text: str, *replacements: tuple[str, str]) -> str:
    for old, new in replacements:
        assert old in text, old
        text = text.replace(old, new)
    return text


class Recipe:
    """The toy recipe with some files other than usual."""

    def __init__(self, files: dict[str, str | None], before: dict[str, str] | None = None):
        merged = {**FILES, **files}
        now = {path: text for path, text in merged.items() if text is not None}
        self.tree = MappingTree(now)
        self.python = PythonTree(self.tree)
        self.source: RecipeSource = read_recipe(self.tree, self.python, "toy", "recipes/toy")
        self.diff = None if before is None else self._diff(before, now)
        self.text: str | None = None

    def _diff(self, before: dict[str, str], now: dict[str, str]) -> Diff:
        old = {**FILES, **before}
        changes = tuple(
            Change("modified" if path in old else "added", path, path if path in old else None)
            for path in sorted(now)
            if old.get(path) != now[path]
        )

        def added(change: Change) -> frozenset[int]:
            lines = set(old.get(change.path, "").splitlines())
            return frozenset(
                number
                for number, line in enumerate(now[change.path].splitlines(), 1)
                if line not in lines
            )

        return Diff(changes, PythonTree(MappingTree(old)), added)

    def check(self, item: str) -> CheckResult:
        context = Context(self.source, self.tree, self.python, self.diff, self.text)
        return {result.id: result for result in check_recipe(context)}[item]
