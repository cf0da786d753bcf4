"""The events of one pass as all-gathers with a life each, and what follows from those."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from action.probe.recording import Direction, Event, Pass


@dataclass(frozen=True)
class Gather:
    """One all-gather of a unit, by the indices of its events in the pass.

    `waited` is where the unit waited for it, None when it never did; `freed` where its memory was
    given back, None when that was not within the pass. `phase` is that of its issue.
    """

    unit: int
    issued: int
    why: str
    by: int | None
    phase: Direction
    waited: int | None = None
    freed: int | None = None
    wait_phase: Direction | None = None

    @property
    def edge(self) -> tuple[int, int, Direction] | None:
        """The edge that issued it: source, target, direction; None when none did."""
        if self.by is None or not self.why.endswith(" edge"):
            return None
        return self.by, self.unit, "forward" if self.why == "forward edge" else "backward"


class Step:
    """One pass, read: phases, entries of units, all-gathers with their lives."""

    def __init__(self, one: Pass) -> None:
        self.recorded = one
        self.events: tuple[Event, ...] = one.events

    @cached_property
    def turning_point(self) -> int:
        """The index of `loss`, where backward begins; past the last event without one."""
        for index, event in enumerate(self.events):
            if event.kind == "loss":
                return index
        return len(self.events)

    def phase(self, index: int) -> Direction:
        """Return the phase in which an event happened."""
        return "forward" if index < self.turning_point else "backward"

    @cached_property
    def entries(self) -> dict[Direction, dict[int, list[int]]]:
        """Where each unit's forward (outside of backward) and each unit's backward begins.

        A unit of several modules is entered with each of them and left with the last: once.
        """
        found: dict[Direction, dict[int, list[int]]] = {"forward": {}, "backward": {}}
        open_: set[int] = set()
        for index, event in enumerate(self.events):
            if event.kind == "enter" and self.phase(index) == "forward":
                if event.unit not in open_:
                    found["forward"].setdefault(event.unit, []).append(index)
                open_.add(event.unit)
            elif event.kind == "leave":
                open_.discard(event.unit)
            elif event.kind == "turn":
                found["backward"].setdefault(event.unit, []).append(index)
        return found

    def order(self, direction: Direction) -> list[tuple[int, int]]:
        """Return index and unit of every entry, in the order of execution."""
        entries = self.entries[direction]
        return sorted((index, unit) for unit, indices in entries.items() for index in indices)

    @cached_property
    def gathers(self) -> list[Gather]:
        """Every all-gather in the order of issue."""
        return list(self._lives())

    def _lives(self) -> Iterator[Gather]:
        open_: dict[int, dict[str, object]] = {}
        done: list[dict[str, object]] = []
        for index, event in enumerate(self.events):
            unit = event.unit
            if event.kind == "gather":
                life: dict[str, object] = {
                    "unit": unit,
                    "issued": index,
                    "why": event.why,
                    "by": event.by,
                    "phase": self.phase(index),
                }
                open_[unit] = life
                done.append(life)
            elif event.kind == "wait" and unit in open_:
                open_[unit] |= {"waited": index, "wait_phase": self.phase(index)}
            elif event.kind in ("reshard", "drop") and unit in open_:
                open_.pop(unit)["freed"] = index
        for life in done:
            yield Gather(**life)  # type: ignore[arg-type]

    @cached_property
    def counts(self) -> Counter[int]:
        """How many all-gathers each unit has."""
        return Counter(gather.unit for gather in self.gathers)

    @cached_property
    def unused(self) -> Counter[int]:
        """How many all-gathers of each unit nobody waited for."""
        return Counter(gather.unit for gather in self.gathers if gather.waited is None)

    @cached_property
    def inversions(self) -> list[tuple[Gather, Gather]]:
        """Pairs of an all-gather and one issued before it that is needed only after it.

        All-gathers share one stream, first in, first out, so that the first of the pair waits for
        the second. Each all-gather stands in at most one pair, with the one longest in the queue.
        """
        pairs = []
        pending: list[Gather] = []
        for gather in self.gathers:
            pending = [p for p in pending if p.waited is None or p.waited > gather.issued]
            if gather.waited is not None:
                for before in pending:
                    if before.waited is None or before.waited > gather.waited:
                        pairs.append((gather, before))
                        break
            pending.append(gather)
        return pairs

    def traffic(self) -> list[tuple[str, int]]:
        """Return the collectives of FSDP2 in the order of issue: all-gathers, reduce-scatters."""
        return [(e.kind, e.unit) for e in self.events if e.kind in ("gather", "reduce")]

    def peak(self, sizes: Sequence[int] | Mapping[int, int]) -> tuple[int, int]:
        """Return the most bytes of full parameters at once, and the index where that begins.

        An all-gather counts from its issue to its reshard; the copy that FSDP2 holds for a moment
        between copy-out and the next all-gather is not counted.
        """
        changes: list[tuple[int, int, int]] = []
        for gather in self.gathers:
            size = sizes[gather.unit]
            changes.append((gather.issued, 1, size))
            if gather.freed is not None:
                changes.append((gather.freed, 0, -size))
        most, at, live = 0, 0, 0
        for index, _, size in sorted(changes):
            live += size
            if live > most:
                most, at = live, index
        return most, at

    def running(self, index: int) -> int | None:
        """Return the unit whose forward or backward an event falls into."""
        open_: list[int] = []
        for event in self.events[: index + 1]:
            if event.kind in ("enter", "turn"):
                open_.append(event.unit)
            elif event.kind in ("leave", "done") and event.unit in open_:
                open_.remove(event.unit)
        return open_[-1] if open_ else None
