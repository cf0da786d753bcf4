# ruff: noqa: E501
"""Forms in which hooks, targets, flags and TP attributes are written, with the verdict of each.

Faults stand beside the nearest form that is right, or that the source cannot settle.
"""

from __future__ import annotations

import textwrap

import pytest

from .conftest import CONFIG, ENGINE, FILES, MODEL, Recipe, edited

MODEL_PY = "recipes/toy/model.py"
ENGINE_PY = "recipes/toy/engine.py"
CONFIG_YAML = "recipes/toy/configs/tiny.yaml"
BINDING = "    APPLY_FSDP2_CUSTOM_PREFETCHING = apply_prefetching\n"
SHARD = "parallelize_model(model, self.mesh, self.config.parallel.backend_kwargs)"
FLAG = """\
    if getattr(model, "_fsdp2_prefetching_configured", False):
        return
"""
SET = "    model._fsdp2_prefetching_configured = True\n"
WITHOUT_BINDING = MODEL.replace(BINDING, "")
WITHOUT_HOOK = (
    WITHOUT_BINDING[: WITHOUT_BINDING.index("def apply_prefetching")]
    + WITHOUT_BINDING[WITHOUT_BINDING.index("class Toy") :]
)


def engine(body: str, head: str = "", methods: str = "") -> str:
    """An engine whose `prepare_model` has this body."""
    return (
        f"from runtime import Engine, parallelize_model, register_engine\n{head}\n"
        'from .model import Toy\n\n\n@register_engine("toy")\n'
        "class ToyEngine(Engine):\n    def prepare_model(self):\n"
        f"{textwrap.indent(body, ' ' * 8)}\n\n{textwrap.indent(methods, ' ' * 4)}\n"
    )


def model(*replacements: tuple[str, str]) -> dict[str, str]:
    return {MODEL_PY: edited(MODEL, *replacements)}


def bound_late(line: str) -> dict[str, str]:
    return {MODEL_PY: f"{WITHOUT_BINDING}\n\n{line}\n"}


