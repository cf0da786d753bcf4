"""Foreign text, rendered by GitHub's own Markdown parser."""

import re

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options

from action.report.markdown import block, cell, clean, code, html_line, sentence

HOSTILE = [
    "<script>alert(1)</script>",
    "<!-- fsdp2-prefetch -->",
    "</details></details>",
    "**bold** _it_ ~~gone~~ [link](https://evil.example) ![x](https://evil.example/x.png)",
    "| a | b |\n| --- | --- |\n| c | d |",
    "```\nfence\n```\n# heading",
    "# heading\n- list\n1. one\n> quote",
    "https://evil.example/ and www.evil.example",
    "a\n\n---\nb",
    "`open span",
    "&lt;b&gt; &amp;",
    "![[`](x)`",
    "$x$ \\(y\\)",
]


def html(text: str) -> str:
    # Raw HTML is let through, as GitHub does for the tags it allows.
    return cmarkgfm.github_flavored_markdown_to_html(text, options=Options.CMARK_OPT_UNSAFE)


def tags(text: str) -> set[str]:
    return set(re.findall(r"<([a-z0-9]+)", html(text)))


@pytest.mark.parametrize("text", HOSTILE)
def test_a_sentence_is_one_paragraph_of_plain_text_and_code(text):
    assert tags(sentence(text)) <= {"p", "code"}


@pytest.mark.parametrize("text", HOSTILE)
def test_code_is_one_code_span(text):
    assert tags(code(text)) == {"p", "code"}


@pytest.mark.parametrize("text", HOSTILE)
def test_a_block_cannot_be_closed_from_within(text):
    rendered = html(block(text) + "\n\nafter")
    assert set(re.findall(r"<([a-z0-9]+)", rendered)) == {"pre", "code", "p"}
    assert rendered.count("<pre") == 1
    assert rendered.rstrip().endswith("<p>after</p>")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_cell_stays_one_cell(text):
    rendered = html(f"| a | b |\n| --- | --- |\n| {cell(text)} | {code(text, in_table=True)} |\n")
    assert rendered.count("<td") == 2
    assert rendered.count("<tr") == 2


@pytest.mark.parametrize("text", HOSTILE)
def test_an_html_line_is_text(text):
    rendered = html(f"<details><summary>{html_line(text)}</summary>\n\nx\n\n</details>")
    assert set(re.findall(r"<([a-z0-9]+)", rendered)) == {"details", "summary", "p"}


@pytest.mark.parametrize("text", ["@octocat", "#12", "GH-12", "owner/repo#12", "cc @org/team"])
def test_nobody_is_mentioned_and_nothing_is_referenced(text):
    for made in (sentence(text), html_line(text)):
        assert not re.search(r"@\w|#\d|GH-\d", made)


def test_backticks_in_our_sentences_are_code_spans():
    assert sentence("`Toy` at `a_b.py`: fine") == "`Toy` at `a_b.py`: fine"


def test_a_backtick_in_code_gets_a_longer_fence():
    assert code("a`b") == "``a`b``"
    assert code("`a") == "`` `a ``"


def test_pipes_survive_in_cells():
    rendered = html(f"| a |\n| --- |\n| {cell('x | `y | z`')} |\n")
    assert "<td>x | <code>y | z</code></td>" in rendered


def test_clean_drops_what_hides_or_moves_text():
    assert clean("\x1b[31mred\x1b[0m \u202eevil\u202c a\x00b\r\nc\x1b]0;title\x07") == (
        "red evil ab\nc"
    )


def test_a_marker_in_a_block_is_broken():
    assert "<!--" not in block("<!-- fsdp2-prefetch -->")
