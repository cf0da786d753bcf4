# ruff: noqa: E501
"""What a diff may add without leaving the recipe's model, and what it may not."""

from __future__ import annotations

import pytest

from .conftest import CONFIG, ENGINE, MODEL, Recipe, edited
from .test_forms import CONFIG_YAML, ENGINE_PY, FLAG, MODEL_PY, model

FAULTY: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "yaml toggle": ({CONFIG_YAML: CONFIG + "model: {enable_prefetch: true}\n"}, {}),
    "yaml edges list": ({CONFIG_YAML: CONFIG + "      prefetch_edges: [[a, b]]\n"}, {}),
    "yaml depth": ({CONFIG_YAML: CONFIG + "      forward_prefetch: 2\n"}, {}),
    "env in hook": (
        model((FLAG, FLAG + "    if os.environ.get('NO_EDGES'):\n        return\n")),
        {},
    ),
    "env prefetch in engine": (
        {ENGINE_PY: ENGINE + "\nimport os\nUSE = os.environ['ENABLE_PREFETCH']\n"},
        {},
    ),
    "env getenv alias": (
        {
            ENGINE_PY: ENGINE
            + "\nfrom os import getenv\nUSE = getenv('ENABLE_FSDP2_PREFETCH', '0')\n"
        },
        {},
    ),
    "env in membership": (
        model((FLAG, FLAG + "    if 'NO_PREFETCH' in os.environ:\n        return\n")),
        {},
    ),
    "config flag gates hook call": (
        model((FLAG, FLAG + "    if not model.config.use_prefetch:\n        return\n")),
        {},
    ),
    "config flag gates binding": (
        {
            MODEL_PY: edited(
                MODEL, ("    APPLY_FSDP2", "    if SETTINGS.prefetch:\n        APPLY_FSDP2")
            )
        },
        {},
    ),
    "config param in hook: edges": (
        model(
            (
                "for block, following in zip(model.blocks, model.blocks[1:])",
                "for block, following in resolve(model, model.config.prefetch_edges)",
            )
        ),
        {},
    ),
    "dict of edges in python": (
        {
            MODEL_PY: MODEL.replace(
                "class Toy", "PREFETCH_EDGES = {'blocks.0': ['blocks.1']}\n\n\nclass Toy"
            )
        },
        {},
    ),
    "list of pairs": (
        {
            MODEL_PY: MODEL.replace(
                "class Toy", "_EDGES = [('blocks.0', 'blocks.1')]\n\n\nclass Toy"
            ).replace(
                "for block, following in zip(model.blocks, model.blocks[1:])",
                "for block, following in ((model.get_submodule(a), model.get_submodule(b)) for a, b in _EDGES)",
            )
        },
        {},
    ),
    "registry deco": (
        {MODEL_PY: MODEL.replace("def apply_pre", "@register_prefetch('toy')\ndef apply_pre")},
        {},
    ),
    "registry dict": (
        {
            MODEL_PY: MODEL.replace(
                "class Toy",
                "PREFETCH_HOOKS = {}\nPREFETCH_HOOKS['toy'] = apply_prefetching\n\n\nclass Toy",
            )
        },
        {},
    ),
    "DSL class": (
        {MODEL_PY: MODEL.replace("class Toy", "class PrefetchGraph:\n    pass\n\n\nclass Toy")},
        {},
    ),
    "EdgeSpec class": (
        {
            MODEL_PY: MODEL.replace(
                "class Toy",
                "@dataclass\nclass PrefetchEdge:\n    source: str\n    target: str\n\n\nclass Toy",
            )
        },
        {},
    ),
    "fx import": ({MODEL_PY: "import torch.fx\n" + MODEL}, {}),
    "symbolic_trace from import": (
        {
            MODEL_PY: "from torch.fx import symbolic_trace\n"
            + MODEL.replace(FLAG, FLAG + "    graph = symbolic_trace(model)\n")
        },
        {},
    ),
    "make_fx": ({MODEL_PY: "from torch.fx.experimental.proxy_tensor import make_fx\n" + MODEL}, {}),
    "fx in another module that edges module imports": (
        {
            MODEL_PY: "from .order import execution_order\n"
            + MODEL.replace("zip(model.blocks, model.blocks[1:])", "execution_order(model)"),
            "recipes/toy/order.py": "import torch.fx\ndef execution_order(m):\n    return torch.fx.symbolic_trace(m).graph.nodes\n",
        },
        {},
    ),
    "runtime change in fsdp2": (
        {MODEL_PY: MODEL + "\nY=1\n", "mvp_engine/distributed/fsdp2.py": "X = 2\n"},
        {"mvp_engine/distributed/fsdp2.py": "X = 1\n"},
    ),
    "runtime helper new": (
        {
            MODEL_PY: MODEL + "\nY=1\n",
            "mvp_engine/prefetch.py": "def chain(blocks):\n    for a, b in zip(blocks, blocks[1:]):\n        a.set_modules_to_forward_prefetch([b])\n",
        },
        {},
    ),
    "shared helper": (
        {
            MODEL_PY: MODEL + "\nY=1\n",
            "shared/edges.py": "def chain(blocks):\n    for a, b in zip(blocks, blocks[1:]):\n        a.set_modules_to_forward_prefetch([b])\n",
        },
        {},
    ),
    "config schema field": (
        {"recipes/toy/config.py": "class Config:\n    enable_prefetch: bool = True\n"},
        {},
    ),
    "argparse toggle": ({ENGINE_PY: ENGINE + "\nparser.add_argument('--enable-prefetch')\n"}, {}),
    "function param toggle": (
        {
            MODEL_PY: edited(
                MODEL,
                ("(model: nn.Module)", "(model: nn.Module, prefetch: bool = True)"),
                (FLAG, FLAG + "    if not prefetch:\n        return\n"),
            )
        },
        {},
    ),
}
HEALTHY: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "yaml loader": ({CONFIG_YAML: CONFIG + "data: {prefetch_factor: 2, prefetch: true}\n"}, {}),
    "yaml train.dataloader": (
        {
            CONFIG_YAML: CONFIG
            + "train: {dataloader: {prefetch_factor: 2}, num_prefetch_batches: 3}\n"
        },
        {},
    ),
    "yaml removed": (
        {CONFIG_YAML: CONFIG},
        {CONFIG_YAML: CONFIG + "model: {enable_prefetch: true}\n"},
    ),
    "env unrelated": ({ENGINE_PY: ENGINE + "\nimport os\nRANK = os.environ['RANK']\n"}, {}),
    "config flag unnamed in hook": (
        model((FLAG, FLAG + "    if not model.config.overlap:\n        return\n")),
        {},
    ),
    "hook reads model layout": (
        model((FLAG, FLAG + "    if model.config.tie_word_embeddings:\n        return\n")),
        {},
    ),
    "forward hooks tracing": ({MODEL_PY: MODEL.replace("# x", "") + "\n\nY=1\n"}, {}),
    "fx comment": ({MODEL_PY: "# like torch.fx.symbolic_trace\n" + MODEL}, {}),
    "fx elsewhere": (
        {
            "recipes/toy/export.py": "import torch.fx\ndef export(m):\n    return torch.fx.symbolic_trace(m)\n"
        },
        {},
    ),
    "runtime comment only": (
        {MODEL_PY: MODEL + "\nY=1\n", "mvp_engine/distributed/fsdp2.py": "X = 1  # one\n"},
        {"mvp_engine/distributed/fsdp2.py": "X = 1\n"},
    ),
    "runtime other file": (
        {MODEL_PY: MODEL + "\nY=1\n", "mvp_engine/logging.py": "X = 2\n"},
        {"mvp_engine/logging.py": "X = 1\n"},
    ),
    "recipe helper local": (
        {
            MODEL_PY: MODEL.replace(
                "class Toy",
                "def link(a, b):\n    a.set_modules_to_forward_prefetch([b])\n\n\nclass Toy",
            )
        },
        {},
    ),
    "other recipe": (
        {MODEL_PY: MODEL + "\nY=1\n", "recipes/other/model.py": MODEL.replace("zip(", "zap(")},
        {},
    ),
    "tests env": (
        {"recipes/toy/tests/test_smoke.py": "import os\nos.environ['PREFETCH'] = '1'\n"},
        {},
    ),
    "config schema loader": (
        {"recipes/toy/config.py": "class DataConfig:\n    prefetch_factor: int = 2\n"},
        {},
    ),
    "loader class": (
        {
            "recipes/toy/data.py": "class PrefetchLoader:\n    def __init__(self, prefetch=True):\n        if prefetch:\n            self.q = []\n"
        },
        {},
    ),
    "loader env": (
        {"recipes/toy/data.py": "import os\nN = int(os.environ.get('DATA_PREFETCH', 2))\n"},
        {},
    ),
    "cuda prefetcher": (
        {
            "recipes/toy/data.py": "class DataPrefetcher:\n    def next(self):\n        if self.prefetch_stream is not None:\n            return 1\n"
        },
        {},
    ),
    "doc mention": (
        {
            MODEL_PY: MODEL.replace(
                "def apply_prefetching(model: nn.Module) -> None:\n",
                'def apply_prefetching(model: nn.Module) -> None:\n    """No torch.fx, no PREFETCH_EDGES, no os.environ."""\n',
            )
        },
        {},
    ),
    "flag test rename": (
        model(
            (FLAG, FLAG.replace("_fsdp2_prefetching_configured", "_prefetch_done")),
            ("    model._fsdp2_prefetching_configured = True", "    model._prefetch_done = True"),
        ),
        {},
    ),
    "flag attr test": (model((FLAG, "    if model._prefetch_edges_set:\n        return\n")), {}),
    "hasattr model hook": (
        {
            ENGINE_PY: ENGINE
            + "\n\ndef has(m):\n    if hasattr(m, 'APPLY_FSDP2_CUSTOM_PREFETCHING'):\n        return 1\n"
        },
        {},
    ),
    "moved line": (
        {
            MODEL_PY: "X = 1\n"
            + MODEL.replace(FLAG, FLAG + "    if not model.config.use_prefetch:\n        return\n")
        },
        {
            MODEL_PY: MODEL.replace(
                FLAG, FLAG + "    if not model.config.use_prefetch:\n        return\n"
            )
        },
    ),
}


@pytest.mark.parametrize("form", FAULTY)
def test_faulty(form):
    now, before = FAULTY[form]
    result = Recipe(now, before=before).check("stays-local")
    assert result.verdict == "fail", result.summary
    assert all(e.location is not None and e.location.path in now for e in result.evidence)
    assert result.evidence


@pytest.mark.parametrize("form", HEALTHY)
def test_healthy(form):
    now, before = HEALTHY[form]
    result = Recipe(now, before=before).check("stays-local")
    assert result.verdict == "pass", result.summary


@pytest.mark.parametrize("form", [form for form in FAULTY if not FAULTY[form][1]])
def test_what_stood_there_before_is_not_the_changes_fault(form):
    now, _ = FAULTY[form]
    result = Recipe({**now, MODEL_PY: f"{now.get(MODEL_PY, MODEL)}\n\nY = 1\n"}, before=now)
    assert result.check("stays-local").verdict == "pass"
