"""Test output as text that is safe to read: no escape sequences, no control characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

TAIL_LINES = 40
MESSAGE_LENGTH = 500
_LINE_LENGTH = 500
# Cleaning goes character by character; of megabytes only an end is ever shown.
_CLEANED = 128 * 2**10
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def plain(text: str, secrets: Iterable[str] = ()) -> str:
    """Return `text` without ANSI sequences, control and format characters, and `secrets`.

    Line feeds and tabs stay; of a line that a progress bar wrote over, the last state stays. The
    text may still hold Markdown, HTML or workflow commands: whoever prints it escapes it.
    """
    text = _without(text, secrets)
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in _ANSI.sub("", text).split("\n"))
    return "\n".join(
        "".join(
            character
            for character in line
            if character == "\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs")
        )
        for line in lines
    )


def first_line(text: str, secrets: Iterable[str] = (), length: int = MESSAGE_LENGTH) -> str:
    """Return the first line of `text` that says something, cut to `length` characters."""
    start = _without(text, secrets)[:_CLEANED]
    lines = (" ".join(line.split()) for line in plain(start).split("\n"))
    return shortened(next((line for line in lines if line), ""), length)


def last_lines(text: str, secrets: Iterable[str] = (), count: int = TAIL_LINES) -> str:
    """Return the last `count` lines of `text`, each cut to 500 characters."""
    end = _without(text, secrets)[-_CLEANED:]
    lines = plain(end).rstrip().split("\n")[-count:]
    return "\n".join(shortened(line.rstrip(), _LINE_LENGTH) for line in lines)


def _without(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def shortened(text: str, length: int) -> str:
    """Return `text`, ending in an ellipsis where it had to be cut to `length` characters."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def quoted(name: str) -> str:
    """Return a name in backticks; those within it would end the quotation early."""
    return f"`{name.replace('`', chr(39))}`"
