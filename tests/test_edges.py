"""`fsdp2-prefetch edges`: what an author reads, as JSON, as a page, and its exit codes."""

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from action.cli import main
from action.probe import PROBE

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def repository(tmp_path):
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("*.pyc"))
    return tmp_path


def add(repository: Path, case: str, variant: str) -> str:
    file = repository / "recipes" / case / PROBE
    file.parent.mkdir(parents=True)
    text = (ROOT / "tests" / "hazards" / "cases" / f"{case}.py").read_text()
    file.write_text(text.replace('"hazard" in overrides', str(variant == "hazard")))
    return case


def run(*arguments: str) -> tuple[int, str, str]:
    out, errors = io.StringIO(), io.StringIO()
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    python = () if "--python" in arguments else ("--python", sys.executable)
    code = main(("edges", *arguments, *python), environ, out, errors)
    return code, out.getvalue(), errors.getvalue()


def test_a_healthy_hook(repository):
    name = add(repository, "wrap_around", "healthy")
    code, out, _ = run(name, "--repo", str(repository))
    assert (code, out.splitlines()) == (
        0,
        [
            "5 units, 6 edges, 1 training path; no findings",
            "fsdp2_prefetch_probe_target.Model on fake tensors, full size; mesh shard 2; "
            "bytes for 2 ranks",
            "",
            "units in the order in which they run",
            "  (root)                                       Model                    64 B",
            "  blocks.0 … blocks.3 (4)                      Block                    256 B each",
            "",
            "forward edges",
            "  blocks.0 → blocks.1 → blocks.2 → blocks.3",
            "",
            "backward edges",
            "  blocks.3 → blocks.2 → blocks.1 → blocks.0",
            "",
            "path train",
            "  without edges: 5 + 4 all-gathers, 0 unused, 0 out of order, peak 576 B "
            "(blocks.3, backward)",
            "  with the hook: 5 + 4 all-gathers, 0 unused, 0 out of order, peak 576 B "
            "(blocks.0, forward)",
        ],
    )


def test_a_hazard_as_json_and_as_a_page(repository, tmp_path):
    name, page = add(repository, "wrap_around", "hazard"), tmp_path / "step.html"
    code, out, _ = run(name, "--repo", str(repository), "--json", "-", "--timeline", str(page))
    seen = json.loads(out)
    assert code == 1
    assert [f["rule"] for f in seen["findings"]] == ["wrap-around"]
    assert seen["findings"][0]["edges"] == [
        {"source": "blocks.3", "target": "blocks.0", "direction": "forward"}
    ]
    assert page.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ((), 2, "edges: name one recipe, as in `fsdp2-prefetch edges qwen3`"),
        (("a", "b"), 2, "edges: name one recipe, as in `fsdp2-prefetch edges qwen3`"),
        (("absent",), 2, "edges: there is no folder recipes/absent in"),
        (("wrap_around", "--path", "nope"), 3, "there is no path `nope`; there are: train"),
        (("wrap_around", "--python", "/absent"), 3, "there is no interpreter `/absent`"),
        (("wrap_around", "--config", "x.yaml"), 3, "probe.py has no `CONFIG`"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(repository, arguments, code, sentence):
    add(repository, "wrap_around", "healthy")
    found, out, errors = run(*arguments, "--repo", str(repository))
    assert (found, sentence in out + errors) == (code, True), out + errors


def test_a_recipe_without_a_probe_file(repository):
    (repository / "recipes" / "bare").mkdir(parents=True)
    code, out, _ = run("bare", "--repo", str(repository))
    assert (code, out) == (3, f"the recipe has no `{PROBE}`\n")


def git(repository: Path, *arguments: str) -> None:
    settings = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(("git", "-C", str(repository), *settings, *arguments), check=True)


def test_what_an_uncommitted_change_did_since_a_revision(repository):
    name = add(repository, "wrap_around", "healthy")
    for command in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "before")):
        git(repository, *command)
    probe = repository / "recipes" / name / PROBE
    probe.write_text(probe.read_text().replace("if False", "if True"))
    code, out, _ = run(name, "--repo", str(repository), "--base", "main")
    lines = out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("compared with"))
    assert code == 1
    assert lines[start + 1 : start + 4] == [
        "  + forward blocks.3 → blocks.0",
        "  train then: 5 + 4 all-gathers, 0 unused, 0 out of order, peak 576 B (blocks.0, forward)",
        "",
    ]


def test_two_ranks(repository):
    name = add(repository, "wrap_around", "healthy")
    code, out, _ = run(name, "--repo", str(repository), "--ranks")
    assert (code, out.splitlines()[:2]) == (
        0,
        [
            "5 units, 6 edges, 1 training path; no findings",
            "fsdp2_prefetch_probe_target.Model on two ranks with real values; mesh shard 2; "
            "bytes for 2 ranks",
        ],
    )


def test_a_revision_that_does_not_exist(repository):
    name = add(repository, "wrap_around", "healthy")
    git(repository, "init", "-q")
    code, _, errors = run(name, "--repo", str(repository), "--base", "nowhere")
    assert (code, "nowhere" in errors) == (2, True), errors
