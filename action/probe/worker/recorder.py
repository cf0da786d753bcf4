"""What FSDP2 does, as a list of events between units, and every call that sets edges.

An event is `[kind, unit]` or, for a gather, `[kind, unit, why, by]`:

    enter u     forward of u begins            leave u   it has ended
    gather u    all-gather of u issued; why: own, forward edge, backward edge, default, call;
                by: the unit whose hook issued it
    skip u      an edge or the default pointed to u, which was there already (same why and by)
    wait u      u waited for its gather and has its parameters in full
    reshard u   u freed them             reduce u    its gradients were reduce-scattered
    loss        forward is over, backward begins
    turn u      backward of u begins     done u      its post-backward has run
    end         autograd is through, the root's final callback begins
    drop u      a gather of u was never used and is thrown away

Units are numbers: indices into the list that `units.py` describes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

from torch import nn

from . import adapter

Event = tuple[Any, ...]
_MOST_FRAMES = 60


@dataclass
class Call:
    """One call of a setter: who is to prefetch whom, what list it replaced, from which line."""

    state: adapter.State
    direction: str
    targets: tuple[adapter.State, ...]
    before: tuple[adapter.State, ...]
    file: str | None
    line: int | None
    codes: frozenset[CodeType] = field(repr=False, default=frozenset())


class Recorder(adapter.Listener):
    """Collects the events of one pass at a time, and setter calls all the time.

    `limit` bounds the events of a pass: a model that runs units without end would fill memory.
    """

    def __init__(self, number: Callable[[Any], int], limit: int = 1_000_000) -> None:
        self._number = number
        self._limit = limit
        self._events: list[Event] | None = None
        self._hooks: list[tuple[adapter.State, str]] = []
        self._default: list[adapter.Group] = []
        self._prefetch: list[bool] = []
        self._direction: str | None = None
        self.calls: list[Call] = []

    def start(self) -> None:
        """Begin a pass."""
        self._events, self._hooks, self._default, self._prefetch = [], [], [], []

    def stop(self) -> list[Event]:
        """End the pass and return its events."""
        events, self._events = self._events or [], None
        return events

    def entered(self) -> set[int]:
        """Return the units whose forward has begun in this pass."""
        return {event[1] for event in self._events or () if event[0] == "enter"}

    def mark(self, kind: str) -> None:
        """Add an event that is no unit's: `loss`."""
        self._add(kind)

    def _add(self, *event: Any) -> None:
        if self._events is not None:
            if len(self._events) >= self._limit:
                raise RuntimeError(f"more than {self._limit} events in one pass")
            self._events.append(event)

    def _of_state(self, state: adapter.State) -> int:
        groups = adapter.groups_of(state)
        return self._number(groups[0] if groups else state)

    def enters(self, state: adapter.State) -> None:
        self._hooks.append((state, "own"))
        self._add("enter", self._of_state(state))

    def leaves(self, state: adapter.State) -> None:
        self._add("leave", self._of_state(state))

    def turns(self, state: adapter.State) -> None:
        # The hook stands on every output that requires grad; only the first one begins backward.
        if not adapter.recomputes(state):
            self._add("turn", self._of_state(state))
        self._hooks.append((state, "own"))

    def hook_done(self, state: adapter.State) -> None:
        self._hooks.pop()

    def default_begins(self, group: adapter.Group) -> None:
        self._default.append(group)

    def default_done(self, group: adapter.Group) -> None:
        self._default.pop()

    def _cause(self, direction: str | None) -> tuple[str, int | None]:
        if self._default:
            return "default", self._number(self._default[-1])
        if direction is not None:
            by = self._of_state(self._hooks[-1][0]) if self._hooks else None
            return f"{direction} edge", by
        if self._hooks:
            return "own", None
        return "call", None

    def prefetches(self, group: adapter.Group, direction: str) -> None:
        self._direction = direction
        self._prefetch.append(False)

    def prefetched(self, group: adapter.Group, direction: str) -> None:
        issued = self._prefetch.pop()
        if not issued:
            why, by = self._cause(direction)
            self._add("skip", self._number(group), why, by)

    def gathers(self, group: adapter.Group) -> None:
        direction = None
        if self._prefetch:
            self._prefetch[-1] = True
            direction = self._direction
        why, by = self._cause(direction)
        self._add("gather", self._number(group), why, by)

    def copied_out(self, group: adapter.Group) -> None:
        self._add("wait", self._number(group))

    def reshards(self, group: adapter.Group) -> None:
        self._add("reshard", self._number(group))

    def reduces(self, group: adapter.Group) -> None:
        self._add("reduce", self._number(group))

    def backward_done(self, group: adapter.Group) -> None:
        self._add("done", self._number(group))

    def ends(self) -> None:
        self._add("end")

    def drops(self, group: adapter.Group) -> None:
        self._add("drop", self._number(group))

    def sets(self, module: nn.Module, direction: str, given: Any, before: Any) -> None:
        state = adapter.state_of(module)
        file, line, codes = _caller()
        targets = tuple(adapter.edges_of(state, direction))
        self.calls.append(Call(state, direction, targets, tuple(before), file, line, codes))


def _caller() -> tuple[str | None, int | None, frozenset[CodeType]]:
    """Return the line outside of torch and of the worker that called, and all code on the way."""
    here = str(Path(__file__).parent)
    frame: Any = sys._getframe(1)
    codes: list[CodeType] = []
    place: tuple[str | None, int | None] = (None, None)
    while frame is not None and len(codes) < _MOST_FRAMES:
        code = frame.f_code
        codes.append(code)
        ours = code.co_filename.startswith(here)
        if place == (None, None) and not ours and not is_library(code.co_filename):
            place = (code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return (*place, frozenset(codes))


def is_library(file: str) -> bool:
    """Tell whether a file is one of Python's or an installed package's."""
    return "site-packages" in file or file.startswith((sys.prefix, sys.base_prefix, "<"))


def told_by(call: Call, codes: Sequence[CodeType]) -> bool:
    """Tell whether a call was made from within one of some functions."""
    return any(code in call.codes for code in codes)
