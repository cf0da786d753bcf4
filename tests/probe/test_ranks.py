"""Two real ranks over gloo: the same events, and what becomes of ranks that part."""

from __future__ import annotations

from dataclasses import replace

import pytest

from action.probe import Request, observe
from tests.hazards.conftest import CASES, ROOT, observe_cases
from tests.probe.conftest import LIMITS, answers_of, around, request_of

PARTING = """
class Parting(Model):
    def __init__(self, width=8):
        super().__init__()
        self.branch = nn.Linear(8, OUT, bias=False)

    def forward(self, x, skip):
        x = torch.tanh(self.a(x))
        if not skip:
            x = x + self.branch(x).mean()
        return self.b(x).mean()

def build(*, device_mesh, overrides=()):
    model = Parting()
    for unit in (model.a, model.branch, model.b):
        fully_shard(unit, mesh=device_mesh)
    fully_shard(model, mesh=device_mesh)
    paths = {"image": lambda: model(inputs(), False), "text": lambda: model(inputs(), True)}
    return SimpleNamespace(model=model, paths=paths, mixed_paths=[["image", "text"]])
"""
BY_RANK = """
class Three(Model):
    def __init__(self):
        super().__init__()
        self.b = nn.Linear(8, 8, bias=False)
        self.c = nn.Linear(8, 8, bias=False)

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.a(x))))).mean()

def build(*, device_mesh, overrides=()):
    import torch.distributed as dist
    model = Three()
    for unit in (model.a, model.b, model.c):
        fully_shard(unit, mesh=device_mesh)
    fully_shard(model, mesh=device_mesh)
    if dist.get_rank() == 1:
        model.a.set_modules_to_forward_prefetch([TARGET])
    return SimpleNamespace(model=model, paths={"train": lambda: model(inputs())})
"""
LARGE = """
class Large(Model):
    def __init__(self):
        super().__init__()
        self.big = nn.Linear(20_000, 20_000, bias=False)

def build(*, device_mesh, overrides=()):
    model = wrapped(device_mesh, Large)
    return SimpleNamespace(model=model, paths={"train": lambda: model(inputs())})
"""
DIES = """
def build(*, device_mesh, overrides=()):
    import torch.distributed as dist
    if dist.get_rank() == 1:
        os._exit(7)
    model = wrapped(device_mesh)
    return SimpleNamespace(model=model, paths={"train": lambda: model(inputs())})
"""
AXES = """
MESH = {"replicate": 4, "shard": 8}

def build(*, device_mesh, overrides=()):
    model = wrapped(device_mesh)
    return SimpleNamespace(model=model, paths={"train": lambda: model(inputs())})
"""


@pytest.fixture(scope="module")
def together():
    keys = [(name, "healthy") for name in ("rank_divergence", "wrap_around")]
    return observe_cases(keys), observe_cases(keys, mode="ranks")


@pytest.mark.parametrize("name", ["rank_divergence", "wrap_around"])
def test_two_ranks_do_what_fake_ones_do(together, name):
    fake, ranks = (run[name, "healthy"] for run in together)
    assert (fake.recording.mode, ranks.recording.mode) == ("fake", "ranks")
    assert ranks.recording.paths == fake.recording.paths
    assert ranks.recording.rank_runs == ()
    assert ranks.observation.findings == ()


def test_ranks_that_part_hang_and_the_finding_says_so():
    request = Request("parting", CASES["rank_divergence"], ROOT, overrides=("hazard",))
    (seen,) = observe([request], LIMITS, around())
    assert [(f.rule, f.event) for f in seen.findings] == [
        (
            "rank-divergence",
            "collective 4: gather branch in `image`, gather blocks.2 in `text`; "
            "tried on two real ranks: rank 0 (`image`) hung in `blocks.2` in backward, "
            "rank 1 (`text`) hung in `blocks.3` in backward",
        )
    ]


def test_ranks_whose_all_gathers_differ_in_size_die(tmp_path):
    request = request_of(tmp_path, PARTING.replace("OUT", "32"))
    (seen,) = observe([request], LIMITS, around())
    (finding,) = seen.findings
    assert finding.rule == "rank-divergence"
    assert "tried on two real ranks: " in finding.event
    assert "was killed by SIGABRT" in finding.event


def test_a_hook_that_asks_for_its_rank(tmp_path):
    early = BY_RANK.replace("TARGET", "model.c, model.b")
    without_effect = BY_RANK.replace("TARGET", "model.a")
    requests = [
        request_of(tmp_path, text, name, mode="ranks")
        for name, text in {"early": early, "without_effect": without_effect}.items()
    ]
    seen, nothing = observe(requests, LIMITS, around())
    assert [(f.rule, f.summary, f.event) for f in seen.findings] == [
        (
            "rank-divergence",
            "two ranks that both run `train` issue different collectives",
            "collective 2: gather b on rank 0, gather c on rank 1; "
            "two real ranks ended the step, on whatever parameters they got",
        )
    ]
    assert nothing.findings == ()


def test_what_two_ranks_cannot_do_is_one_sentence(tmp_path):
    large, dead = answers_of(
        request_of(tmp_path, LARGE, "large", mode="ranks"),
        request_of(tmp_path, DIES, "dead", mode="ranks"),
    )
    assert (large.outcome, large.sentence) == (
        "cannot build",
        "the model has more than 200 million parameters, the most that are made real; "
        "`TINY_CONFIG` in probe.py, the path of a small config, would allow real values",
    )
    assert (dead.outcome, dead.sentence) == ("crashed", "rank 1 exited with code 7")


def test_a_pair_that_cannot_be_tried_says_why(tmp_path):
    text = PARTING.replace("OUT", "8").replace(
        "model = Parting()", "raise_on(1); model = Parting()"
    )
    raises = """
def raise_on(rank):
    import torch.distributed as dist
    if dist.get_backend() == "gloo":
        raise RuntimeError("no room")
"""
    (seen,) = observe([request_of(tmp_path, raises + text)], LIMITS, around())
    (finding,) = seen.findings
    assert finding.event.endswith(
        "; not tried on two real ranks: the model cannot be built: RuntimeError: no room"
    )


def test_the_shard_axis_is_the_one_of_two_ranks(tmp_path):
    (answer,) = answers_of(replace(request_of(tmp_path, AXES), mode="ranks"))
    assert answer.recording is not None
    assert answer.recording.mesh == {"replicate": 1, "shard": 2}
    assert answer.recording.shard == 8
