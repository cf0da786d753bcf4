"""Markup whose text is always escaped, and the small shapes that the timeline is drawn with."""

from __future__ import annotations

import html

from action.probe.places import number
from action.processes.text import first_line


class Safe(str):
    """Markup: what is in it was escaped already."""

    __slots__ = ()

    def __add__(self, other: str) -> Safe:
        return Safe(str(self) + (other if isinstance(other, Safe) else html.escape(other)))


def _spelled(key: str) -> str:
    return "class" if key == "cls" else key.replace("_", "-")


def tag(name: str, *children: str, **attributes: object) -> Safe:
    """Return an element; text and attributes are escaped, `cls` is the class."""
    spelled = "".join(
        f' {_spelled(key)}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(c if isinstance(c, Safe) else html.escape(c) for c in children)
    return Safe(f"<{name}{spelled}>{inner}</{name}>" if children else f"<{name}{spelled}/>")


def shown(text: str, length: int = 200) -> str:
    """Return a text of the recording as one line that is safe to read; it is not yet escaped."""
    return first_line(text, length=length)


def span(cls: str, left: float, right: float, y: float, half: float = 3) -> Safe:
    """Return a part of an all-gather's life, `half` as high above `y` as below it."""
    return tag(
        "rect",
        cls=cls,
        x=number(left),
        y=number(y - half),
        width=number(max(1.0, right - left)),
        height=number(2 * half),
    )


def head(cause: str, x: float, y: float, down: bool) -> Safe:
    """Return the mark at the start of an all-gather: its shape tells the cause without colour."""
    if cause == "default":
        return tag("circle", cls=f"head {cause}", cx=number(x), cy=number(y), r=2.6)
    if cause == "own":
        data = f"M{number(x - 2)},{number(y - 2.5)} h4 v5 h-4 Z"
    elif cause == "call":
        data = f"M{number(x)},{number(y - 4)} l4,4 l-4,4 l-4,-4 Z"
    else:
        turn = 1 if down else -1
        data = f"M{number(x - 3.5)},{number(y - 4 * turn)} h7 l-3.5,{7 * turn} Z"
    return tag("path", cls=f"head {cause}", d=data)


def cross(x: float, y: float, cls: str) -> Safe:
    """Return the mark of an edge that fired for nothing."""
    data = f"M{number(x - 2.5)},{number(y - 2.5)} l5,5 m-5,0 l5,-5"
    return tag("path", cls="halo", d=data) + tag("path", cls=f"cross {cls}", d=data)


HATCH = Safe(
    '<defs><pattern id="hatch" width="4" height="4" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="2" height="4" class="hatch"/></pattern></defs>'
)
