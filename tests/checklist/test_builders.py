# ruff: noqa: E501
"""Ways to build a model, and what follows for the hook that its class binds or does not bind."""

from __future__ import annotations

import pytest

from .conftest import CONFIG, ENGINE, FILES, MODEL, Recipe
from .test_forms import CONFIG_YAML, ENGINE_PY, MODEL_PY, SHARD, engine

BUILD_PY = "recipes/toy/build.py"
TWO_CLASSES = f"""{MODEL}

class Plain(nn.Module):
    def __init__(self):
        self.blocks = Block()
"""
BUILDERS = {
    "helper method": (
        "pass",
        {
            ENGINE_PY: engine(
                f"model = self._build_model()\nreturn {SHARD}",
                methods="def _build_model(self):\n    return Toy(1)",
            )
        },
    ),
    "builder module": (
        "pass",
        {
            ENGINE_PY: engine(
                f"model = build_model(self.config)\nreturn {SHARD}",
                head="from .build import build_model",
            ),
            BUILD_PY: "from .model import Toy\ndef build_model(c):\n    return Toy(c)\n",
        },
    ),
    "re-export": (
        "pass",
        {
            ENGINE_PY: engine(
                f"model = net.Toy(1)\nreturn {SHARD}", head="import recipes.toy as net"
            ),
            "recipes/toy/__init__.py": "from .model import Toy\n",
        },
    ),
    "classmethod own": (
        "pass",
        {
            ENGINE_PY: engine(f"model = Toy.from_config(1)\nreturn {SHARD}"),
            MODEL_PY: MODEL
            + "\n    @classmethod\n    def from_config(cls, c):\n        return cls(c)\n",
        },
    ),
    "classmethod own names another": (
        "fail",
        {
            ENGINE_PY: engine(f"model = Toy.from_config(1)\nreturn {SHARD}"),
            MODEL_PY: MODEL
            + "\n    @classmethod\n    def from_config(cls, c):\n        return Other(c)\n\nclass Other(nn.Module):\n    pass\n",
        },
    ),
    "self attr": (
        "pass",
        {
            ENGINE_PY: engine(
                "self.model = Toy(1)\nself.model = parallelize_model(self.model, 1, 2)\nreturn self.model"
            )
        },
    ),
    "self attr in helper": (
        "pass",
        {
            ENGINE_PY: engine(
                "self._build()\nreturn parallelize_model(self.model, 1, 2)",
                methods="def _build(self):\n    self.model = Toy(1)",
            )
        },
    ),
    "self attr in init": (
        "pass",
        {
            ENGINE_PY: engine(
                "return parallelize_model(self.net, 1, 2)",
                methods="def __init__(self, c):\n    self.net = Toy(c)",
            )
        },
    ),
    "class attr model_class": (
        "pass",
        {
            ENGINE_PY: engine(
                f"model = self.model_class(1)\nreturn {SHARD}", methods="model_class = Toy"
            )
        },
    ),
    "property": (
        "pass",
        {
            ENGINE_PY: engine(
                f"model = self.fresh\nreturn {SHARD}",
                methods="@property\ndef fresh(self):\n    return Toy(1)",
            )
        },
    ),
    "inherited prepare_model hook method": (
        "pass",
        {
            ENGINE_PY: '\nfrom runtime import register_engine\nfrom .base import Base\nfrom .model import Toy\n@register_engine("toy")\nclass ToyEngine(Base):\n    def build(self):\n        return Toy(1)\n',
            "recipes/toy/base.py": "from runtime import parallelize_model\nclass Base:\n    def prepare_model(self):\n        model = self.build()\n        return parallelize_model(model, 1, 2)\n    def build(self):\n        raise NotImplementedError\n",
        },
    ),
    "super": (
        "pass",
        {
            ENGINE_PY: '\nfrom runtime import register_engine\nfrom .base import Base\nfrom .model import Toy\n@register_engine("toy")\nclass ToyEngine(Base):\n    def prepare_model(self):\n        model = super().prepare_model()\n        return model\n    def build(self):\n        return Toy(1)\n',
            "recipes/toy/base.py": "from runtime import parallelize_model\nclass Base:\n    def prepare_model(self):\n        return parallelize_model(self.build(), 1, 2)\n    def build(self):\n        raise NotImplementedError\n",
        },
    ),
    "if else both have": (
        "pass",
        {
            ENGINE_PY: engine(
                f"if self.x:\n    model = Toy(1)\nelse:\n    model = Toy(2)\nreturn {SHARD}"
            )
        },
    ),
    "if else one has not": (
        "unknown",
        {
            ENGINE_PY: engine(
                f"if self.x:\n    model = Toy(1)\nelse:\n    model = Plain()\nreturn {SHARD}",
                head="from .model import Plain",
            ),
            MODEL_PY: TWO_CLASSES,
        },
    ),
    "factory dict": (
        "pass",
        {
            ENGINE_PY: engine(
                f"model = MODELS[self.c.kind](1)\nreturn {SHARD}",
                head="from .model import Toy\nMODELS={'toy': Toy}",
            )
        },
    ),
    "factory dict get": (
        "pass",
        {
            ENGINE_PY: engine(
                f"cls = MODELS.get(self.c.kind)\nmodel = cls(1)\nreturn {SHARD}",
                head="from .model import Toy\nMODELS={'toy': Toy}",
            )
        },
    ),
    "factory dict of lambdas": (
        "pass",
        {
            ENGINE_PY: engine(
                f"model = MODELS[self.c.kind](1)\nreturn {SHARD}",
                head="from .model import Toy\nMODELS={'toy': lambda c: Toy(c)}",
            )
        },
    ),
    "factory dict of functions": (
        "pass",
        {
            ENGINE_PY: engine(
                f"model = MODELS[self.c.kind](1)\nreturn {SHARD}",
                head="from .model import Toy\ndef mk(c):\n    return Toy(c)\nMODELS={'toy': mk}",
            )
        },
    ),
    "filled registry": (
        "unknown",
        {ENGINE_PY: engine(f"model = MODELS[self.c.kind](1)\nreturn {SHARD}", head="MODELS={}")},
    ),
    "registry call": (
        "unknown",
        {
            ENGINE_PY: engine(
                f"model = registry.build(self.c.kind)\nreturn {SHARD}",
                head="from company import registry",
            )
        },
    ),
    "getattr dynamic": (
        "unknown",
        {
            ENGINE_PY: engine(
                f"cls = getattr(models, self.c.kind)\nmodel = cls(1)\nreturn {SHARD}",
                head="from . import model as models",
            )
        },
    ),
    "getattr literal": (
        "pass",
        {
            ENGINE_PY: engine(
                f"cls = getattr(models, 'Toy')\nmodel = cls(1)\nreturn {SHARD}",
                head="from . import model as models",
            )
        },
    ),
    "external automodel": (
        "unknown",
        {
            ENGINE_PY: engine(
                f"model = AutoModel.from_config(1)\nreturn {SHARD}",
                head="from transformers import AutoModel",
            )
        },
    ),
    "peft conditional": (
        "unknown",
        {
            ENGINE_PY: engine(
                f"model = Toy(1)\nif self.c.lora:\n    model = get_peft_model(model, 1)\nreturn {SHARD}",
                head="from peft import get_peft_model",
            )
        },
    ),
    "peft always": (
        "fail",
        {
            ENGINE_PY: engine(
                f"model = get_peft_model(Toy(1), 1)\nreturn {SHARD}",
                head="from peft import get_peft_model",
            )
        },
    ),
    "peft module alias": (
        "fail",
        {
            ENGINE_PY: engine(
                f"model = peft.get_peft_model(Toy(1), 1)\nreturn {SHARD}", head="import peft"
            )
        },
    ),
    "peft local import": (
        "fail",
        {
            ENGINE_PY: engine(
                f"from peft import get_peft_model\nmodel = get_peft_model(Toy(1), 1)\nreturn {SHARD}"
            )
        },
    ),
    "compile method in place": (
        "pass",
        {ENGINE_PY: engine(f"model = Toy(1)\nmodel.compile()\nreturn {SHARD}")},
    ),
    "compile aliased": (
        "fail",
        {
            ENGINE_PY: engine(
                f"model = compile(Toy(1))\nreturn {SHARD}", head="from torch import compile"
            )
        },
    ),
    "ddp": (
        "fail",
        {
            ENGINE_PY: engine(
                f"model = DDP(Toy(1))\nreturn {SHARD}",
                head="from torch.nn.parallel import DistributedDataParallel as DDP",
            )
        },
    ),
    "unknown external wrapper": (
        "unknown",
        {
            ENGINE_PY: engine(
                f"model = prepare(Toy(1))\nreturn {SHARD}", head="from company import prepare"
            )
        },
    ),
    "own wrapper class": (
        "fail",
        {
            ENGINE_PY: engine(
                f"model = Wrap(Toy(1))\nreturn {SHARD}", head="from .model import Wrap"
            ),
            MODEL_PY: MODEL
            + "\n\nclass Wrap(nn.Module):\n    def __init__(self, inner):\n        super().__init__()\n        self.inner = inner\n",
        },
    ),
    "in-tree identity fn": (
        "pass",
        {
            ENGINE_PY: engine(
                f"model = freeze(Toy(1))\nreturn {SHARD}",
                head="def freeze(m):\n    for p in m.parameters():\n        p.requires_grad_(False)\n    return m",
            )
        },
    ),
    "chain .to": (
        "pass",
        {ENGINE_PY: engine(f"model = Toy(1).to('cuda').train()\nreturn {SHARD}")},
    ),
    "tuple return": (
        "pass",
        {
            ENGINE_PY: engine(
                f"model, tok = make()\nreturn {SHARD}",
                head="from .model import Toy\ndef make():\n    return Toy(1), 3",
            )
        },
    ),
    "tuple subscript": (
        "pass",
        {
            ENGINE_PY: engine(
                f"model = make()[0]\nreturn {SHARD}",
                head="from .model import Toy\ndef make():\n    return Toy(1), 3",
            )
        },
    ),
    "keyword model": (
        "pass",
        {
            ENGINE_PY: engine(
                "model = Toy(1)\nreturn parallelize_model(mesh=1, model=model, backend_kwargs=2)"
            )
        },
    ),
    "partial": (
        "pass",
        {
            ENGINE_PY: engine(
                f"model = partial(Toy, 1)()\nreturn {SHARD}", head="from functools import partial"
            )
        },
    ),
    "deepcopy": (
        "pass",
        {ENGINE_PY: engine(f"model = copy.deepcopy(Toy(1))\nreturn {SHARD}", head="import copy")},
    ),
    "with meta then to_empty": (
        "pass",
        {
            ENGINE_PY: engine(
                f"with torch.device('meta'):\n    model = Toy(1)\nmodel.to_empty(device='cuda')\nreturn {SHARD}",
                head="import torch",
            )
        },
    ),
    "ifexp class": (
        "pass",
        {ENGINE_PY: engine(f"cls = Toy if self.c else Toy\nmodel = cls(1)\nreturn {SHARD}")},
    ),
    "nested function": (
        "pass",
        {ENGINE_PY: engine(f"def make():\n    return Toy(1)\nmodel = make()\nreturn {SHARD}")},
    ),
    "nested function closure": (
        "pass",
        {
            ENGINE_PY: engine(
                "def finish(m):\n    return parallelize_model(m, 1, 2)\nmodel = Toy(1)\nreturn finish(model)"
            )
        },
    ),
    "engine helper parallelizes": (
        "pass",
        {
            ENGINE_PY: engine(
                "return self._par(Toy(1))",
                methods="def _par(self, net):\n    return parallelize_model(net, self.mesh, 1)",
            )
        },
    ),
    "try import": (
        "pass",
        {
            ENGINE_PY: engine(
                f"try:\n    model = Toy(1)\nexcept RuntimeError:\n    raise\nreturn {SHARD}"
            )
        },
    ),
    "early return": (
        "pass",
        {
            ENGINE_PY: engine(
                f"model = Toy(1)\nif self.mesh is None:\n    return model\nreturn {SHARD}"
            )
        },
    ),
    "parallelize result kept, returns other": (
        "pass",
        {ENGINE_PY: engine(f"model = Toy(1)\nself.model = {SHARD}\nreturn self.model")},
    ),
    "ref model too": (
        "pass",
        {
            ENGINE_PY: engine(
                f"ref = parallelize_model(Plain(), 1, 2)\nmodel = Toy(1)\nself.ref = ref\nreturn {SHARD}",
                head="from .model import Plain",
            ),
            MODEL_PY: TWO_CLASSES,
        },
    ),
    "no parallelize call": ("unknown", {ENGINE_PY: engine("return Toy(1)")}),
    "dotted engine": (
        "pass",
        {
            ENGINE_PY: ENGINE.replace('@register_engine("toy")\n', ""),
            CONFIG_YAML: CONFIG.replace("engine: toy", "engine: recipes.toy.engine.ToyEngine"),
        },
    ),
    "dotted engine colon": (
        "pass",
        {
            ENGINE_PY: ENGINE.replace('@register_engine("toy")\n', ""),
            CONFIG_YAML: CONFIG.replace("engine: toy", "engine: recipes.toy.engine:ToyEngine"),
        },
    ),
    "engine name const": (
        "pass",
        {
            ENGINE_PY: ENGINE.replace(
                '@register_engine("toy")', 'NAME = "toy"\n@register_engine(NAME)'
            )
        },
    ),
    "engine in shared module": (
        "pass",
        {
            ENGINE_PY: "from shared_engine import ToyEngine\n",
            "shared_engine.py": ENGINE.replace("from .model", "from recipes.toy.model"),
        },
    ),
    "engine alias register": (
        "pass",
        {ENGINE_PY: ENGINE.replace('@register_engine("toy")', '@engines.register(name="toy")')},
    ),
    "engine not registered": (
        "unknown",
        {ENGINE_PY: ENGINE.replace('register_engine("toy")', 'register_engine("tox")')},
    ),
    "another decorator holds name": (
        "pass",
        {ENGINE_PY: "from x import dec\n@dec('toy')\nclass Loader:\n    pass\n" + ENGINE},
    ),
    "class via registry decorator": (
        "pass",
        {
            MODEL_PY: MODEL.replace(
                "class Toy(nn.Module)", "@register_model('toy')\nclass Toy(nn.Module)"
            )
        },
    ),
    "conditional class def": (
        "unknown",
        {
            ENGINE_PY: engine(
                f"model = Net(1)\nreturn {SHARD}",
                head="import os\nfrom .model import Toy, Plain\nif os.name == 'x':\n    Net = Toy\nelse:\n    Net = Plain",
            ),
            MODEL_PY: TWO_CLASSES.replace("def __init__(self):", "def __init__(self, c):"),
        },
    ),
    "alias": (
        "pass",
        {
            ENGINE_PY: engine(
                f"model = Net(1)\nreturn {SHARD}", head="from .model import Toy as Net"
            )
        },
    ),
    "instance builder obj": (
        "pass",
        {
            ENGINE_PY: engine(
                f"builder = Builder(1)\nmodel = builder.build()\nreturn {SHARD}",
                head="from .build import Builder",
            ),
            BUILD_PY: "from .model import Toy\nclass Builder:\n    def __init__(self,c):\n        self.c=c\n    def build(self):\n        return Toy(self.c)\n",
        },
    ),
    "staticmethod on engine": (
        "pass",
        {
            ENGINE_PY: engine(
                f"model = ToyEngine.make(1)\nreturn {SHARD}",
                methods="@staticmethod\ndef make(c):\n    return Toy(c)",
            )
        },
    ),
    "loop assigns": (
        "pass",
        {
            ENGINE_PY: engine(
                f"model = None\nfor _ in range(2):\n    model = Toy(1)\nreturn {SHARD}"
            )
        },
    ),
    "None default then built": (
        "pass",
        {ENGINE_PY: engine(f"model = None\nif model is None:\n    model = Toy(1)\nreturn {SHARD}")},
    ),
    "class passed as arg": (
        "pass",
        {
            ENGINE_PY: engine(
                f"model = make(Toy)\nreturn {SHARD}", head="def make(cls):\n    return cls(1)"
            )
        },
    ),
    "function passed as arg": (
        "pass",
        {
            ENGINE_PY: engine(
                f"model = make(mk)\nreturn {SHARD}",
                head="from .model import Toy\ndef mk():\n    return Toy(1)\ndef make(f):\n    return f()",
            )
        },
    ),
    "default arg class": (
        "pass",
        {
            ENGINE_PY: engine(
                f"model = make()\nreturn {SHARD}",
                head="from .model import Toy\ndef make(cls=Toy):\n    return cls(1)",
            )
        },
    ),
    "match": (
        "pass",
        {
            ENGINE_PY: engine(
                f"match self.c.kind:\n    case 'a':\n        model = Toy(1)\n    case _:\n        raise ValueError\nreturn {SHARD}"
            )
        },
    ),
    "aug: walrus": (
        "pass",
        {ENGINE_PY: engine("if (model := Toy(1)) is None:\n    raise ValueError\nreturn " + SHARD)},
    ),
    "parallelize aliased import": (
        "pass",
        {
            ENGINE_PY: engine(
                "model = Toy(1)\nreturn par(model, 1, 2)",
                head="from runtime import parallelize_model as par",
            )
        },
    ),
    "parallelize via module": (
        "pass",
        {
            ENGINE_PY: engine(
                "model = Toy(1)\nreturn runtime.parallelize_model(model, 1, 2)",
                head="import runtime",
            )
        },
    ),
    "module-level fn same name in tree": (
        "pass",
        {
            ENGINE_PY: engine(
                "return make_parallel(Toy(1), self.mesh)",
                head="def make_parallel(m, mesh):\n    return parallelize_model(m, mesh, 1)",
            )
        },
    ),
    "recursion": (
        "unknown",
        {
            ENGINE_PY: engine(
                f"model = self.build()\nreturn {SHARD}",
                methods="def build(self):\n    return self.build()",
            )
        },
    ),
    "raise else": (
        "pass",
        {
            ENGINE_PY: engine(
                f"if self.c.kind == 'toy':\n    model = Toy(1)\nelse:\n    raise ValueError(self.c.kind)\nreturn {SHARD}"
            )
        },
    ),
    "nested if raise": (
        "pass",
        {
            ENGINE_PY: engine(
                f"if self.c.kind == 'toy':\n    model = Toy(1)\nelse:\n    if 1:\n        raise ValueError(1)\n    else:\n        raise KeyError(2)\nreturn {SHARD}"
            )
        },
    ),
    "__new__": (
        "unknown",
        {
            MODEL_PY: MODEL
            + "\n    def __new__(cls, c):\n        return object.__new__(Other)\n\nclass Other(nn.Module): ...\n"
        },
    ),
}


@pytest.mark.parametrize("form", BUILDERS)
def test_hook_bound(form):
    expected, files = BUILDERS[form]
    assert all(FILES.get(path) != text for path, text in files.items()), "an edit did nothing"
    result = Recipe(files).check("hook-bound")
    assert result.verdict == expected, result.summary
    assert all(evidence.location is not None for evidence in result.evidence)
    assert result.evidence
