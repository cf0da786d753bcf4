"""A second training repository: two recipes, a runtime, and shared code imported in odd ways."""

from __future__ import annotations

import textwrap

from action.records import Reason, Selection

from .conftest import Repository

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

_FILES: dict[str, str] = {
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
    "mvp_engine/testing.py": "import mvp_engine.loop as loop\n\n\ndef train_smoke(): loop.run()\n",
    "mvp_engine/loop.py": "def run():\n    return 0\n",
}

FILES = {path: textwrap.dedent(text) for path, text in _FILES.items()}


def covers(reason: Reason, path: str) -> bool:
    at = reason.location.path if reason.location else ""
    return path == at or path.startswith(f"{at}/") or path in reason.chain[:1]


def check_each_change_ends_once(repository: Repository, selection: Selection) -> None:
    assert selection.merge_base is not None
    listing = repository.git(
        "diff-tree", "-r", "-z", "--name-only", "-M", selection.merge_base, selection.head
    )
    found = [reason for recipe in selection.recipes for reason in recipe.reasons]
    idle = [file.path for file in selection.unaffected]
    assert len(set(idle)) == len(idle)
    changed = set(filter(None, listing.split("\0")))
    assert set(idle) <= changed
    for path in changed:
        assert any(covers(reason, path) for reason in found) != (path in idle), path


def said(selection: Selection) -> dict[str, list[tuple[str, str]]]:
    return {
        recipe.name: [(reason.rule, reason.detail) for reason in recipe.reasons]
        for recipe in selection.recipes
    }
