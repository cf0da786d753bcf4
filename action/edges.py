"""`fsdp2-prefetch edges RECIPE`: what FSDP2 does with a hook, for its author at a terminal.

It looks at the recipe as it lies in the folder, uncommitted changes included.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from action.amounts import amount
from action.probe import PROBE, Limits, Request, Surroundings, observe_and_draw
from action.progress import Progress
from action.records import Change, Finding, Observation, ObservedPath, Traffic
from action.repository.checkout import checked_out
from action.repository.git import Git
from action.settings import Settings

_TENSORS = {
    "fake": "fake tensors, full size",
    "real": "real values",
    "ranks": "two ranks with real values",
}


class RecipeError(Exception):
    """There is no such recipe, or not one; the sentence says what to type."""


def show_edges(
    settings: Settings, environ: Mapping[str, str], screen: Progress, errors: Progress
) -> Observation:
    """Observe one recipe, print what was seen, draw the timeline if asked, and return it all.

    Raises:
        RecipeError: not exactly one recipe was named, it does not exist, or a file that is to be
            written cannot be.
    """
    root = settings.repo.resolve()
    if len(settings.recipes) != 1:
        raise RecipeError("edges: name one recipe, as in `fsdp2-prefetch edges qwen3`")
    name = settings.recipes[0]
    folder = root / settings.recipes_root / name
    if not folder.is_dir():
        raise RecipeError(f"edges: there is no folder {settings.recipes_root}/{name} in {root}")
    request = Request(
        name=name,
        probe=folder / PROBE,
        root=root,
        config=None if settings.config is None else str(settings.config.resolve()),
        paths=settings.paths,
        mode="ranks" if settings.ranks else "fake",
    )
    errors.line(f"observing {name} on the CPU, at most {settings.probe_limit:g} s")
    with _base(settings, request) as base:
        observation, page = observe_and_draw(
            request,
            Limits(settings.probe_limit, int(settings.probe_memory * 2**30), os.cpu_count() or 1),
            Surroundings(settings.python, environ, time.monotonic, settings.pass_env),
            base,
            draw=settings.timeline is not None,
        )
    if settings.json_to != "-":
        for line in described(observation):
            screen.line(line)
    if settings.timeline is not None and page is not None:
        _write(settings.timeline, page)
        errors.line(f"the timeline is in {settings.timeline}")
    return observation


@contextmanager
def _base(settings: Settings, request: Request) -> Iterator[tuple[str, Request] | None]:
    """Give the commit to compare with and the same recipe in its checkout, where one is asked."""
    if settings.base is None:
        yield None
        return
    git = Git(settings.repo)
    commit = git.commit(settings.base)
    with checked_out(git, commit) as older:
        probe = older.root / request.probe.relative_to(request.root)
        yield commit, replace(request, probe=probe, root=older.root)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as trouble:
        raise RecipeError(f"--timeline: cannot write {path}: {trouble.strerror}") from trouble


def described(seen: Observation) -> Iterator[str]:
    """Yield an observation as lines for a person."""
    yield seen.summary
    if seen.outcome != "observed":
        yield from seen.tail.splitlines()
        return
    tensors = _TENSORS[seen.mode or "fake"]
    yield f"{seen.top_class} on {tensors}; mesh {seen.mesh}; bytes for {seen.shard} ranks"
    if seen.why_not_fake is not None:
        yield f"not on fake tensors: {seen.why_not_fake}"
    yield ""
    yield "units in the order in which they run"
    yield from _units(seen)
    for direction, runs in (("forward", seen.forward), ("backward", seen.backward)):
        yield ""
        yield f"{direction} edges"
        yield from (f"  {run}" for run in runs or ("none",))
    for path in seen.paths:
        yield ""
        yield from _path(path)
    if seen.change is not None:
        yield ""
        yield from _change(seen.change)
    for finding in seen.findings:
        yield ""
        yield from _finding(finding)


def _units(seen: Observation) -> Iterator[str]:
    """Yield the units, those in a row that are alike but for their number as one line."""
    row: list[int] = []
    for index, unit in enumerate(seen.units):
        before = seen.units[index - 1] if index else None
        same = before is not None and (before.class_name, before.bytes, before.frozen) == (
            unit.class_name,
            unit.bytes,
            unit.frozen,
        )
        if not same and row:
            yield _unit_row(seen, row)
            row = []
        row.append(index)
    if row:
        yield _unit_row(seen, row)


def _unit_row(seen: Observation, row: list[int]) -> str:
    first, last = seen.units[row[0]], seen.units[row[-1]]
    name = first.name if len(row) == 1 else f"{first.name} … {last.name} ({len(row)})"
    size = "empty" if first.empty else amount(first.bytes)
    each = "" if len(row) == 1 else " each"
    notes = "".join(
        note for note, holds in ((", frozen", first.frozen), (", never runs", first.order is None))
        if holds
    )  # fmt: skip
    return f"  {name:<44} {first.class_name:<24} {size}{each}{notes}"


def _path(path: ObservedPath) -> Iterator[str]:
    yield f"path {path.name}" + (f": {path.problem}" if path.problem else "")
    for label, traffic in (("without edges", path.without), ("with the hook", path.with_hook)):
        if traffic is not None:
            yield f"  {label}: {_traffic(traffic)}"


def _traffic(traffic: Traffic) -> str:
    return (
        f"{traffic.forward} + {traffic.backward} all-gathers, "
        f"{traffic.unused} unused, {traffic.inversions} out of order, "
        f"peak {amount(traffic.peak_bytes)} ({traffic.peak_at})"
    )


def _change(change: Change) -> Iterator[str]:
    """Yield the edges that a change added and removed, and what each path cost before it."""
    yield f"compared with {change.base[:12]}" + (f": {change.problem}" if change.problem else "")
    if change.problem is not None:
        return
    for sign, edges in (("+", change.added), ("-", change.removed)):
        yield from (f"  {sign} {edge.direction} {edge.source} → {edge.target}" for edge in edges)
    if not change.added and not change.removed:
        yield "  the same edges"
    for path in change.before:
        if path.with_hook is not None:
            yield f"  {path.name} then: {_traffic(path.with_hook)}"


def _finding(finding: Finding) -> Iterator[str]:
    where = "" if finding.location is None else f" ({finding.location})"
    yield f"{finding.verdict}: {finding.rule}: {finding.summary}{where}"
    for label, text in (
        ("seen", finding.event),
        ("cost", finding.cost),
        ("instead", finding.instead),
    ):
        if text:
            yield f"  {label}: {text}"
