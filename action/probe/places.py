"""Where things stand in the picture of a step: columns, rows, lives, live bytes. Pure geometry."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from action.probe.gathers import Gather, Step
from action.probe.recording import Direction

PLOT = 1_000
"""Pixels that the columns share, as long as each stays between the two widths below."""
_NARROWEST, _WIDEST = 6.0, 64.0
_LONGEST_LABEL = 34
_PHASES: tuple[Direction, ...] = ("forward", "backward")


@dataclass(frozen=True)
class Column:
    """The events from one entry of a unit to the next; `unit` is -1 for `loss` and `end`."""

    start: int
    unit: int
    phase: Direction


def columns(step: Step) -> tuple[Column, ...]:
    """Return a column for each entry in forward, for the loss, each turn, and the end."""
    found = [Column(index, unit, phase) for phase in _PHASES for index, unit in step.order(phase)]
    found += [
        Column(index, -1, "backward")
        for index, event in enumerate(step.events)
        if event.kind in ("loss", "end")
    ]
    return tuple(sorted(found, key=lambda column: column.start))


class Axis:
    """The x axis of a step: its columns side by side, the events of each spread over its width."""

    def __init__(self, step: Step) -> None:
        self.columns = columns(step)
        self.events = len(step.events)
        self._starts = [column.start for column in self.columns]
        count = max(1, len(self.columns))
        self.column = max(_NARROWEST, min(_WIDEST, PLOT / count))
        self.width = self.column * count

    def place(self, index: int) -> int:
        """Return the number of the column that an event stands in."""
        return max(0, bisect_right(self._starts, index) - 1)

    def x(self, index: int | None) -> float:
        """Return where an event stands; None is past the end of the step."""
        if index is None or index >= self.events:
            return self.width
        if not self._starts or index < self._starts[0]:
            return 0.0
        place = self.place(index)
        start = self._starts[place]
        end = self._starts[place + 1] if place + 1 < len(self._starts) else self.events
        return (place + (index - start) / (end - start)) * self.column

    def like(self, other: Axis) -> bool:
        """Tell whether both have the same units in the same columns."""
        return [(c.unit, c.phase) for c in self.columns] == [
            (c.unit, c.phase) for c in other.columns
        ]


def rows(step: Step) -> list[int]:
    """Return the units that take part: in the order of execution, then those that never run."""
    ran = [unit for phase in _PHASES for _, unit in step.order(phase)]
    marks = ("loss", "end")
    touched = [(event.unit, event.by) for event in step.events if event.kind not in marks]
    named = [unit for pair in touched for unit in pair if unit is not None]
    return list(dict.fromkeys([*ran, *named]))


@dataclass(frozen=True)
class Bar:
    """The life of an all-gather: on the way from `left` to `middle`, whole from there to `right`.

    `middle` is `right` for one that nobody waited for.
    """

    gather: Gather
    row: int
    left: float
    middle: float
    right: float

    @property
    def unused(self) -> bool:
        """Tell whether nobody waited for it."""
        return self.gather.waited is None


def bars(step: Step, axis: Axis, places: Sequence[int]) -> list[Bar]:
    """Return a bar for each all-gather, in the order of issue."""
    row = {unit: number for number, unit in enumerate(places)}
    found = []
    for gather in step.gathers:
        right = axis.x(gather.freed)
        middle = right if gather.waited is None else axis.x(gather.waited)
        found.append(Bar(gather, row[gather.unit], axis.x(gather.issued), middle, right))
    return found


def live_bytes(step: Step, size: Callable[[int], int]) -> list[tuple[int, int]]:
    """Return each event index at which the live bytes change, with what they are from there on."""
    changes: dict[int, int] = {}
    for gather in step.gathers:
        changes[gather.issued] = changes.get(gather.issued, 0) + size(gather.unit)
        if gather.freed is not None:
            changes[gather.freed] = changes.get(gather.freed, 0) - size(gather.unit)
    live, found = 0, []
    for index in sorted(changes):
        live += changes[index]
        found.append((index, live))
    return found


def stairs(
    levels: Iterable[tuple[int, int]], axis: Axis, top: float, height: float, most: int
) -> str:
    """Return a step line as path data, from the left end at zero to the right end."""
    data, y = [f"M0,{number(top + height)}"], top + height
    for index, live in levels:
        data.append(f"H{number(axis.x(index))}")
        y = top + height - (height * live / most if most else 0.0)
        data.append(f"V{number(y)}")
    return " ".join([*data, f"H{number(axis.width)}"])


def common_prefix(names: Sequence[str]) -> str:
    """Return the dotted prefix that all names share, without its last part: `model.layers.0` and
    `model.layers.1` share `model.`, so that `layers.0` and `layers.1` are left."""
    if len(names) < 2:
        return ""
    split = [name.split(".")[:-1] for name in names]
    shared = 0
    for parts in zip(*split, strict=False):
        if len(set(parts)) > 1:
            break
        shared += 1
    return "".join(f"{part}." for part in split[0][: max(0, shared - 1)])


def shorter(name: str, prefix: str) -> str:
    """Return a name without the prefix, its middle cut out where it is still too long."""
    name = " + ".join(part.removeprefix(prefix) for part in name.split(" + "))
    if len(name) <= _LONGEST_LABEL:
        return name
    return f"{name[:11]}…{name[-(_LONGEST_LABEL - 12) :]}"


def number(value: float) -> str:
    """Return a coordinate as SVG has it, to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")
