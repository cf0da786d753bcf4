"""The class that training instantiates, followed through the forms that engines take."""

from __future__ import annotations

import pytest

from action.records import Location, RecipeSource
from action.repository.python import PythonTree
from action.repository.tree import MappingTree
from action.source import read_recipe

MODEL = """
from torch import nn


class Toy(nn.Module):
    pass


class Other(nn.Module):
    pass
"""
HEAD = """
from runtime import Engine, parallelize_model, register_engine
from .model import Other, Toy
"""
CLASS = '\n\n@register_engine("toy")\nclass ToyEngine(Engine):\n'
FILES = {
    "runtime.py": "class Engine: ...\ndef register_engine(name): ...\n"
    "def parallelize_model(model, mesh, kwargs): ...\n",
    "recipes/toy/__init__.py": "",
    "recipes/toy/model.py": MODEL,
    "recipes/toy/configs/a.yaml": "engine: toy\n",
}


def read(engine: str, **more: str) -> RecipeSource:
    files = {**FILES, "recipes/toy/engine.py": engine, **more}
    tree = MappingTree(files)
    return read_recipe(tree, PythonTree(tree), "toy", "recipes/toy")


def prepared(body: str, before: str = "", more: str = "") -> str:
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    engine = f"{HEAD}{before}{CLASS}    def prepare_model(self):\n{lines}{more}"
    return engine.replace("SHARD", "parallelize_model")


FOLLOWED = {
    "built and sharded in one line": prepared("return SHARD(Toy(1), self.mesh, {})"),
    "a variable in between": prepared("m = Toy(1)\nm = m.to('cuda').train()\nreturn SHARD(m)"),
    "by keyword": prepared("return SHARD(mesh=self.mesh, model=Toy(1))"),
    "sharded in place": prepared("self.model = Toy(1)\nSHARD(self.model, self.mesh)"),
    "on the meta device": prepared(
        "with torch.device('meta'):\n    m = Toy(1)\nreturn SHARD(m)"
    ),
    "a builder": prepared("return SHARD(build(1))", "def build(n):\n    return Toy(n)\n"),
    "a builder in another module": prepared(
        "return SHARD(build.make(1))", "from . import build\n"
    ),
    "a method": prepared(
        "return SHARD(self._build())",
        more="    def _build(self):\n        return Toy(1)\n",
    ),
    "a method that is given the model": prepared(
        "return self._shard(Toy(1))",
        more="    def _shard(self, model):\n        return SHARD(model)\n",
    ),
    "a static method": prepared(
        "return SHARD(self.make(1))",
        more="    @staticmethod\n    def make(n):\n        return Toy(n)\n",
    ),
    "from_config inherited from outside": prepared("return SHARD(Toy.from_config(c))"),
    "a class method of the model": prepared(
        "return SHARD(Made.build(1))",
        "class Made(Toy):\n    @classmethod\n    def build(cls, n):\n        return Toy(n)\n",
    ),
    "a class in a variable": prepared("cls = Toy\nreturn SHARD(cls(1))"),
    "a class attribute": prepared(
        "return SHARD(self.model_class(1))", more="    model_class = Toy\n"
    ),
    "one class in both branches": prepared(
        "if self.big:\n    m = Toy(9)\nelse:\n    m = Toy(1)\nreturn SHARD(m)"
    ),
    "a re-export": prepared(
        "return SHARD(Alias(1))", "from recipes.toy import Toy as Alias\n"
    ),
}  # fmt: skip
MORE = {
    "recipes/toy/build.py": "from .model import Toy\n\n\ndef make(n):\n    return Toy(n)\n",
    "recipes/toy/__init__.py": "from .model import Toy\n",
}


@pytest.mark.parametrize("form", FOLLOWED)
def test_followed(form):
    source = read(FOLLOWED[form], **MORE)
    assert source.trail_ends == ()
    assert source.top_level_class is not None
    assert source.top_level_class.name == "recipes.toy.model.Toy"
    assert source.engine.name == "recipes.toy.engine.ToyEngine"


def test_the_class_method_gets_its_class():
    engine = prepared(
        "return SHARD(Made.build(1))",
        "class Made(Toy):\n    @classmethod\n    def build(cls, n):\n        return cls(n)\n",
    )
    assert read(engine).top_level_class.name == "recipes.toy.engine.Made"


