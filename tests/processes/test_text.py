"""Hostile text made readable."""

import pytest

from action.processes.text import first_line, last_lines, plain, quoted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07", "red link"),
        ("10%\r50%\r100%\r\nnext", "100%\nnext"),
        ("a\x00b\x08c\x7fd\te", "abcd\te"),
        ("right\u202eto left\u200b", "rightto left"),
        ("the s3cret-value is out", "the *** is out"),
    ],
)
def test_plain(text, expected):
    assert plain(text, secrets=("s3cret-value",)) == expected


def test_lines_are_cut():
    assert first_line("\n \n  one   two \nthree") == "one two"
    assert first_line("x" * 600) == "x" * 499 + "…"
    assert first_line("") == ""
    assert last_lines("\n".join(map(str, range(100))) + "\n\n") == "\n".join(
        map(str, range(60, 100))
    )
    assert last_lines("y" * 900) == "y" * 499 + "…"


def test_backticks_cannot_end_a_quotation():
    assert quoted("a`b`") == "`a'b'`"
