"""Live unsharded bytes over a step, with the hook's edges and without any, below the rows."""

from __future__ import annotations

from collections.abc import Iterator

from action.amounts import amount
from action.probe.gathers import Step
from action.probe.judge.case import Case
from action.probe.marks import Safe, shown, tag
from action.probe.places import Axis, live_bytes, number, stairs

_TALL, _ABOVE, _BELOW = 84, 36, 16
HEIGHT = _ABOVE + _TALL + _BELOW


def comparable(axis: Axis, twin: Step | None) -> Axis | None:
    """Return the twin's axis if its columns are the same: other lines cannot be compared by eye."""
    other = None if twin is None else Axis(twin)
    return other if other is not None and other.like(axis) else None


def chart(case: Case, step: Step, twin: Step | None, axis: Axis, bottom: int) -> Iterator[Safe]:
    """Yield the parts of the chart, which begins at `bottom`."""
    levels = live_bytes(step, case.size)
    without = [] if twin is None else live_bytes(twin, case.size)
    most, at = max(((live, -index) for index, live in levels), default=(0, 0))
    usual = max((live for _, live in without), default=0)
    top, scale = float(bottom + _ABOVE), max(most, usual)
    yield tag("text", "live unsharded bytes", cls="phase left", x=0, y=bottom + 16)
    for part, live in ((0, scale), (1, 0)):
        y = top + _TALL * part
        yield tag("path", cls="grid", d=f"M0,{number(y)} H{number(axis.width)}")
        yield tag("text", amount(live), cls="row", x=-6, y=number(y + 3))
    line = stairs(levels, axis, top, _TALL, scale)
    yield tag("path", cls="area", d=f"{line} V{number(top + _TALL)} Z")
    yield tag("path", cls="live hook", d=line)
    other = comparable(axis, twin)
    if other is not None:
        yield tag("path", cls="live twin", d=stairs(without, other, top, _TALL, scale))
    yield from _peak(case, step, axis, most, -at, top + _TALL * (1 - most / max(1, scale)))
    if twin is not None:
        yield tag(
            "text",
            f"without edges: peak {amount(usual)}",
            cls="note",
            data_bytes=usual,
            x=number(axis.width),
            y=bottom + 16,
            text_anchor="end",
        )


def _peak(case: Case, step: Step, axis: Axis, most: int, at: int, y: float) -> Iterator[Safe]:
    running = step.running(at) if most else None
    where = "" if running is None else f" in {step.phase(at)} of {shown(case.name(running))}"
    x = axis.x(at)
    left = x < axis.width / 2
    yield tag("circle", cls="peak", cx=number(x), cy=number(y), r=3)
    yield tag(
        "text",
        f"peak {amount(most)}{where}",
        cls="note",
        data_bytes=most,
        x=number(x + 6 if left else x - 6),
        y=number(y - 6),
        text_anchor="start" if left else "end",
    )
