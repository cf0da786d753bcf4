"""A checkout with one recipe, whose tests run in real pytest processes."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from action.records import StageId, StageResult
from action.stages import run_stages

RECIPE = "recipes/toy"
STRUCTURE = f"{RECIPE}/tests/test_structure.py"
SMOKE = f"{RECIPE}/tests/test_smoke.py"
IMPACT = f"{RECIPE}/tests/skills/fsdp2-prefetching/test_prefetch_edges_impact.py"


@dataclass
class Toy:
    """The checkout, the recipe's output folder, and what was announced."""

    checkout: Path
    out: Path
    announced: list[str] = field(default_factory=list)

    def write(self, path: str, text: str | bytes) -> None:
        file = self.checkout / path
        file.parent.mkdir(parents=True, exist_ok=True)
        data = text if isinstance(text, bytes) else textwrap.dedent(text).encode()
        file.write_bytes(data)

    def run(
        self,
        *,
        wanted: Sequence[StageId] = ("structure", "smoke", "identity"),
        python: str = sys.executable,
        limit: float = 60,
        environ: dict[str, str] | None = None,
        pass_env: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> tuple[StageResult, ...]:
        return run_stages(
            RECIPE,
            self.checkout,
            self.out,
            python=python,
            wanted=wanted,
            limits={"structure": limit, "smoke": limit, "identity": limit},
            environ={"PATH": os.environ["PATH"], **(environ or {})},
            pass_env=pass_env,
            announce=self.announced.append,
            clock=clock,
        )

    def log(self, stage: str) -> bytes:
        return (self.out / f"{stage}.log").read_bytes()


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    made = Toy(tmp_path / "checkout", tmp_path / "out" / "toy")
    made.write("pytest.ini", "[pytest]\naddopts = --import-mode=importlib\n")
    return made


@pytest.fixture
def smoke(toy: Toy) -> Callable[..., StageResult]:
    """Run a test file as the smoke stage and return its result."""

    def run(text: str | bytes, **options) -> StageResult:
        toy.write(SMOKE, text)
        return toy.run(wanted=("smoke",), **options)[1]

    return run


@pytest.fixture
def three(toy: Toy) -> Toy:
    """A recipe whose three stages pass."""
    for path in (STRUCTURE, SMOKE, IMPACT):
        toy.write(path, "def test_it():\n    assert 1 + 1 == 2\n")
    return toy
