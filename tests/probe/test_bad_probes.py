"""Every way in which a probe file can be wrong has its own sentence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from action.probe import Request
from action.records import Observation
from tests.probe.conftest import line_of, observe_all

_BUILT = "SimpleNamespace(model=model, paths={'train': lambda: model(inputs())})"
_FORWARD_ONLY = (
    "FSDP2's hooks run in `forward` only; call the model itself, or register the method with "
    "`register_fsdp_forward_method`"
)


@dataclass(frozen=True)
class Bad:
    text: str
    outcome: str
    summary: str
    """`{line}` stands for the line of the probe file that holds `at`."""
    at: str = "# here"
    tail: str = ""


def building(body: str) -> str:
    return f"\ndef build(*, device_mesh, overrides=()):\n    {body}\n"


def returning(value: str) -> str:
    return building(f"model = wrapped(device_mesh)\n    return {value}")


BAD = {
    "no build": Bad(
        "", "bad probe", "probe.py has no function `build(*, device_mesh, overrides=())`"
    ),
    "build is no function": Bad(
        "build = 3", "bad probe", "probe.py has no function `build(*, device_mesh, overrides=())`"
    ),
    "wrong signature": Bad(
        "def build(mesh=None): ...",
        "bad probe",
        "`build` cannot be called as `build(device_mesh=…, overrides=…)`: got an unexpected "
        "keyword argument 'device_mesh'",
    ),
    "returns None": Bad(
        building("pass"), "bad probe", "`build` returned None; it must return .model and .paths"
    ),
    "no model": Bad(
        building("return 3"),
        "bad probe",
        "`build` returned an int without .model; it must return .model and .paths",
    ),
    "model is no module": Bad(
        building("return SimpleNamespace(model=3, paths={})"),
        "bad probe",
        "`build` returned .model that is an int, not an nn.Module",
    ),
    "no paths": Bad(
        returning("SimpleNamespace(model=model)"),
        "bad probe",
        "`build` returned .paths that is None; it must be a non-empty dict of a function per "
        "training path",
    ),
    "empty paths": Bad(
        returning("SimpleNamespace(model=model, paths={})"),
        "bad probe",
        "`build` returned .paths that is empty; it must be a non-empty dict of a function per "
        "training path",
    ),
    "paths is a list": Bad(
        returning("SimpleNamespace(model=model, paths=[model])"),
        "bad probe",
        "`build` returned .paths that is a list; it must be a non-empty dict of a function per "
        "training path",
    ),
    "a path is no function": Bad(
        returning("SimpleNamespace(model=model, paths={'train': 3})"),
        "bad probe",
        ".paths has 'train': an int; a name and a function are due",
    ),
    "mixed paths": Bad(
        returning("SimpleNamespace(model=model, paths={'a': model}, mixed_paths=[['b']])"),
        "bad probe",
        ".mixed_paths names 'b'; it must be a list of lists of names in .paths",
    ),
    "mixed paths are flat": Bad(
        returning("SimpleNamespace(model=model, paths={'a': model}, mixed_paths=3)"),
        "bad probe",
        ".mixed_paths is an int; it must be a list of lists of names in .paths",
    ),
    "import error": Bad(
        "import no_such_thing  # here",
        "bad probe",
        "probe.py cannot be imported: ModuleNotFoundError: No module named 'no_such_thing' "
        "(probe.py:{line})",
        tail="import no_such_thing  # here",
    ),
    "syntax error": Bad(
        "def build(:  # here",
        "bad probe",
        "probe.py cannot be imported: SyntaxError: invalid syntax (probe.py, line {line}) "
        "(probe.py:{line})",
    ),
    "exit at import": Bad(
        "sys.exit(3)  # here",
        "bad probe",
        "importing probe.py called sys.exit(3) (probe.py:{line})",
    ),
    "mesh raises": Bad(
        "def mesh():\n    raise ValueError('no config')  # here\n" + building("pass"),
        "bad probe",
        "`mesh()` raised ValueError: no config (probe.py:{line})",
    ),
    "mesh is no dict": Bad(
        "MESH = 8\n" + building("pass"),
        "bad probe",
        "`MESH` is 8; a dict of axis names and sizes is due",
    ),
    "a process group of its own": Bad(
        "import torch.distributed as dist\n"
        "dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)\n"
        + building("pass"),
        "bad probe",
        "importing probe.py started a process group; the probe starts its own before `build`",
    ),
    "build raises": Bad(
        building("raise ValueError('no weights')  # here"),
        "cannot build",
        "the model cannot be built: ValueError: no weights (probe.py:{line})",
        tail="raise ValueError('no weights')  # here",
    ),
    "exit in build": Bad(
        building("sys.exit('no data')  # here"),
        "cannot build",
        "`build` called sys.exit('no data') (probe.py:{line})",
    ),
    "not wrapped": Bad(
        building("model = Model()\n    return " + _BUILT),
        "not wrapped",
        "`build` returned a Model in which no module is an FSDP2 unit: fully_shard was never "
        "called on it",
    ),
}


@pytest.fixture(scope="module")
def bad(tmp_path_factory) -> dict[str, tuple[Request, Observation]]:
    texts = {name: case.text for name, case in BAD.items()}
    return observe_all(tmp_path_factory.mktemp("bad"), texts)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_probe_file_is_told_in_one_sentence(name: str, bad):
    case, (request, observation) = BAD[name], bad[name]
    line = line_of(request, case.at) if "{line}" in case.summary else 0
    assert observation.outcome == case.outcome, observation
    assert observation.summary == case.summary.replace("{line}", str(line))
    assert case.tail in observation.tail


@dataclass(frozen=True)
class BadPath:
    body: str
    problem: str


def path(body: str) -> str:
    return f"""
