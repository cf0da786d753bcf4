"""What a recipe's interpreter says of itself."""

import os
import platform
import sys
from importlib.metadata import version

import pytest

from action.records import Environment
from action.stages import environment

PATH = {"PATH": os.environ["PATH"]}


@pytest.fixture
def python(tmp_path):
    """Make an interpreter that is a shell script."""

    def make(text: str) -> str:
        script = tmp_path / "python"
        script.write_text(f"#!/bin/sh\n{text}\n")
        script.chmod(0o755)
        return str(script)

    return make


def test_this_interpreter(tmp_path):
    torch = pytest.importorskip("torch")
    seen = environment(sys.executable, tmp_path, PATH)
    names = tuple(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
    assert seen == Environment(
        python=platform.python_version(), torch=version("torch"), cuda_devices=names
    )


def test_a_torch_in_the_checkout_is_not_asked(tmp_path, python):
    (tmp_path / "torch.py").write_text("__version__ = 'forged'\n")
    bare = python(f'exec {sys._base_executable} -S "$@"')
    assert environment(bare, tmp_path, PATH) == Environment(
        python=platform.python_version(),
        problem=f"`{bare}` cannot import torch: ModuleNotFoundError: No module named 'torch'",
    )


FAKE = """
__version__ = "9.9"
class cuda:
    device_count = staticmethod(lambda: 2)
    get_device_name = staticmethod(lambda index: f"GPU \\x1b[1m{index}")
def zeros(*shape, device):
    WORKS
"""


@pytest.mark.parametrize(
    ("works", "expected"),
    [
        (
            "import types; return types.SimpleNamespace(add_=lambda n: types.SimpleNamespace("
            "item=lambda: n))",
            {"cuda_devices": ("GPU 0", "GPU 1")},
        ),
        (
            "raise RuntimeError('CUDA error: no kernel image\\nmore')",
            {"problem": "torch cannot use CUDA: RuntimeError: CUDA error: no kernel image"},
        ),
    ],
)
def test_devices_are_tried(tmp_path, python, works, expected):
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "torch.py").write_text(FAKE.replace("WORKS", works))
    bare = python(f'PYTHONPATH={packages} exec {sys._base_executable} -S "$@"')
    assert environment(bare, tmp_path, PATH) == Environment(
        python=platform.python_version(), torch="9.9", **expected
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("echo no licence >&2; exit 4", "exited with 4 instead of saying what it has: no licence"),
        ("exit 0", "exited with 0 instead of saying what it has: it said nothing"),
        ("kill -11 $$", "was killed by SIGSEGV while it imported torch or looked for devices"),
        ("exec sleep 600", "did not say within 0.3 s what it has"),
        ('echo "[[[" > "$2"', "gave an answer that makes no sense"),
        ('echo "[1]" > "$2"', "gave an answer that makes no sense"),
    ],
)
def test_an_interpreter_that_does_not_answer(tmp_path, python, text, problem):
    script = python(text)
    limit = 0.3 if "sleep" in text else 20
    assert environment(script, tmp_path, PATH, limit=limit) == Environment(
        problem=f"`{script}` {problem}"
    )


def test_an_interpreter_that_is_not_there(tmp_path):
    assert environment("/no/such/python", tmp_path, PATH) == Environment(
        problem="there is no interpreter `/no/such/python`"
    )


def test_no_token_is_in_its_environment(tmp_path, python):
    script = python('env > "$2.env"; cp "$2.env" ' + str(tmp_path / "seen"))
    environment(script, tmp_path, PATH | {"GITHUB_TOKEN": "secret", "INPUT_X": "secret"})
    assert "secret" not in (tmp_path / "seen").read_text()
