"""A recording as the rules read it: names, places, sizes, and the steps to compare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from action.amounts import amount
from action.probe.gathers import Gather, Step
from action.probe.recording import Direction, Pass, Recording
from action.records import CheckId, Edge, Finding, Location, Rule

Pair = tuple[int, int]
ITEM: dict[Direction, CheckId] = {"forward": "forward-edges", "backward": "backward-edges"}


class PathCase:
    """One training path: its steps with the hook's edges and the edge-free twin's.

    Steps are the second ones, which see what the first left behind. None stands for a step that
    did not end well.
    """

    def __init__(self, recording: Recording, name: str) -> None:
        path = next(path for path in recording.paths if path.name == name)
        self.name = name
        self.passes: tuple[Pass, ...] = path.passes
        self.hooked = _step(path.find("hook", step=2) or path.find("hook"))
        self.twin = _step(path.find("none", step=2) or path.find("none"))
        self.evaluated = _step(path.find("hook", "eval"))
        self.twin_evaluated = _step(path.find("none", "eval"))
        self.after_second_call = _step(path.find("second call"))


def _step(one: Pass | None) -> Step | None:
    return None if one is None else Step(one)


class Case:
    """A recording, with what every rule asks of it."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.paths = [PathCase(recording, path.name) for path in recording.paths]

    def lists(self, direction: Direction) -> dict[int, tuple[int, ...]]:
        """Return the targets of each source."""
        return self.recording.edges.of(direction)

    def pairs(self, direction: Direction) -> list[Pair]:
        """Return the edges of a direction, each once, in the order of the lists."""
        return list(
            dict.fromkeys((s, t) for s, targets in self.lists(direction).items() for t in targets)
        )

    def name(self, unit: int) -> str:
        """Return a unit's name."""
        return self.recording.name(unit)

    def quoted(self, unit: int) -> str:
        """Return a unit's name in backticks."""
        return f"`{self.name(unit)}`"

    def arrow(self, pair: Pair) -> str:
        """Return an edge as `source → target`."""
        return f"`{self.name(pair[0])} → {self.name(pair[1])}`"

    def edge(self, pair: Pair, direction: Direction) -> Edge:
        """Return an edge as a record."""
        source, target = pair
        return Edge(source=self.name(source), target=self.name(target), direction=direction)

    def size(self, unit: int) -> int:
        """Return the bytes of a unit's full parameters on the configured number of ranks."""
        return self.sizes[unit] if unit < len(self.sizes) else 0

    @cached_property
    def sizes(self) -> list[int]:
        """The bytes of every unit's full parameters."""
        return [unit.size(self.recording.shard) for unit in self.recording.units]

    def location(self, source: int, direction: Direction) -> Location | None:
        """Return the line of the setter call that put a source's list in place."""
        for call in reversed(self.recording.calls):
            if (call.source, call.direction) == (source, direction):
                if call.file is None or call.file.startswith("/"):
                    return None
                return Location(path=call.file, line=call.line)
        return None

    def shown(self, step: Step, index: int) -> str:
        """Return an event of a step as text."""
        return self.recording.described(step.events[index])

    def held(self, step: Step, gather: Gather) -> str:
        """Return how long an all-gather's memory is held, and how much it is."""
        size = amount(self.size(gather.unit))
        start = step.running(gather.issued)
        since = "the start" if start is None else self.quoted(start)
        if gather.freed is None:
            return f"{size} held from {since} on, past the end of the step"
        if step.events[gather.freed].kind == "drop":
            return f"{size} held from {since} to the end of backward, then thrown away"
        end = step.running(gather.freed)
        until = "the end of backward" if end is None else self.quoted(end)
        phase = step.phase(gather.freed)
        return f"{size} held from {since} to {until} in {phase}"

    def finding(
        self,
        rule: Rule,
        direction: Direction,
        pairs: Sequence[Pair],
        summary: str,
        *,
        paths: Iterable[str] = (),
        event: str = "",
        cost: str = "",
        instead: str = "",
        unknown: bool = False,
    ) -> Finding:
        """Return a finding about edges of a direction."""
        return Finding(
            rule=rule,
            item=ITEM[direction],
            verdict="unknown" if unknown else "fail",
            summary=summary,
            edges=tuple(self.edge(pair, direction) for pair in pairs),
            paths=tuple(dict.fromkeys(paths)),
            event=event,
            cost=cost,
            instead=instead,
            location=self.location(pairs[0][0], direction) if pairs else None,
        )


def also(pairs: Sequence[Pair]) -> str:
    """Return how many more edges a finding is about than the one that it names."""
    more = len(pairs) - 1
    return "" if more < 1 else f" (and {more} more edge{'s' if more > 1 else ''} like it)"


def in_paths(names: Sequence[str], total: int) -> str:
    """Return in which paths something happens, where that is not all of them."""
    names = list(dict.fromkeys(names))
    if total == 1 or len(names) == total:
        return "" if total == 1 else " in every path"
    return " in " + ", ".join(f"`{name}`" for name in names)
