"""Source written to keep the reader busy, or to break it: always a result, in bounded time."""

from __future__ import annotations

import time

import pytest

from action.checklist import Context, check_recipe
from action.repository.python import PythonTree
from action.repository.tree import MappingTree
from action.source import read_recipe

HEAD = "from runtime import Engine, parallelize_model, register_engine\nfrom .model import Toy\n"
CLASS = '@register_engine("toy")\nclass ToyEngine(Engine):\n    def prepare_model(self):\n'
END = "        return parallelize_model(model)\n"
MODEL = "from torch import nn\nclass Toy(nn.Module):\n    APPLY_FSDP2_CUSTOM_PREFETCHING = hook\n"
HOOK = "def hook(model):\n    pass\n"


def loops(depth: int, inner: str, indent: int) -> str:
    lines = [" " * (indent + level) + "for _ in range(9):\n" for level in range(depth)]
    return "".join(lines) + " " * (indent + depth) + inner + "\n"


def engine(body: str, before: str = "") -> dict[str, str]:
    return {"recipes/toy/engine.py": f"{HEAD}{before}{CLASS}{body}{END}"}


def model(hook: str) -> dict[str, str]:
    body = "        model = Toy(1)\n"
    return {"recipes/toy/model.py": hook + MODEL, **engine(body)}


DOUBLING = "".join(f"        x{i + 1} = (x{i}, x{i})\n" for i in range(60))
LADDER = "".join(
    f"def f{i}():\n    return f{i + 1}() if y else f{i + 1}()\n" for i in range(40)
)  # fmt: skip
DIAMONDS = "class A0(nn.Module): pass\nclass B0(nn.Module): pass\n" + "".join(
    f"class A{i + 1}(A{i}, B{i}): pass\nclass B{i + 1}(A{i}, B{i}): pass\n" for i in range(40)
)
SOURCES = {
    "loops within loops": engine(loops(60, "model = Toy(1)", 8)),
    "tuples that double": engine(f"        x0 = (Toy, 1)\n{DOUBLING}        model = x60\n"),
    "calls that double": engine(
        "        model = f0()\n", f"{LADDER}def f40():\n    return Toy(1)\n"
    ),
    "a sum of ten thousand": engine(f"        model = {'a + ' * 10_000}a\n"),
    "a chain of attributes": engine(f"        model = a{'.b' * 20_000}\n"),
    "a chain of calls": engine(f"        model = a{'()' * 5_000}\n"),
    "brackets": engine(f"        model = {'[' * 90}{']' * 90}\n"),
    "ten thousand branches": engine(
        "        model = Toy(1)\n" + "        if self.x:\n            model = Toy(2)\n" * 10_000
    ),
    "a name defined by itself": engine("        model = a(1)\n", "a = b\nb = a\n"),
    "a table that holds itself": engine("        model = T[self.x]()\n", "T = {'a': T}\n"),
    "a class that inherits from itself": {
        **engine("        model = Toy(1)\n"),
        "recipes/toy/model.py": f"{HOOK}class Toy(Toy):\n    pass\n",
    },
    "loops within loops in the hook": model("def hook(model):\n" + loops(60, "a.x()", 4)),
    "hooks that call each other": model(
        "".join(f"def h{i}(m):\n    h{i + 1}(m)\n    h{i + 1}(m)\n" for i in range(200))
        + "def hook(model):\n    h0(model)\n"
    ),
    "a deep expression in the hook": model(f"def hook(model):\n    return {'a + ' * 9_000}a\n"),
    "diamonds of classes": {
        **engine("        model = Toy(1)\n"),
        "recipes/toy/model.py": f"{HOOK}from torch import nn\n{DIAMONDS}class Toy(A40): pass\n",
    },
}


@pytest.mark.parametrize("source", SOURCES)
def test_a_result_in_bounded_time(source):
    files = {
        "recipes/toy/__init__.py": "",
        "recipes/toy/model.py": HOOK + MODEL,
        "recipes/toy/configs/a.yaml": "engine: toy\n",
        "runtime.py": "",
        **SOURCES[source],
    }
    tree = MappingTree(files)
    python = PythonTree(tree)
    begin = time.monotonic()
    recipe = read_recipe(tree, python, "toy", "recipes/toy")
    checks = check_recipe(Context(recipe, tree, python))
    assert time.monotonic() - begin < 20
    assert len(checks) == 8
    assert recipe.candidates or recipe.trail_ends