HOOK_BOUND = {
    "late": ("pass", bound_late("Toy.APPLY_FSDP2_CUSTOM_PREFETCHING = apply_prefetching")),
    "setattr": (
        "pass",
        bound_late("setattr(Toy, 'APPLY_FSDP2_CUSTOM_PREFETCHING', apply_prefetching)"),
    ),
    "late wrong class": (
        "fail",
        bound_late("Block.APPLY_FSDP2_CUSTOM_PREFETCHING = apply_prefetching"),
    ),
    "late in other module of recipe": (
        "unknown",
        {
            MODEL_PY: WITHOUT_BINDING,
            "recipes/toy/prefetch.py": "from .model import Toy, apply_prefetching\nToy.APPLY_FSDP2_CUSTOM_PREFETCHING = apply_prefetching\n",
        },
    ),
    "late in imported module": (
        "pass",
        {
            MODEL_PY: WITHOUT_BINDING,
            "recipes/toy/prefetch.py": "from .model import Toy, apply_prefetching\nToy.APPLY_FSDP2_CUSTOM_PREFETCHING = apply_prefetching\n",
            ENGINE_PY: ENGINE.replace("from .model", "from . import prefetch\nfrom .model"),
        },
    ),
    "in prepare_model on class": (
        "pass",
        {
            MODEL_PY: WITHOUT_BINDING,
            ENGINE_PY: engine(
                f"model = Toy(1)\nToy.APPLY_FSDP2_CUSTOM_PREFETCHING = apply_prefetching\nreturn {SHARD}",
                head="from .model import apply_prefetching",
            ),
        },
    ),
    "in prepare_model on type(model)": (
        "pass",
        {
            MODEL_PY: WITHOUT_BINDING,
            ENGINE_PY: engine(
                f"model = Toy(1)\ntype(model).APPLY_FSDP2_CUSTOM_PREFETCHING = apply_prefetching\nreturn {SHARD}",
                head="from .model import apply_prefetching",
            ),
        },
    ),
    "in prepare_model on model.__class__": (
        "pass",
        {
            MODEL_PY: WITHOUT_BINDING,
            ENGINE_PY: engine(
                f"model = Toy(1)\nmodel.__class__.APPLY_FSDP2_CUSTOM_PREFETCHING = apply_prefetching\nreturn {SHARD}",
                head="from .model import apply_prefetching",
            ),
        },
    ),
    "in prepare_model on instance": (
        "fail",
        {
            MODEL_PY: WITHOUT_BINDING,
            ENGINE_PY: engine(
                f"model = Toy(1)\nmodel.APPLY_FSDP2_CUSTOM_PREFETCHING = apply_prefetching\nreturn {SHARD}",
                head="from .model import apply_prefetching",
            ),
        },
    ),
    "in __init__ on self": (
        "fail",
        {
            MODEL_PY: WITHOUT_BINDING.replace(
                "super().__init__()",
                "super().__init__()\n        self.APPLY_FSDP2_CUSTOM_PREFETCHING = apply_prefetching",
            )
        },
    ),
    "in prepare_model conditional": (
        "unknown",
        {
            MODEL_PY: WITHOUT_BINDING,
            ENGINE_PY: engine(
                f"model = Toy(1)\nif self.c.prefetch:\n    Toy.APPLY_FSDP2_CUSTOM_PREFETCHING = apply_prefetching\nreturn {SHARD}",
                head="from .model import apply_prefetching",
            ),
        },
    ),
    "in prepare_model after sharding": (
        "fail",
        {
            MODEL_PY: WITHOUT_BINDING,
            ENGINE_PY: engine(
                f"model = Toy(1)\nmodel = {SHARD}\nToy.APPLY_FSDP2_CUSTOM_PREFETCHING = apply_prefetching\nreturn model",
                head="from .model import apply_prefetching",
            ),
        },
    ),
    "in uncalled function": (
        "unknown",
        bound_late("def enable():\n    Toy.APPLY_FSDP2_CUSTOM_PREFETCHING = apply_prefetching"),
    ),
    "decorator binds": (
        "unknown",
        {
            MODEL_PY: WITHOUT_BINDING.replace(
                "class Toy",
                "def with_hook(f):\n    def wrap(cls):\n        cls.APPLY_FSDP2_CUSTOM_PREFETCHING = f\n        return cls\n    return wrap\n\n@with_hook(apply_prefetching)\nclass Toy",
            )
        },
    ),
    "misspelt attribute": (
        "fail",
        {MODEL_PY: MODEL.replace("APPLY_FSDP2_CUSTOM_PREFETCHING", "APPLY_FSDP2_CUSTOM_PREFETCH")},
    ),
    "function never bound": ("fail", {MODEL_PY: WITHOUT_BINDING}),
    "called directly by engine, not bound": (
        "fail",
        {
            MODEL_PY: WITHOUT_BINDING,
            ENGINE_PY: engine(
                f"model = {SHARD.replace('model,', 'Toy(1),')}\napply_prefetching(model)\nreturn model",
                head="from .model import apply_prefetching",
            ),
        },
    ),
    "no hook nor edges": ("not applicable", {MODEL_PY: WITHOUT_HOOK}),
    "if in class body both": (
        "pass",
        {
            MODEL_PY: MODEL.replace(
                BINDING,
                "    if True:\n        APPLY_FSDP2_CUSTOM_PREFETCHING = apply_prefetching\n",
            )
        },
    ),
    "class-body method alias": (
        "pass",
        {
            MODEL_PY: MODEL.replace(
                BINDING,
                "    def _edges(self):\n        pass\n    APPLY_FSDP2_CUSTOM_PREFETCHING = _edges\n",
            )
        },
    ),
    "class-body method alias wrong arity": (
        "fail",
        {
            MODEL_PY: MODEL.replace(
                BINDING,
                "    def _edges(self, model):\n        pass\n    APPLY_FSDP2_CUSTOM_PREFETCHING = _edges\n",
            )
        },
    ),
    "property": (
        "fail",
        {
            MODEL_PY: MODEL.replace(
                BINDING,
                "    @property\n    def APPLY_FSDP2_CUSTOM_PREFETCHING(self):\n        return apply_prefetching\n",
            )
        },
    ),
    "lambda wrong arity": (
        "fail",
        {MODEL_PY: MODEL.replace("= apply_prefetching", "= lambda: None")},
    ),
    "kwonly required": (
        "fail",
        {MODEL_PY: MODEL.replace("(model: nn.Module)", "(model: nn.Module, *, depth)")},
    ),
    "*args": (
        "pass",
        {
            MODEL_PY: MODEL.replace(
                "(model: nn.Module) -> None:\n", "(*models) -> None:\n    (model,) = models\n"
            )
        },
    ),
    "partial too many": (
        "fail",
        {
            MODEL_PY: MODEL.replace("(model: nn.Module)", "(model, a, b)").replace(
                "= apply_prefetching", "= functools.partial(apply_prefetching, b=1)"
            )
        },
    ),
    "partial fits": (
        "pass",
        {
            MODEL_PY: MODEL.replace("(model: nn.Module)", "(model, a, b)").replace(
                "= apply_prefetching", "= functools.partial(apply_prefetching, a=2, b=1)"
            )
        },
    ),
    "partial positional shifts": (
        "fail",
        {
            MODEL_PY: MODEL.replace(
                "= apply_prefetching", "= functools.partial(apply_prefetching, 1)"
            )
        },
    ),
    "factory": (
        "pass",
        {
            MODEL_PY: MODEL.replace(
                "class Toy",
                "def make_hook(n):\n    def hook(model):\n        pass\n    return hook\n\nclass Toy",
            ).replace("= apply_prefetching", "= make_hook(2)")
        },
    ),
    "factory wrong arity": (
        "fail",
        {
            MODEL_PY: MODEL.replace(
                "class Toy",
                "def make_hook(n):\n    def hook(model, x):\n        pass\n    return hook\n\nclass Toy",
            ).replace("= apply_prefetching", "= make_hook(2)")
        },
    ),
    "called by mistake returns None": (
        "fail",
        {
            MODEL_PY: MODEL.replace("class Toy", "toy_model = None\nclass Toy").replace(
                "= apply_prefetching", "= apply_prefetching(toy_model)"
            )
        },
    ),
    "callable object": (
        "pass",
        {
            MODEL_PY: MODEL.replace(
                "class Toy",
                "class Edges:\n    def __call__(self, model):\n        pass\n\nclass Toy",
            ).replace("= apply_prefetching", "= Edges()")
        },
    ),
    "not callable object": (
        "fail",
        {
            MODEL_PY: MODEL.replace("class Toy", "class Edges:\n    pass\n\nclass Toy").replace(
                "= apply_prefetching", "= Edges()"
            )
        },
    ),
    "number": ("fail", {MODEL_PY: MODEL.replace("= apply_prefetching", "= 3")}),
    "True": ("fail", {MODEL_PY: MODEL.replace("= apply_prefetching", "= True")}),
    "name not defined": (
        "unknown",
        {MODEL_PY: MODEL.replace("= apply_prefetching", "= apply_prefetchin")},
    ),
    "external": (
        "unknown",
        {MODEL_PY: "from company import hook\n" + MODEL.replace("= apply_prefetching", "= hook")},
    ),
    "imported from sibling": (
        "pass",
        {
            MODEL_PY: "from .pre import apply_prefetching\n"
            + WITHOUT_HOOK.replace("class Toy(nn.Module):\n", "class Toy(nn.Module):\n" + BINDING),
            "recipes/toy/pre.py": MODEL[MODEL.index("def apply") : MODEL.index("class Toy")],
        },
    ),
    "no_grad decorated": (
        "pass",
        {MODEL_PY: MODEL.replace("def apply_pref", "@torch.no_grad()\ndef apply_pref")},
    ),
    "unknown decorated": (
        "unknown",
        {MODEL_PY: "from x import dec\n" + MODEL.replace("def apply_pref", "@dec\ndef apply_pref")},
    ),
    "cls override None in subclass": (
        "fail",
        {
            MODEL_PY: MODEL + "\n\nclass Sub(Toy):\n    APPLY_FSDP2_CUSTOM_PREFETCHING = None\n",
            ENGINE_PY: ENGINE.replace("Toy", "Sub", 1).replace("Toy(self", "Sub(self"),
        },
    ),
    "external base, hook on sub": (
        "pass",
        {
            MODEL_PY: "from transformers import X\n"
            + MODEL.replace("class Toy(nn.Module)", "class Toy(X)")
        },
    ),
    "mixin after": (
        "pass",
        {
            MODEL_PY: WITHOUT_BINDING.replace(
                "class Toy(nn.Module)", "class Mix:\n" + BINDING + "\nclass Toy(nn.Module, Mix)"
            )
        },
    ),
    "unresolved base": (
        "unknown",
        {
            MODEL_PY: WITHOUT_BINDING.replace(
                "class Toy(nn.Module)",
                "class Other(nn.Module):\n" + BINDING + "\nclass Toy(make_base())",
            )
        },
    ),
    "flag set after build in prepare_model": (
        "fail",
        {
            ENGINE_PY: engine(
                f"model = Toy(1)\nmodel._fsdp2_prefetching_configured = True\nreturn {SHARD}"
            )
        },
    ),
    "presence tested, set to False by the constructor": (
        "fail",
        model(
            (FLAG, FLAG.replace("getattr(", "hasattr(").replace(", False", "")),
            ("        self.", "        self._fsdp2_prefetching_configured = False\n        self."),
        ),
    ),
    "value tested, set to False by the constructor": (
        "pass",
        model(
            ("        self.", "        self._fsdp2_prefetching_configured = False\n        self."),
        ),
    ),
    "presence tested, set to False by the builder": (
        "fail",
        {
            **model((FLAG, FLAG.replace("getattr(", "hasattr(").replace(", False", ""))),
            ENGINE_PY: engine(
                f"model = Toy(1)\nmodel._fsdp2_prefetching_configured = False\nreturn {SHARD}"
            ),
        },
    ),
    "annotated": (
        "pass",
        {MODEL_PY: MODEL.replace("PREFETCHING = apply", "PREFETCHING: ClassVar = apply")},
    ),
}
FORWARD = {
    "no hook nor edges": ("not applicable", {MODEL_PY: WITHOUT_HOOK}),
    "normal": ("unknown", {}),
    "bare module": (
        "fail",
        model(("forward_prefetch([following])", "forward_prefetch(following)")),
    ),
    "list var": ("unknown", model(("forward_prefetch([following])", "forward_prefetch(targets)"))),
    "self": ("fail", model(("forward_prefetch([following])", "forward_prefetch([block])"))),
    "root": ("fail", model(("forward_prefetch([following])", "forward_prefetch([model])"))),
    "dup": (
        "fail",
        model(("forward_prefetch([following])", "forward_prefetch([following, following])")),
    ),
    "two": (
        "unknown",
        model(("forward_prefetch([following])", "forward_prefetch([following, following.gate])")),
    ),
    "swapped module index self": (
        "fail",
        model(
            (
                "block.set_modules_to_forward_prefetch([following])",
                "model.blocks[0].set_modules_to_forward_prefetch([model.blocks[0]])",
            )
        ),
    ),
}
IDEMPOTENT = {
    "no hook nor edges": ("not applicable", {MODEL_PY: WITHOUT_HOOK}),
    "no flag": ("unknown", model((FLAG, ""), (SET, ""))),
    "typo": ("fail", model((SET, "    model._fsdp2_prefetch_configured = True\n"))),
    "never set": ("fail", model((SET, ""))),
    "never tested": ("fail", model((FLAG, ""))),
    "set False": ("fail", model((SET, "    model._fsdp2_prefetching_configured = False\n"))),
    "hasattr": (
        "pass",
        model((FLAG, '    if hasattr(model, "_fsdp2_prefetching_configured"):\n        return\n')),
    ),
    "attr test, set by the class": (
        "pass",
        model(
            (FLAG, "    if model._fsdp2_prefetching_configured:\n        return\n"),
            ("    TP_", "    _fsdp2_prefetching_configured = False\n    TP_"),
        ),
    ),
    "attr test, set by the constructor": (
        "pass",
        model(
            (FLAG, "    if model._fsdp2_prefetching_configured:\n        return\n"),
            ("        self.", "        self._fsdp2_prefetching_configured = False\n        self."),
        ),
    ),
    "attr test, set by nothing": (
        "fail",
        model((FLAG, "    if model._fsdp2_prefetching_configured:\n        return\n")),
    ),
    "const name": (
        "pass",
        model(
            (FLAG, "    if getattr(model, FLAG, False):\n        return\n"),
            (SET, "    setattr(model, FLAG, True)\n"),
            ("class Block", 'FLAG = "_done"\nclass Block'),
        ),
    ),
    "inverted guard": (
        "pass",
        {
            MODEL_PY: MODEL.replace(
                FLAG, '    if not getattr(model, "_fsdp2_prefetching_configured", False):\n'
            )
            .replace("    for block, fol", "        for block, fol")
            .replace("        block.set", "            block.set")
            .replace("        following.set", "            following.set")
            .replace(SET, "        model._fsdp2_prefetching_configured = True\n")
        },
    ),
    "edges before test": (
        "fail",
        model(
            (
                FLAG,
                "    model.blocks[0].set_modules_to_forward_prefetch([model.blocks[1]])\n" + FLAG,
            )
        ),
    ),
    "set before edges": ("pass", {MODEL_PY: MODEL.replace(SET, "").replace(FLAG, FLAG + SET)}),
    "return between": ("unknown", model((SET, "    if not model.tail:\n        return\n" + SET))),
    "return before edges w/o flag": (
        "pass",
        model(("    for block", "    if not model.blocks:\n        return\n    for block")),
    ),
    "set on other object": (
        "fail",
        model((SET, "    model.blocks._fsdp2_prefetching_configured = True\n")),
    ),
    "set only in if": (
        "unknown",
        model(
            (
                SET,
                "    if len(model.blocks) > 3:\n        model._fsdp2_prefetching_configured = True\n",
            )
        ),
    ),
    "set in both branches": (
        "pass",
        model(
            (
                SET,
                "    if len(model.blocks) > 3:\n        model._fsdp2_prefetching_configured = True\n    else:\n        model._fsdp2_prefetching_configured = True\n",
            )
        ),
    ),
    "set in loop": (
        "pass",
        model(
            (SET, ""),
            (
                "        following.set_modules_to_backward_prefetch([block])\n",
                "        following.set_modules_to_backward_prefetch([block])\n        model._fsdp2_prefetching_configured = True\n",
            ),
        ),
    ),
    "test with inverted return": (
        "fail",
        model((FLAG, FLAG.replace("if getattr", "if not getattr"))),
    ),
    "delegates": (
        "pass",
        model(
            ("class Toy", "def hook(model):\n    return apply_prefetching(model)\n\n\nclass Toy"),
            ("PREFETCHING = apply_prefetching", "PREFETCHING = hook"),
        ),
    ),
    "variable": (
        "pass",
        model(
            (
                FLAG,
                '    done = getattr(model, "_fsdp2_prefetching_configured", False)\n    if done:\n        return\n',
            )
        ),
    ),
    "annotated set": (
        "pass",
        model((SET, "    model._fsdp2_prefetching_configured: bool = True\n")),
    ),
    "replaced list": (
        "fail",
        model(
            (
                "        following.set_mod",
                "        block.set_modules_to_forward_prefetch([model.head])\n        following.set_mod",
            )
        ),
    ),
    "early return raise": (
        "pass",
        model(
            (
                "    for block",
                '    if model.blocks is None:\n        raise ValueError("no blocks")\n    for block',
            )
        ),
    ),
    "another attribute set": (
        "unknown",
        model((FLAG, ""), (SET, "    model.prefetch_depth = 2\n")),
    ),
    "another attribute tested": (
        "unknown",
        model((FLAG, "    if model.prefetch_enabled:\n        return\n"), (SET, "")),
    ),
    "another attribute tested and set beside the flag": (
        "pass",
        model(
            (FLAG, FLAG + '    if not hasattr(model, "cache"):\n        model.cache = True\n'),
        ),
    ),
    "tested or not wanted": (
        "pass",
        model((FLAG, FLAG.replace("False):", "False) or not model.blocks:"))),
    ),
    "tested by a helper": (
        "unknown",
        model((FLAG, "    if done(model):\n        return\n")),
    ),
    "set by a helper": ("unknown", model((SET, "    mark_done(model)\n"))),
    "set by a method": ("unknown", model((SET, "    model.mark_done()\n"))),
    "never set, with a look at the modules": (
        "fail",
        model((SET, "    print(len(list(model.modules())))\n")),
    ),
    "tested twice": (
        "pass",
        model((SET, f"    if not getattr(model, '_fsdp2_prefetching_configured', 0):\n    {SET}")),
    ),
    "tested and something else": (
        "unknown",
        model((FLAG, FLAG.replace("False):", "False) and model.training:"))),
    ),
    "edges by a helper, flag set last": (
        "pass",
        {
            MODEL_PY: MODEL.replace(
                "        block.set_modules_to_forward_prefetch([following])\n"
                "        following.set_modules_to_backward_prefetch([block])\n",
                "        link(block, following)\n",
            ).replace(
                "class Toy",
                "def link(a, b):\n    a.set_modules_to_forward_prefetch([b])\n\n\nclass Toy",
            )
        },
    ),
    "edges by a helper before the test": (
        "fail",
        {
            MODEL_PY: MODEL.replace(
                FLAG, f"    link(model.blocks[0], model.blocks[1])\n{FLAG}"
            ).replace(
                "class Toy",
                "def link(a, b):\n    a.set_modules_to_forward_prefetch([b])\n\n\nclass Toy",
            )
        },
    ),
}
WRAP_TARGETS = {
    "only config": ("pass", {MODEL_PY: MODEL.replace('    _no_split_modules = ["Block"]\n', "")}),
    "hpm misspelt": ("fail", {CONFIG_YAML: CONFIG + "      high_precision_modules: [Gate]\n"}),
    "used in helper function": (
        "pass",
        {
            MODEL_PY: MODEL.replace("nn.ModuleList(Block() for _ in range(3))", "make()").replace(
                "class Toy", "def make():\n    return nn.ModuleList([Block()])\n\nclass Toy"
            )
        },
    ),
    "used through dict": (
        "pass",
        {
            MODEL_PY: MODEL.replace("Block() for", "KINDS['b']() for").replace(
                "class Toy", "KINDS = {'b': Block}\nclass Toy"
            )
        },
    ),
    "base class only": (
        "fail",
        {
            MODEL_PY: MODEL.replace(
                "class Block(nn.Module)", "class Base(nn.Module):\n    pass\n\nclass Block(Base)"
            ).replace('["Block"]', '["Base"]')
        },
    ),
    "renamed import of other module": (
        "pass",
        {
            MODEL_PY: MODEL.replace(
                "class Block(nn.Module):\n    def forward(self, x):\n        return x\n",
                "from .blocks import Block as B",
            ).replace("Block() for", "B() for"),
            "recipes/toy/blocks.py": "from torch import nn\nclass Block(nn.Module):\n    pass\n",
        },
    ),
    "imported external": (
        "pass",
        {
            MODEL_PY: "from transformers.x import Layer\n"
            + MODEL.replace('["Block"]', '["Layer"]').replace("Block() for", "Layer() for"),
            CONFIG_YAML: CONFIG.replace("[Block]", "[Layer]"),
        },
    ),
    "not a module": (
        "fail",
        {
            MODEL_PY: MODEL.replace("class Toy", "class Cfg:\n    pass\n\nclass Toy")
            .replace('["Block"]', '["Cfg"]')
            .replace("super().__init__()", "super().__init__()\n        self.c = Cfg()")
        },
    ),
    "dynamic registry in model": (
        "unknown",
        {
            MODEL_PY: MODEL.replace("Block() for", "self.pick(dim)() for")
            .replace(
                "def __init__",
                "def pick(self, n):\n        return getattr(layers, n)\n\n    def __init__",
            )
            .replace("class Toy", "from . import layers\n\nclass Toy")
            .replace('["Block"]', '["Other"]'),
            "recipes/toy/layers.py": "from torch import nn\nclass Other(nn.Module): ...\n",
            CONFIG_YAML: "engine: toy\n",
        },
    ),
    "external base, target elsewhere": (
        "unknown",
        {
            MODEL_PY: "from transformers import X\n"
            + MODEL.replace("class Toy(nn.Module)", "class Toy(X)").replace(
                '["Block"]', '["XLayer"]'
            )
        },
    ),
    "inherited list": (
        "pass",
        {
            MODEL_PY: MODEL + "\n\nclass Sub(Toy):\n    pass\n",
            ENGINE_PY: ENGINE.replace("import Toy", "import Sub").replace("Toy(self", "Sub(self"),
            CONFIG_YAML: "engine: toy\n",
        },
    ),
    "inherited list + more": (
        "pass",
        {
            MODEL_PY: MODEL
            + "\n\nclass Extra(nn.Module): ...\nclass Sub(Toy):\n    _no_split_modules = Toy._no_split_modules + ['Extra']\n    def __init__(self):\n        self.e = Extra()\n",
            ENGINE_PY: ENGINE.replace("import Toy", "import Sub").replace("Toy(self", "Sub(self"),
            CONFIG_YAML: "engine: toy\n",
        },
    ),
    "list const name misspelt": (
        "fail",
        {
            MODEL_PY: MODEL.replace("class Toy", 'NAMES = ["Blok"]\n\nclass Toy').replace(
                '["Block"]', "NAMES"
            )
        },
    ),
    "external inherited list only": (
        "unknown",
        {
            MODEL_PY: "from transformers import X\n"
            + MODEL.replace("class Toy(nn.Module)", "class Toy(X)").replace(
                '    _no_split_modules = ["Block"]\n', ""
            ),
            CONFIG_YAML: "engine: toy\n",
        },
    ),
    "in __init__ self list misspelt": (
        "fail",
        {
            MODEL_PY: MODEL.replace('    _no_split_modules = ["Block"]\n', "").replace(
                "super().__init__()",
                "super().__init__()\n        self._no_split_modules = ['Blok']",
            ),
            CONFIG_YAML: "engine: toy\n",
        },
    ),
    "__name__ list": ("pass", {MODEL_PY: MODEL.replace('["Block"]', "[Block.__name__]")}),
    "nn composite": (
        "unknown",
        {
            MODEL_PY: MODEL.replace('["Block"]', '["TransformerEncoderLayer"]').replace(
                "self.blocks =", "self.t = nn.Transformer(8)\n        self.blocks ="
            )
        },
    ),
    "none named with hook": (
        "fail",
        {
            MODEL_PY: MODEL.replace('    _no_split_modules = ["Block"]\n', ""),
            CONFIG_YAML: "engine: toy\n",
        },
    ),
    "empty lists": (
        "fail",
        {MODEL_PY: MODEL.replace('["Block"]', "[]"), CONFIG_YAML: CONFIG.replace("[Block]", "[]")},
    ),
    "broken yaml": ("unknown", {CONFIG_YAML: "engine: [\n"}),
}
BACKWARD = {
    "self": ("fail", model(("backward_prefetch([block])", "backward_prefetch([following])"))),
    "none": (
        "not applicable",
        model(("        following.set_modules_to_backward_prefetch([block])\n", "")),
    ),
}
MERGED = {
    "no tp": ("not applicable", model(('    TP_MODULE_CONFIG = {"blocks.*": "colwise"}\n', ""))),
    "tp on base": (
        "pass",
        {
            MODEL_PY: MODEL.replace('    TP_MODULE_CONFIG = {"blocks.*": "colwise"}\n', "").replace(
                "class Toy(nn.Module)",
                "class Base(nn.Module):\n    TP_MODULE_CONFIG = {}\n\nclass Toy(Base)",
            )
        },
    ),
    "tp on subclass unused": (
        "fail",
        {
            MODEL_PY: MODEL.replace('    TP_MODULE_CONFIG = {"blocks.*": "colwise"}\n', "")
            + "\n\nclass TPToy(Toy):\n    TP_MODULE_CONFIG = {}\n"
        },
    ),
    "hook wrapper around tp model": (
        "fail",
        {
            MODEL_PY: MODEL.replace(BINDING, "")
            + "\n\nclass Wrap(nn.Module):\n"
            + BINDING
            + "    def __init__(self, c):\n        super().__init__()\n        self.inner = Toy(c)\n",
            ENGINE_PY: ENGINE.replace("import Toy", "import Wrap").replace("Toy(self", "Wrap(self"),
        },
    ),
    "tp on unrelated other model in another recipe dir": (
        "not applicable",
        {
            MODEL_PY: MODEL.replace('    TP_MODULE_CONFIG = {"blocks.*": "colwise"}\n', ""),
            "recipes/other/model.py": "class X:\n    TP_MODULE_CONFIG={}\n",
        },
    ),
    "post on other class only": (
        "fail",
        {
            MODEL_PY: MODEL.replace(
                "class Toy",
                "class Other(nn.Module):\n    TP_MODULE_POSTPROCESSORS = ()\n\nclass Toy",
            ).replace('    TP_MODULE_CONFIG = {"blocks.*": "colwise"}\n', "")
        },
    ),
    "tp late bound": (
        "pass",
        {
            MODEL_PY: MODEL.replace('    TP_MODULE_CONFIG = {"blocks.*": "colwise"}\n', "")
            + "\n\nToy.TP_MODULE_CONFIG = {}\n"
        },
    ),
    "config on top, posts on other": (
        "fail",
        {
            MODEL_PY: MODEL.replace(
                "class Toy",
                "class Other(nn.Module):\n    TP_MODULE_POSTPROCESSORS = ()\n\nclass Toy",
            ).replace("self.blocks =", "self.o = Other()\n        self.blocks =")
        },
    ),
}
FORMS = {
    "hook-bound": HOOK_BOUND,
    "forward-edges": FORWARD,
    "idempotent": IDEMPOTENT,
    "wrap-targets": WRAP_TARGETS,
    "backward-edges": BACKWARD,
    "attributes-merged": MERGED,
}


@pytest.mark.parametrize(
    ("item", "form"), [(item, form) for item, forms in FORMS.items() for form in forms]
)
def test_verdict(item, form):
    expected, files = FORMS[item][form]
    assert all(FILES.get(path) != text for path, text in files.items()), "an edit did nothing"
    result = Recipe(files).check(item)
    assert result.verdict == expected, result.summary
    assert result.evidence or expected in ("not applicable", "pass")
