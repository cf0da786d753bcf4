"""`make bench`: what the probe costs, as ratios in one run; exit code 1 when one is too high."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from action.probe import PROBE, Limits, Request, Surroundings, observe
from action.records import Observation

ROOT = Path(__file__).resolve().parents[2]
QWEN3 = ROOT / "recipes" / "qwen3" / PROBE
VIT = ROOT / "recipes" / "vit_classification" / PROBE
PUBLISHED = Path(__file__).parent / "probes" / "published.py"
LIMITS = Limits(seconds=900, memory=20 * 2**30, parallel=os.cpu_count() or 1)
PASSES = 7
"""Two training steps and an evaluation, with edges and without, and a step after a second call."""
GIB = 2**30


def main() -> int:
    kept = True
    bare = seconds(lambda: command("-m", "tests.bench.bare", str(QWEN3)))
    qwen3, wall = probed([Request("qwen3", QWEN3, ROOT)])
    kept &= line("qwen3_8b: a pass against a bare script", wall / PASSES / bare, 1.5)
    kept &= line("qwen3_8b: resident memory, GiB", qwen3[0].peak_memory / GIB, 1)

    _, single = probed([Request("one", VIT, ROOT)])
    _, together = probed([Request(str(number), VIT, ROOT) for number in range(10)])
    kept &= line("ten recipes against one", together / single, 3)

    for name, least in (("mixture", 200e9), ("dense", 70e9)):
        request = Request(name, PUBLISHED, ROOT, overrides=(name,), preload=("transformers",))
        (seen,), wall = probed([replace(request)])
        size = sum(unit.parameters for unit in seen.units)
        print(f"{name}: {size / 1e9:.1f} B parameters, {len(seen.units)} units, {seen.mode}")
        kept &= size >= least
        kept &= line(f"{name}: a pass against a bare script of qwen3_8b", wall / PASSES / bare, 10)
        kept &= line(f"{name}: resident memory, GiB", seen.peak_memory / GIB, 4)
    return 0 if kept else 1


def probed(requests: Sequence[Request]) -> tuple[list[Observation], float]:
    begin = time.monotonic()
    around = Surroundings(sys.executable, os.environ, time.monotonic)
    seen = observe(requests, LIMITS, around)
    wall = time.monotonic() - begin
    for observation in seen:
        if observation.outcome != "observed" or observation.findings:
            raise SystemExit(f"{observation.summary}\n{observation.findings}\n{observation.tail}")
    return seen, wall


def command(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True)


def seconds(action: Callable[[], None]) -> float:
    begin = time.monotonic()
    action()
    return time.monotonic() - begin


def line(what: str, ratio: float, most: float) -> bool:
    print(f"{'ok ' if ratio <= most else 'NO '} {what}: {ratio:.2f} (at most {most:g})", flush=True)
    return ratio <= most


if __name__ == "__main__":
    sys.exit(main())
