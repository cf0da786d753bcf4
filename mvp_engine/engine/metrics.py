"""What a run tells while it trains: metrics.jsonl, and a progress bar or lines on rank 0."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tqdm import tqdm

FILE_NAME = "metrics.jsonl"


class MetricsLog:
    """Writes one JSON object a logged step, on rank 0; on other ranks it does nothing.

    A run that resumes at `start` keeps the lines up to that step and drops what came after, so
    that the file always tells one unbroken run.
    """

    def __init__(self, folder: Path, rank: int, start: int, steps: int):
        self._file = None
        self._bar = None
        if rank != 0:
            return
        path = folder / FILE_NAME
        kept = [line for line in read_metrics(path) if line["step"] <= start] if start else []
        self._file = path.open("w", encoding="utf-8")
        for line in kept:
            self._write(line)
        # Only on a terminal; in a log file a bar is noise, so lines stand in for it.
        self._bar = tqdm(total=steps, initial=start, unit="step", disable=None)

    def record(self, step: int, values: Mapping[str, float]) -> None:
        """Writes the values of a step and shows the loss."""
        if self._file is None or self._bar is None:
            return
        self._write({"step": step, **values})
        if self._bar.disable:
            print(f"step {step}/{self._bar.total} loss {values['loss']:.4f}", file=sys.stderr)
        else:
            self._bar.set_postfix(loss=f"{values['loss']:.4f}")

    def advance(self) -> None:
        """One more step is done, logged or not."""
        if self._bar is not None:
            self._bar.update()

    def _write(self, line: Mapping[str, float]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
        if self._file is not None:
            self._file.close()


def read_metrics(path: Path) -> list[dict[str, float]]:
    """The lines of a metrics.jsonl; none without the file, and a torn last line is left out."""
    if not path.is_file():
        return []
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return lines
