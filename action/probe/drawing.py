"""The drawing of one step: a row per unit, a column per entry, live bytes below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from action.amounts import amount
from action.probe import places
from action.probe.chart import HEIGHT, chart
from action.probe.gathers import Gather, Step
from action.probe.judge.case import Case, PathCase
from action.probe.marks import HATCH, Safe, cross, head, shown, span, tag
from action.probe.places import Axis, Bar, number
from action.records import Finding

_TOP = 34
_HIGH, _LOW, _FEW = 20, 13, 16
"""Heights of a row where there are few of them, and where there are more."""
_LETTER = 6.1
CAUSES = {
    "own": "own",
    "forward edge": "forward",
    "backward edge": "backward",
    "default": "default",
    "call": "call",
}


class Figure:
    """The drawing of one step: a row per unit, a column per entry, live bytes below."""

    def __init__(self, case: Case, path: PathCase, step: Step, findings: Sequence[Finding]) -> None:
        self.case, self.step, self.twin = case, step, path.twin
        self.axis = Axis(step)
        self.units = places.rows(step)
        self.height = _HIGH if len(self.units) <= _FEW else _LOW
        self.half = self.height // 4
        self.row = {unit: place for place, unit in enumerate(self.units)}
        self.names = [shown(case.name(unit)) for unit in self.units]
        self.prefix = places.common_prefix(
            [
                part
                for unit, name in zip(self.units, self.names, strict=True)
                if unit not in case.recording.roots and not name.startswith("(")
                for part in name.split(" + ")
            ]
        )
        self.bars = places.bars(step, self.axis, self.units)
        self.findings, self.blame = findings, _blame(findings)
        self.labels = [places.shorter(name, self.prefix) for name in self.names]
        self.gutter = max(48.0, max(map(len, self.labels), default=0) * _LETTER + 12)
        self.bottom = _TOP + self.height * len(self.units)

    def name(self, unit: int) -> str:
        """Return a unit's name as it may be shown."""
        return self.names[self.row[unit]]

    def y(self, unit: int) -> float:
        """Return the middle of a unit's row."""
        return _TOP + self.height * (self.row[unit] + 0.5)

    def svg(self) -> Safe:
        """Return the drawing."""
        width, height = self.gutter + self.axis.width + 46, self.bottom + HEIGHT
        parts = [HATCH, *self._frame(), *self._slots(), *self._bars(), *self._arrows()]
        parts += [*self._skips(), *self._ticks(), *self._badges(), *self._chart()]
        return tag(
            "svg",
            tag("g", *parts, transform=f"translate({number(self.gutter)} 0)"),
            width=number(width),
            height=number(height),
            viewBox=f"0 0 {number(width)} {number(height)}",
            role="img",
            aria_label="All-gathers of each unit over one training step",
        )

    def caption(self) -> Safe:
        """Return what the drawing leaves out or abbreviates."""
        said = ["Time runs to the right, one column for each unit that begins."]
        if self.prefix:
            said.append(f"All names but the root's begin with “{self.prefix}”, left out here.")
        absent = sum(
            not unit.outside and place not in self.row
            for place, unit in enumerate(self.case.recording.units)
        )
        if absent:
            said.append(f"Not drawn, since nothing happens to them: {absent} units.")
        return tag("p", " ".join(said), cls="facts")

    def _frame(self) -> Iterator[Safe]:
        width, entered = self.axis.width, {u for _, u in self._entries()}
        for place, (unit, label) in enumerate(zip(self.units, self.labels, strict=True)):
            top = _TOP + self.height * place
            if place % 2 == 0:
                yield tag("rect", cls="zebra", x=0, y=top, width=number(width), height=self.height)
            idle = "" if unit in entered else " idle"
            yield tag(
                "text",
                tag("title", f"{self.names[place]}, {amount(self.case.size(unit))}"),
                label,
                cls=f"row{idle}",
                x=-6,
                y=number(top + self.height / 2 + 3.5),
                data_unit=self.names[place],
            )
        marks = [(c.start, self.step.events[c.start].kind) for c in self.axis.columns if c.unit < 0]
        turn = self.axis.x(self.step.turning_point)
        end = next((self.axis.x(start) for start, kind in marks if kind == "end"), width)
        for start, kind in marks:
            x = self.axis.x(start)
            yield tag(
                "rect",
                tag("title", kind),
                cls="mark",
                data_kind=kind,
                x=number(x),
                y=_TOP,
                width=number(self.axis.column),
                height=self.bottom - _TOP,
            )
            yield tag("text", kind, cls="phase small", x=number(x + self.axis.column / 2), y=30)
        yield tag("text", "forward", cls="phase", x=number(turn / 2), y=14)
        if turn < width:
            middle = (turn + self.axis.column + end) / 2
            yield tag("text", "backward", cls="phase", x=number(middle), y=14)

    def _entries(self) -> list[tuple[int, int]]:
        return [(c.start, c.unit) for c in self.axis.columns if c.unit >= 0]

    def _slots(self) -> Iterator[Safe]:
        for start, unit in self._entries():
            phase = self.step.phase(start)
            yield tag(
                "rect",
                tag("title", f"{phase} of {self.name(unit)}"),
                cls="slot",
                data_unit=self.name(unit),
                data_phase=phase,
                x=number(self.axis.x(start)),
                y=number(self.y(unit) - self.height / 2),
                width=number(self.axis.column),
                height=self.height,
            )

    def _bars(self) -> Iterator[Safe]:
        for bar in self.bars:
            gather, y = bar.gather, self.y(bar.gather.unit)
            cause = CAUSES.get(gather.why, "call")
            numbers = self._findings(bar)
            said = self._said(bar)
            state = "unused" if bar.unused else "pending"
            parts = [
                tag("title", said),
                span(f"{state} {cause}", bar.left, bar.middle, y, self.half),
            ]
            if not bar.unused:
                parts.append(span(f"whole {cause}", bar.middle, bar.right, y, self.half))
            if numbers:
                parts.append(span("blamed", bar.left - 2, bar.right, y, self.half + 2))
            label = self._label(bar)
            if label:
                parts.append(self._beside(label, bar, y))
            yield tag(
                "g",
                *parts,
                cls="gather",
                data_unit=self.name(gather.unit),
                data_why=gather.why,
                data_findings=" ".join(map(str, numbers)) or None,
            )

    def _label(self, bar: Bar) -> str:
        if not bar.unused:
            return "still held at the end" if self._left_over(bar) else ""
        unit = bar.gather.unit
        usual = self.twin is not None and self.twin.unused[unit] >= self.step.unused[unit]
        held = ", still held" if bar.gather.freed is None else ""
        return f"unused{held}{', as without edges' if usual else ''}"

    def _left_over(self, bar: Bar) -> bool:
        unit = bar.gather.unit
        return bar.gather.freed is None and unit in self.step.recorded.live

    def _beside(self, label: str, bar: Bar, y: float) -> Safe:
        """Return a label within its bar, right of it, or left of it, where there is room."""
        length = len(label) * 5.2
        if bar.right - bar.left > length + 14:
            x, anchor = (bar.left + bar.right) / 2, "middle"
        elif bar.right + length + 6 < self.axis.width:
            x, anchor = bar.right + 5, "start"
        else:
            x, anchor = bar.left - 8, "end"
        return tag("text", label, cls="note", x=number(x), y=number(y + 3), text_anchor=anchor)

    def _said(self, bar: Bar) -> str:
        gather = bar.gather
        by = "" if gather.by is None else f" of {self.name(gather.by)}"
        used = "never used" if bar.unused else f"used in {gather.wait_phase}"
        held = shown(self.case.held(self.step, gather).replace("`", ""))
        return f"{self.name(gather.unit)}: all-gather by {gather.why}{by}, {used}; {held}"

    def _blamed(self, edge: tuple[int, int, str] | None) -> list[int]:
        if edge is None:
            return []
        source, target, direction = edge
        return self.blame.get((self.case.name(source), self.case.name(target), direction), [])

    def _findings(self, bar: Bar) -> list[int]:
        """Return the findings about an all-gather's edge; of an edge that fired several times,
        only where something is odd, if it is odd anywhere."""
        numbers = self._blamed(bar.gather.edge)
        if not numbers or _odd(bar.gather):
            return numbers
        same = [other.gather for other in self.bars if other.gather.edge == bar.gather.edge]
        return [] if any(map(_odd, same)) else numbers

    def _arrows(self) -> Iterator[Safe]:
        for bar in self.bars:
            gather = bar.gather
            cause = CAUSES.get(gather.why, "call")
            y, source = self.y(gather.unit), gather.by
            down = True
            if source is not None and source != gather.unit:
                down = self.y(source) < y
                yield self._arrow(f"arrow {cause}", bar.left, source, gather.unit)
            yield head(cause, bar.left, y, down)

    def _arrow(self, cls: str, x: float, source: int, target: int) -> Safe:
        start, end = self.y(source), self.y(target)
        end += -self.half if start < end else self.half
        return tag(
            "path",
            tag("title", f"{self.name(source)} → {self.name(target)}"),
            cls=cls,
            data_from=self.name(source),
            data_to=self.name(target),
            d=f"M{number(x)},{number(start)} V{number(end)}",
        )

    def _skipped(self) -> Iterator[tuple[int, tuple[int, int, str]]]:
        for index, event in enumerate(self.step.events):
            direction = CAUSES.get(event.why or "", "call")
            fired = event.kind == "skip" and direction in ("forward", "backward")
            if fired and event.by is not None:
                yield index, (event.by, event.unit, direction)

    def _skips(self) -> Iterator[Safe]:
        for index, (source, target, direction) in self._skipped():
            x, y = self.axis.x(index), self.y(target)
            if source != target:
                yield self._arrow(f"skip {direction}", x, source, target)
            blamed = " blamed" if self._blamed((source, target, direction)) else ""
            yield cross(x, y, f"skip {direction}{blamed}")

    def _ticks(self) -> Iterator[Safe]:
        for index, event in enumerate(self.step.events):
            if event.kind == "wait":
                x, y = self.axis.x(index), self.y(event.unit)
                yield tag(
                    "path",
                    cls="tick",
                    data_unit=self.name(event.unit),
                    d=f"M{number(x)},{number(y - self.height / 2 + 1)} v{self.height - 2}",
                )

    def _chart(self) -> Iterator[Safe]:
        return chart(self.case, self.step, self.twin, self.axis, self.bottom)

    def _badges(self) -> Iterator[Safe]:
        """Yield the number of each finding once: where the edge that its summary names fired,
        best with an all-gather, else where another one did."""
        at: dict[int, tuple[int, int]] = {}
        fired: list[tuple[int, tuple[int, int, str] | None, list[int]]]
        fired = [(b.gather.issued, b.gather.edge, self._findings(b)) for b in self.bars]
        fired += [(index, edge, self._blamed(edge)) for index, edge in self._skipped()]
        for only_named in (True, False):
            for index, edge, findings in fired:
                for finding in findings:
                    if edge is not None and (not only_named or self._names(finding, edge)):
                        at.setdefault(finding, (index, edge[1]))
        taken: dict[int, int] = {}
        for finding, (index, unit) in sorted(at.items()):
            shift = taken.get(index, 0)
            taken[index] = shift + 1
            x, y = self.axis.x(index) - 10 - 13 * shift, self.y(unit)
            mark = tag("circle", cx=number(x), cy=number(y), r=6)
            text = tag("text", str(finding), x=number(x), y=number(y + 3))
            yield tag("a", mark, text, cls="badge", href=f"#finding-{finding}")

    def _names(self, finding: int, edge: tuple[int, int, str]) -> bool:
        named = self.findings[finding - 1].edges[0]
        return (named.source, named.target, named.direction) == (
            self.case.name(edge[0]),
            self.case.name(edge[1]),
            edge[2],
        )


def _odd(gather: Gather) -> bool:
    """Tell whether an edge's all-gather came or went when it should not have."""
    edge = gather.edge
    late = gather.waited is None or gather.freed is None or gather.wait_phase != gather.phase
    return late or (edge is not None and edge[2] != gather.phase)


def _blame(findings: Sequence[Finding]) -> dict[tuple[str, str, str], list[int]]:
    blame: dict[tuple[str, str, str], list[int]] = {}
    for place, finding in enumerate(findings, 1):
        for edge in finding.edges:
            blame.setdefault((edge.source, edge.target, edge.direction), []).append(place)
    return blame
