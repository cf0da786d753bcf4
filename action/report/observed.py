"""What the probe saw, for the comment: edges, a graph of them, counts with the hook and without."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from action.amounts import amount
from action.records import Edge, Observation, ObservedPath, Traffic
from action.report import markdown
from action.report.markdown import Markdown

_MOST_RUNS = 6
_MOST_NODES = 14
_MOST_LABEL = 60


def edge_runs(runs: tuple[str, ...]) -> Markdown:
    """Return edges as runs, each a code span."""
    if not runs:
        return Markdown("none")
    shown = "; ".join(markdown.code(run) for run in runs[:_MOST_RUNS])
    left = len(runs) - _MOST_RUNS
    return Markdown(f"{shown}; … and {left} more" if left > 0 else shown)


def how(seen: Observation) -> str:
    """Return on what the model ran, so that nobody takes it for more."""
    tensors = "on fake tensors" if seen.mode == "fake" else "with real values, not at full size"
    config = f" of `{seen.config}`" if seen.config else ""
    reckoned = f"bytes reckoned for {seen.shard} ranks" if seen.shard else ""
    return f"seen on a CPU {tensors}{config} at mesh {seen.mesh}, {reckoned} (without edges → with)"


def versus(path: ObservedPath, what: Literal["gathers", "unused", "inversions", "peak"]) -> str:
    """Return a figure without edges and with them: `73`, or `73 → 74` where they differ."""
    if path.with_hook is None:
        return ""
    now = _figure(path.with_hook, what)
    if path.without is None:
        return now
    before = _figure(path.without, what)
    return now if before == now else f"{before} → {now}"


def listed_edges(edges: tuple[Edge, ...]) -> Markdown:
    """Return the first edges of a change in parentheses; nothing for none."""
    if not edges:
        return Markdown("")
    shown = [
        f"{edge.direction} {markdown.code(f'{edge.source} → {edge.target}')}"
        for edge in edges[:_MOST_RUNS]
    ]
    more = ", …" if len(edges) > _MOST_RUNS else ""
    return Markdown(f" ({', '.join(shown)}{more})")


def changed(before: ObservedPath, now: ObservedPath) -> str:
    """Return what a change did to a path's traffic with the hook, in one line."""
    if before.with_hook is None or now.with_hook is None:
        return "not known"
    parts = []
    for name, what in (("all-gathers", "gathers"), ("unused", "unused"), ("peak", "peak")):
        old, new = _figure(before.with_hook, what), _figure(now.with_hook, what)
        parts.append(f"{name} {new}" if old == new else f"{name} {old} → {new}")
    return ", ".join(parts)


def _figure(traffic: Traffic, what: str) -> str:
    match what:
        case "gathers":
            return f"{traffic.forward} + {traffic.backward}"
        case "peak":
            return f"{amount(traffic.peak_bytes)} in `{traffic.peak_at}`"
        case _:
            return str(getattr(traffic, what))


def graph(seen: Observation) -> Markdown:
    """Return a Mermaid graph of the runs: forward edges drawn through, backward ones dotted."""
    nodes: dict[str, str] = {}
    lines: list[str] = []
    for runs, arrow in ((seen.forward, "-->"), (seen.backward, "-.->")):
        for run in runs:
            lines += _of_run(run, arrow, nodes)
    if not lines or len(nodes) > _MOST_NODES:
        return Markdown("")
    return Markdown("\n".join(["```mermaid", "flowchart LR", *lines, "```"]) + "\n")


def _of_run(run: str, arrow: str, nodes: dict[str, str]) -> list[str]:
    chain = run.partition(";")[0].split(" → ")
    lines = []
    for left, right in pairwise(chain):
        for target in right.split(", "):
            lines.append(f"  {_node(left, run, nodes)} {arrow} {_node(target, run, nodes)}")
    return lines


def _node(name: str, run: str, nodes: dict[str, str]) -> str:
    """Return a node with its label the first time; labels are module paths, and hostile.

    What one run leaves out is not what another one does.
    """
    key = f"… of {run}" if name == "…" else name
    if key in nodes:
        return nodes[key]
    nodes[key] = f"n{len(nodes)}"
    label = "".join(c if c.isalnum() or c in "._-+() …[]" else "_" for c in name)[:_MOST_LABEL]
    return f'{nodes[key]}["{label}"]'