BASE = """
class Base(Engine):
    def prepare_model(self):
        return parallelize_model(self.build())

    def build(self):
        return Other(1)
"""


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("    def build(self):\n        return Toy(1)\n", "recipes.toy.model.Toy"),
        (
            "    def prepare_model(self):\n        model = super().prepare_model()\n"
            "        return model\n",
            "recipes.toy.model.Other",
        ),
    ],
)
def test_prepare_model_is_inherited_and_calls_super(method, expected):
    engine = HEAD + BASE + CLASS.replace("(Engine)", "(Base)") + method
    assert read(engine).top_level_class.name == expected


CANDIDATES = {
    "branches": "if self.big:\n    m = Toy(1)\nelse:\n    m = Other(1)\nreturn SHARD(m)",
    "an expression": "return SHARD(Toy(1) if self.big else Other(1))",
    "a table": "return SHARD(MODELS[self.name](1))",
    "an early return": "if self.big:\n    return SHARD(Toy(1))\nreturn SHARD(Other(1))",
}  # fmt: skip


@pytest.mark.parametrize("form", CANDIDATES)
def test_all_candidates(form):
    source = read(prepared(CANDIDATES[form], 'MODELS = {"toy": Toy, "other": Other}\n'))
    assert source.top_level_class is None
    assert source.trail_ends == ()
    assert [cls.name.rpartition(".")[2] for cls in source.candidates] == ["Toy", "Other"]


ENDS = {
    "a registry": ("return SHARD(REGISTRY[self.name](1))",
                   "REGISTRY = {}\nREGISTRY['toy'] = Toy\n", 11,
                   "`REGISTRY` is filled at run time"),
    "getattr": ("return SHARD(getattr(models, self.name)(1))", "", 9,
                "`getattr(models, self.name)` looks an attribute up by a name known only at "),
    "a class from outside": ("return SHARD(AutoModel.from_config(c))",
                             "from transformers import AutoModel\n", 10,
                             "`AutoModel.from_config(c)` is a call of `transformers.AutoModel"),
    "a name that is nowhere": ("return SHARD(Nowhere(1))", "", 9,
                               "`Nowhere` is not defined in recipes/toy/engine.py"),
    "nothing": ("pass", "", 8, "`prepare_model()` hands no model to `parallelize_model(…)`"),
    "calls in a circle": ("return self.prepare_model()", "", 8, "`prepare_model` calls itself"),
}  # fmt: skip


@pytest.mark.parametrize("form", ENDS)
def test_where_the_trail_ends(form):
    body, before, line, why = ENDS[form]
    source = read(prepared(body, before))
    assert source.top_level_class is None
    (end,) = source.trail_ends
    assert end.location == Location(path="recipes/toy/engine.py", line=line)
    assert end.why.startswith(why)


def test_an_engine_that_is_not_registered():
    source = read(prepared("return SHARD(Toy(1))").replace('"toy"', '"yot"'))
    assert [(end.location, end.why) for end in source.trail_ends] == [
        (
            Location(path="recipes/toy/configs/a.yaml", line=1),
            "no class that recipes/toy imports is registered as the engine `toy`",
        )
    ]


@pytest.mark.parametrize("name", ["recipes.toy.engine.ToyEngine", "recipes.toy.engine:ToyEngine"])
def test_an_engine_by_its_path(name):
    config = {"recipes/toy/configs/a.yaml": f"engine: {name}\n"}
    source = read(prepared("return SHARD(Toy(1))").replace('"toy"', '"x"'), **config)
    assert source.top_level_class.name == "recipes.toy.model.Toy"


def test_without_a_config_the_class_that_prepares_a_model_is_the_engine():
    source = read(prepared("return SHARD(Toy(1))"), **{"recipes/toy/configs/a.yaml": "x: 1\n"})
    assert source.top_level_class.name == "recipes.toy.model.Toy"


def test_a_model_that_is_not_sharded_is_named_but_not_settled():
    source = read(prepared("return Toy(1)"))
    assert [cls.name for cls in source.candidates] == ["recipes.toy.model.Toy"]
    assert source.top_level_class is None
    assert [end.location.line for end in source.trail_ends] == [8]


def test_files_that_cannot_be_read_are_named():
    source = read("class X(:\n", **{"recipes/toy/configs/b.yaml": "a: [\n"})
    assert [problem.location.path for problem in source.problems] == [
        "recipes/toy/configs/b.yaml",
        "recipes/toy/engine.py",
    ]


def test_the_record_comes_back_from_json():
    source = read(prepared("return SHARD(Toy(1))"))
    assert RecipeSource.model_validate_json(source.model_dump_json()) == source