class Other(Model):
    def loss(self, x):
        return self.b(self.a(x)).mean()

    def plain(self, x):
        return torch.nn.functional.linear(x, self.a.weight).mean()

def build(*, device_mesh, overrides=()):
    model = wrapped(device_mesh, Other)
    def train():
        {body}
    return SimpleNamespace(model=model, paths={{"good": lambda: model(inputs()), "x": train}})
"""


PATHS = {
    "raises": BadPath(
        "raise ValueError('no batch')  # here",
        "its step raised ValueError: no batch (probe.py:{line})",
    ),
    "exits": BadPath("sys.exit(1)", "path `x` called sys.exit(1)"),
    "no scalar": BadPath(
        "return model(inputs()).repeat(2)",
        "path `x` returned a tensor of shape (2,); the loss must be a scalar",
    ),
    "no tensor": BadPath(
        "return {'loss': model(inputs())}", "path `x` returned a dict, not the loss"
    ),
    "nothing": BadPath("model(inputs())", "path `x` returned None, not the loss"),
    "no grad": BadPath(
        "return model(inputs()).detach()", "path `x` returned a loss that requires no grad"
    ),
    "model not used": BadPath(
        "return torch.ones((), requires_grad=True) * 2",
        f"path `x` ran no unit's forward: {_FORWARD_ONLY}",
    ),
    "another method, no unit": BadPath(
        "return model.plain(inputs())",
        f"path `x` ran no unit's forward: {_FORWARD_ONLY}",
    ),
    "another method, inner units": BadPath(
        "return model.loss(inputs())",
        f"path `x` did not run the root's forward: {_FORWARD_ONLY}",
    ),
}


@pytest.fixture(scope="module")
def bad_paths(tmp_path_factory) -> dict[str, tuple[Request, Observation]]:
    texts = {name: path(case.body) for name, case in PATHS.items()}
    return observe_all(tmp_path_factory.mktemp("paths"), texts)


@pytest.mark.parametrize("name", PATHS)
def test_a_bad_path_has_its_problem_and_the_other_is_seen(name: str, bad_paths):
    case, (request, observation) = PATHS[name], bad_paths[name]
    assert observation.outcome == "observed", observation
    assert observation.mode == "fake"
    assert observation.why_not_fake is None
    good, bad = observation.paths
    line = line_of(request, "# here") if "{line}" in case.problem else 0
    assert bad.problem == case.problem.replace("{line}", str(line))
    assert bad.with_hook is None and bad.without is None
    assert good.problem is None and good.with_hook is not None
    assert observation.summary.endswith("1 path could not be run")


def test_a_registered_method_is_a_forward(tmp_path: Path):
    text = path("return model.loss(inputs())").replace(
        "    def train", "    fsdp.register_fsdp_forward_method(model, 'loss')\n    def train"
    )
    seen = observe_all(tmp_path, {"case": "import torch.distributed.fsdp as fsdp\n" + text})
    _, observation = seen["case"]
    assert [p.problem for p in observation.paths] == [None, None]
