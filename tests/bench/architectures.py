"""`python -m tests.bench.architectures`: the README's table of models that nobody here wrote."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from action.probe import Limits, Request, Surroundings, observe
from action.records import Observation
from tests.bench.probes.architectures import ARCHITECTURES

ROOT = Path(__file__).resolve().parents[2]
PROBE = Path(__file__).parent / "probes" / "architectures.py"
KINDS = [(size, edges) for size in ("tiny", "published") for edges in ("right", "wrong")]


def main() -> int:
    print("| Architecture | Parameters | Units | Tiny: right, wrong | Published: right, wrong |")
    print("| --- | ---: | ---: | --- | --- |", flush=True)
    for name in sys.argv[1:] or ARCHITECTURES:
        print(row(name), flush=True)
    return 0


def row(name: str) -> str:
    """Observe one architecture in its four variants; return its row of the table."""
    requests = [
        Request("-".join(kind), PROBE, ROOT, overrides=(name, *kind), preload=("transformers",))
        for kind in KINDS
    ]
    limits = Limits(seconds=300, memory=6 * 2**30, parallel=os.cpu_count() or 1)
    around = Surroundings(sys.executable, os.environ, time.monotonic)
    seen = dict(zip(KINDS, observe(requests, limits, around), strict=True))
    full = seen["published", "right"]
    billions = f"{sum(unit.parameters for unit in full.units) / 1e9:.2f} B" if full.units else "?"
    cells = [
        ", ".join(said(seen[size, edges]) for edges in ("right", "wrong"))
        for size in ("tiny", "published")
    ]
    return f"| {name} | {billions} | {len(full.units) or '?'} | {cells[0]} | {cells[1]} |"


def said(seen: Observation) -> str:
    if seen.outcome != "observed":
        return f"{seen.outcome}: {seen.summary}"
    stuck = [path.problem for path in seen.paths if path.problem]
    rules = ", ".join(sorted({f"`{finding.rule}`" for finding in seen.findings})) or "none"
    return f"{rules} ({seen.mode})" + (f" {stuck[0]}" if stuck else "")


if __name__ == "__main__":
    sys.exit(main())
