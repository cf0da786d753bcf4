"""Every case, with its hazard and without, observed in one run of the worker."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from action.probe import Limits, Request, Surroundings
from action.probe.observation import observation_of
from action.probe.recording import Answer, Recording
from action.probe.session import run_worker
from action.records import Observation

ROOT = Path(__file__).resolve().parents[2]
CASES = {path.stem: path for path in sorted(Path(__file__).parent.glob("cases/*.py"))}
VARIANTS = ("hazard", "healthy")


@dataclass(frozen=True)
class Seen:
    """What was seen of one variant of a case."""

    answer: Answer
    observation: Observation

    @property
    def recording(self) -> Recording:
        assert self.answer.recording is not None, f"{self.answer.sentence}\n{self.answer.tail}"
        return self.answer.recording

    def events(self, path: str, kind: str = "train", edges: str = "hook") -> list[str]:
        """Return the events of the second pass of a kind as text."""
        passes = next(p for p in self.recording.paths if p.name == path)
        found = passes.find(edges, kind, 2 if kind == "train" else 1)  # type: ignore[arg-type]
        assert found is not None
        return [self.recording.described(event) for event in found.events]


def load_case(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"hazard_{name}", CASES[name])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def observe_cases(names: list[tuple[str, str]], mode: str = "fake") -> dict[tuple[str, str], Seen]:
    requests = [
        Request(
            name=name,
            probe=CASES[name],
            root=ROOT,
            overrides=(variant,),
            wanted=tuple(getattr(load_case(name), "WANTED", ())),
            mode=mode,
        )
        for name, variant in names
    ]
    limits = Limits(seconds=60, parallel=os.cpu_count() or 1)
    around = Surroundings(sys.executable, os.environ, time.monotonic)
    answers = run_worker(requests, limits, around)
    return {
        key: Seen(answer, observation_of(answer))
        for key, answer in zip(names, answers, strict=True)
    }


@pytest.fixture(scope="session")
def seen() -> dict[tuple[str, str], Seen]:
    return observe_cases([(name, variant) for name in CASES for variant in VARIANTS])
