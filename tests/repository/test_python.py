"""Names followed through real import forms, and the class resolver against another tool."""

import shutil
from pathlib import Path

import griffe
import pytest
import torch.nn

from action.records import Location
from action.repository.python import (
    Definition,
    External,
    ImportedModule,
    ModuleRef,
    PythonTree,
    Unresolved,
)
from action.repository.syntax import UnparsableError, fingerprint, parse
from action.repository.tree import MappingTree


def tree(files: dict[str, str]) -> PythonTree:
    return PythonTree(MappingTree(files))


MODEL = "import torch.nn as nn\nclass Model(nn.Module):\n    pass\n"

FORMS = {
    "from x": ("from pkg.model import Model\n", "Model"),
    "aliased": ("from pkg.model import Model as M\n", "M"),
    "relative": ("from .model import Model\n", "Model"),
    "relative module": ("from . import model\n", "model.Model"),
    "relative module, aliased": ("from . import model as m\n", "m.Model"),
    "import": ("import pkg.model\n", "pkg.model.Model"),
    "import, aliased": ("import pkg.model as m\n", "m.Model"),
    "star": ("from .model import *\n", "Model"),
    "re-export": ("from pkg import Model\n", "Model"),
    "assigned": ("from pkg.model import Model\nAlias = Model\nOther = Alias\n", "Other"),
    "in a try": (
        "try:\n    from pkg.model import Model\nexcept ImportError:\n    Model = None\n",
        "Model",
    ),
    "in an if": ("if True:\n    from pkg.model import Model\n", "Model"),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_import_form_leads_to_the_class(form):
    source, name = FORMS[form]
    files = {"pkg/__init__.py": "from .model import Model\n", "pkg/model.py": MODEL}
    found = tree({**files, "pkg/engine.py": source}).resolve("pkg/engine.py", name)
    assert isinstance(found, Definition)
    assert (found.qualified, found.location) == (
        "pkg.model.Model",
        Location(path="pkg/model.py", line=2),
    )


LAZY = {
    "name to module": "_T = {'Model': '.model'}\ndef __getattr__(name): ...\n",
    "name to pair": "_T = {'Model': ('pkg.model', 'Model')}\ndef __getattr__(name): ...\n",
    "module to names": (
        "import sys\n_T = {'model': ['Model']}\nsys.modules[__name__] = _Lazy(__name__, _T)\n"
    ),
    "import within": (
        "def __getattr__(name):\n    if name == 'Model':\n        from .model import Model\n"
        "        return Model\n"
    ),
}


@pytest.mark.parametrize("form", LAZY)
def test_lazy_exports_are_followed(form):
    python = tree(
        {
            "pkg/__init__.py": LAZY[form],
            "pkg/model.py": MODEL,
            "use.py": "from pkg import Model\n",
        }
    )
    found = python.resolve("use.py", "Model")
    assert isinstance(found, Definition)
    assert found.qualified == "pkg.model.Model"
    if form != "import within":
        assert "pkg/model.py" in [m.path for m in python.imports("pkg/__init__.py")]


def test_a_lazy_export_that_is_computed_is_unresolved_not_missing():
    files = {"pkg/__init__.py": "def __getattr__(name):\n    return load(name)\n"}
    found = tree({**files, "use.py": "from pkg import Model\n"}).resolve("use.py", "Model")
    assert found == Unresolved(
        Location(path="pkg/__init__.py", line=1),
        "`Model` is looked up at run time in pkg/__init__.py",
    )


def test_names_from_outside_keep_their_full_name():
    python = tree({"a.py": "import torch.nn as nn\nfrom transformers import *\nimport os\n"})
    assert python.resolve("a.py", "nn.Module") == External("torch.nn.Module")
    assert python.resolve("a.py", "os.path.join") == External("os.path.join")
    assert python.resolve("a.py", "Qwen3ForCausalLM") == External("transformers.Qwen3ForCausalLM")
    assert python.resolve("a.py", "print") == External("builtins.print")


def test_circles_end():
    python = tree({"a.py": "from b import X\n", "b.py": "from a import X\n"})
    found = python.resolve("a.py", "X")
    assert isinstance(found, Unresolved)
    python = tree({"a.py": "class A(B): pass\nclass B(A): pass\n"})
    assert python.is_module_class(python.classes("a.py")[0]) is None


def test_a_local_name_hides_the_modules():
    source = "from m import A\ndef f(B):\n    from n import A\n    C = A\n    return C, B\n"
    python = tree({"use.py": source, "m.py": "class A: pass\n", "n.py": "class A: pass\n"})
    scope = python.syntax("use.py").body[1]
    assert python.resolve("use.py", "A", scope).qualified == "n.A"
    assert python.resolve("use.py", "C", scope).qualified == "n.A"
    assert isinstance(python.resolve("use.py", "B", scope), Unresolved)
    assert python.resolve("use.py", "A").qualified == "m.A"


def test_imports_count_packages_submodules_functions_and_literal_calls():
    python = tree(
        {
            "p/__init__.py": "",
            "p/a.py": "",
            "p/b.py": "",
            "p/c.py": "",
            "p/q/__init__.py": "",
            "p/q/d.py": "",
            "p/use.py": "from . import a\nimport p.b as b, sys\n"
            "def f():\n    import importlib\n    from .q.d import *\n"
            "    importlib.import_module('p.c')\n    importlib.import_module(name)\n",
        }
    )
    assert python.imports("p/use.py") == (
        ImportedModule("p/__init__.py", 1),
        ImportedModule("p/a.py", 1),
        ImportedModule("p/b.py", 2),
        ImportedModule("p/q/__init__.py", 5),
        ImportedModule("p/q/d.py", 5),
        ImportedModule("p/c.py", 6),
    )
    assert python.dynamic_imports("p/use.py") == (Location(path="p/use.py", line=7),)


def test_text_that_only_looks_like_an_import_is_none():
    source = 'X = """\nfrom p import a\n"""\ny = "x # y"; import p  # import q\n'
    python = tree({"p.py": "", "q.py": "", "use.py": source})
    assert python.imports("use.py") == (ImportedModule("p.py", 4),)


def test_a_folder_without_init_and_a_script_beside_are_found():
    python = tree({"ns/deep/m.py": "X = 1\n", "s/run.py": "import ns\nfrom m2 import Y\n",
                   "s/m2.py": "class Y: pass\n"})  # fmt: skip
    assert python.resolve("s/run.py", "ns") == ModuleRef("ns", None)
    assert python.resolve("s/run.py", "ns.deep.m.X").path == "ns/deep/m.py"
    assert python.resolve("s/run.py", "Y").path == "s/m2.py"


@pytest.mark.parametrize(
    ("bases", "expected"),
    [
        ("nn.Module", True),
        ("Middle", True),
        ("nn.Transformer", True),
        ("Generic[T], nn.Module", True),
        ("Mixin, Middle", True),
        ("Mixin", False),
        ("dict", False),
        ("BaseModel", False),
        ("Foreign", None),
        ("make_base()", None),
        ("registry.Base", None),
        ("Mixin, Foreign", None),
        ("Foreign, Middle", True),
    ],
)
def test_who_is_a_module(bases, expected):
    source = f"""
from typing import Generic, TypeVar
from torch import nn
from pydantic import BaseModel
from somewhere import Foreign
import registry
T = TypeVar("T")
class Mixin: pass
class Middle(nn.Module): pass
class X({bases}): pass
"""
    python = tree({"m.py": source})
    assert python.is_module_class(python.classes("m.py")[-1]) is expected


def test_classes_are_found_wherever_they_stand():
    source = """
if True:
    class A: pass
else:
    class B: pass
try:
    class C:
        class Inner: pass
except Exception:
    class D: pass
def make():
    class E: pass
with x:
    class F: pass
"""
    assert [c.name for c in tree({"m.py": source}).classes("m.py")] == [
        "A", "B", "C", "C.Inner", "D", "make.<locals>.E", "F",
    ]  # fmt: skip


def test_linearization_is_pythons():
    source = "class O: pass\nclass A(O): pass\nclass B(O): pass\nclass C(A, B): pass\n"
    python = tree({"m.py": source})
    names = [target.name for target in python.linearized(python.classes("m.py")[-1])]
    assert names == ["C", "A", "B", "O"]


@pytest.mark.parametrize(
    ("content", "line", "why"),
    [
        (b"class A(:\n", 1, "syntax error: "),
        (b"x = 1\n\xff\n", None, "its encoding cannot be read"),
        (b"# coding: nonsense\n", None, "its encoding cannot be read"),
        (b"x = '\0'\n", None, ""),
        (b"(" * 100_000, 1, ""),
    ],
)
def test_what_cannot_be_parsed_says_where(content, line, why):
    with pytest.raises(UnparsableError) as trouble:
        parse("m.py", content)
    assert trouble.value.location.path == "m.py"
    if line:
        assert trouble.value.location.line == line
    assert trouble.value.why.startswith(why)


SAME = [
    ("x = 1  # comment\n", "x = 1\n"),
    ("def f():\n    'doc'\n    return 1\n", "def f():\n    'other'\n    return 1\n"),
    ("class A:\n    '''doc'''\n    x = 1\n", "class A:\n    x = 1\n"),
    ("x = (1 +\n     2)\n", "x = 1 + 2\n"),
    ('x = u"a"\n', "x = 'a'\n"),
    ("x = 0x10\n", "x = 16\n"),
    ('"""module"""\nx = 1\n', "\n\nx = 1\n"),
]
DIFFERENT = [
    ("x = 1\n", "x = 2\n"),
    ("x = 1\n", "x = 1.0\n"),
    ("x = True\n", "x = 1\n"),
    ("x = '''a # b'''\n", "x = '''a # c'''\n"),
    ("def f(): return 1\n", "def f(): return '1'\n"),
    ("x = [a, [b]]\n", "x = [[a], b]\n"),
    ("f(a, b)\n", "f(a=b)\n"),
    ("x = b'a'\n", "x = 'a'\n"),
    ("def f(a, /): pass\n", "def f(a): pass\n"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_python_cannot_tell_apart_is_the_same(one, other):
    assert fingerprint(parse("m.py", one.encode())) == fingerprint(parse("m.py", other.encode()))


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_python_can_tell_apart_differs(one, other):
    assert fingerprint(parse("m.py", one.encode())) != fingerprint(parse("m.py", other.encode()))


def test_the_class_resolver_agrees_with_griffe_on_torch_nn(tmp_path):
    # A copy of the one package, so that griffe does not load all of torch.
    package = tmp_path / "modules"
    shutil.copytree(Path(torch.nn.modules.__file__).parent, package)
    python = tree({f"modules/{p.name}": p.read_text() for p in sorted(package.glob("*.py"))})
    ours = {}
    for path in python.paths:
        for cls in python.classes(path):
            names = [t.qualified for t in python.linearized(cls) if isinstance(t, Definition)]
            ours[cls.qualified] = "modules.module.Module" in names
    loaded = griffe.GriffeLoader(search_paths=[tmp_path]).load("modules", submodules=True)
    theirs = {}
    for module in loaded.modules.values():
        for cls in module.classes.values():
            if not cls.is_alias:
                # The package names itself `torch.nn.modules`; take its classes as our tree does.
                bases = {base.path for base in cls.mro()} | {cls.path}
                theirs[cls.path] = "modules.module.Module" in bases
    assert len(theirs) > 150
    assert sum(theirs.values()) > 100
    assert {name: ours[name] for name in theirs} == theirs
