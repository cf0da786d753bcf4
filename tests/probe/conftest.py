"""Probe files written by a test, observed as the action does it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

from action.probe import Limits, Request, Surroundings, observe
from action.probe.recording import Answer
from action.probe.session import run_worker
from action.records import Observation

START = """
import os, sys, time
from types import SimpleNamespace
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard

class Model(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.a = nn.Linear(width, width, bias=False)
        self.b = nn.Linear(width, 1, bias=False)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x))).mean()

def wrapped(mesh, cls=Model, **options):
    model = cls()
    fully_shard(model.a, mesh=mesh, **options)
    fully_shard(model, mesh=mesh, **options)
    return model

def inputs():
    return torch.ones(2, 8)

def result():
    # Where the worker writes this job's answer: its folder is that of the file beside it.
    frame = sys._getframe()
    while "job" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["job"]["result"]

"""
LIMITS = Limits(seconds=60)


def around(python: str = sys.executable) -> Surroundings:
    return Surroundings(python, os.environ, time.monotonic)


def request_of(folder: Path, text: str, name: str = "case", **options) -> Request:
    """Write a probe file of `START` and `text` in a checkout of its own."""
    root = folder / name
    root.mkdir(parents=True)
    probe = root / "probe.py"
    probe.write_text(START + dedent(text), encoding="utf-8")
    return replace(Request(name=name, probe=probe, root=root), **options)


def line_of(request: Request, text: str) -> int:
    """Return the line of a probe file that holds `text`."""
    lines = request.probe.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def observe_all(
    folder: Path, texts: Mapping[str, str], limits: Limits = LIMITS
) -> dict[str, tuple[Request, Observation]]:
    """Observe several probe files in one run of the worker."""
    requests = [request_of(folder, text, name) for name, text in texts.items()]
    seen = observe(requests, limits, around())
    return {
        request.name: (request, observation)
        for request, observation in zip(requests, seen, strict=True)
    }


def observe_one(folder: Path, text: str, limits: Limits = LIMITS, **options) -> Observation:
    return observe([request_of(folder, text, **options)], limits, around())[0]


def answers_of(*requests: Request, limits: Limits = LIMITS) -> list[Answer]:
    return run_worker(requests, limits, around())
