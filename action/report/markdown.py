"""Foreign text made harmless for a GitHub comment.

Class names, paths, test output and messages come from a pull request and are hostile until proven
otherwise: they may hold Markdown, HTML, mentions, links, control characters, or text that reads
like our own. A template prints nothing but `Markdown`, which only the functions below make;
whatever else it is given is escaped as a sentence (see `environment` in `comment.py`).
"""

from __future__ import annotations

import re
import unicodedata
from html import escape

# Zero width, no line break: splits what GitHub would turn into a mention, a reference or a link.
_JOINER = "\u2060"
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_SPECIAL = re.compile(r"([\\`*_\[\]~<>&$])")
# Only at the start of a block: headings, lists, rules.
_BLOCK_START = re.compile(r"^(#|\+|-|=|\d{1,9}(?=[.)]))")
_CODE_SPAN = re.compile(r"`([^`\n]+)`")
_TRIGGERS = re.compile(r"(@)(?=\w)|(#)(?=\d)|(\bGH-)(?=\d)|(:)(?=//)|(\bwww)(?=\.)", re.IGNORECASE)
_KEPT_CONTROLS = "\n\t"


class Markdown(str):
    """Text that is safe to put into a comment as it stands."""

    __slots__ = ()


def clean(text: str) -> str:
    """Drop ANSI sequences, control characters, and the invisible ones that reorder text."""
    text = _ANSI.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return "".join(
        character
        for character in text
        if character in _KEPT_CONTROLS or unicodedata.category(character) not in ("Cc", "Cf", "Cs")
    )


def code(text: str, *, in_table: bool = False) -> Markdown:
    """Return `text` as a code span, with a fence longer than any run of backticks within."""
    text = " ".join(clean(text).split()) or " "
    fence = "`" * (_longest_run(text) + 1)
    padding = " " if text.startswith("`") or text.endswith("`") else ""
    if in_table:
        # The one escape that a table cell honours inside code.
        text = text.replace("|", "\\|")
    return Markdown(f"{fence}{padding}{text}{padding}{fence}")


def sentence(text: str, *, in_table: bool = False) -> Markdown:
    """Return one line of prose; what stands in single backticks stays a code span."""
    line = " ".join(clean(text).split())
    pieces: list[str] = []
    end = 0
    for span in _CODE_SPAN.finditer(line):
        pieces += [_plain(line[end : span.start()]), code(span[1], in_table=in_table)]
        end = span.end()
    return Markdown(_BLOCK_START.sub(_escape_start, "".join([*pieces, _plain(line[end:])])))


def cell(text: str) -> Markdown:
    """Return `sentence(text)` for a table cell: no newline, no pipe that would end the cell."""
    return sentence(text, in_table=True)


def block(text: str) -> Markdown:
    """Return `text` as a fenced block that it cannot close from within."""
    text = clean(text).strip("\n").replace("<!--", f"<!{_JOINER}--")
    fence = "`" * max(3, _longest_run(text) + 1)
    return Markdown(f"{fence}text\n{text}\n{fence}")


def html_line(text: str) -> Markdown:
    """Return one line of text for a place that is HTML, such as a `<summary>`."""
    line = escape(" ".join(clean(text).split()))
    return Markdown(_split_triggers(line))


def link(label: Markdown, url: str | None) -> Markdown:
    """Return `label` as a link, or alone when there is no address of ours to point to."""
    if url is None or not url.startswith(("https://", "http://")):
        return label
    safe = re.sub(r"[^A-Za-z0-9._~:/?#@!$&'*+,;=%-]", lambda found: _percent(found[0]), url)
    return Markdown(f"[{label}]({safe})")


def _plain(text: str) -> str:
    return _split_triggers(_SPECIAL.sub(r"\\\1", text)).replace("|", "&#124;")


def _escape_start(found: re.Match[str]) -> str:
    return f"{found[0]}{_JOINER}" if found[0].isdigit() else f"\\{found[0]}"


def _split_triggers(text: str) -> str:
    return _TRIGGERS.sub(lambda found: found[0] + _JOINER, text)


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())
