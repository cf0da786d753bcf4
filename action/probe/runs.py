"""Edges as runs: `layers.0 → layers.1 → … → layers.35` instead of thirty-five lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_SHOWN_WHOLE = 4


def runs(lists: Mapping[int, Sequence[int]], names: Sequence[str]) -> tuple[str, ...]:
    """Return the edges of `lists` (targets of each source) as text, chains joined.

    A source with one target continues the chain; a source with several stands with all of them,
    and such sources in a row with the same pattern are joined: `a → b, c` to `x → y, z`.
    """
    singles = {source: targets[0] for source, targets in lists.items() if len(targets) == 1}
    several = [(source, targets) for source, targets in lists.items() if len(targets) > 1]
    lines = [_chain([names[unit] for unit in chain]) for chain in _chains(singles)]
    return (*lines, *_several(several, names))


def _chains(following: dict[int, int]) -> list[list[int]]:
    targets = set(following.values())
    starts = [unit for unit in following if unit not in targets]
    chains, seen = [], set()
    for start in [*starts, *following]:
        chain, unit = [start], start
        while unit in following and unit not in seen:
            seen.add(unit)
            unit = following[unit]
            chain.append(unit)
        if len(chain) > 1:
            chains.append(chain)
    return chains


def _chain(names: Sequence[str]) -> str:
    if len(names) <= _SHOWN_WHOLE:
        return " → ".join(names)
    return f"{names[0]} → {names[1]} → … → {names[-1]}"


def _several(entries: Sequence[tuple[int, Sequence[int]]], names: Sequence[str]) -> list[str]:
    """Return one line per source, or one for a row of sources that each shift by one unit."""
    lines: list[str] = []
    row: list[tuple[int, Sequence[int]]] = []
    for entry in entries:
        if row and [t - entry[0] for t in entry[1]] != [t - row[-1][0] for t in row[-1][1]]:
            lines += _row(row, names)
            row = []
        row.append(entry)
    return lines + _row(row, names)


def _row(row: Sequence[tuple[int, Sequence[int]]], names: Sequence[str]) -> list[str]:
    def line(entry: tuple[int, Sequence[int]]) -> str:
        return f"{names[entry[0]]} → {', '.join(names[t] for t in entry[1])}"

    if len(row) < _SHOWN_WHOLE:
        return [line(entry) for entry in row]
    return [f"{line(row[0])}; and so on to {line(row[-1])} ({len(row)} units)"]
