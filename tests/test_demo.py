"""The demo's diffs still fit the recipes, and its page is the comment."""

import subprocess
from pathlib import Path

import pytest

from tests.demo.page import comment_page

ROOT = Path(__file__).resolve().parents[1]
DIFFS = sorted((ROOT / "tests" / "demo" / "diffs").glob("*.diff"))


def test_there_are_three():
    assert [diff.stem for diff in DIFFS] == ["hazard", "healthy", "readme"]


@pytest.mark.parametrize("diff", DIFFS, ids=lambda diff: diff.stem)
def test_it_applies(diff):
    checked = subprocess.run(
        ["git", "apply", "--check", str(diff)], cwd=ROOT, capture_output=True, text=True
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_page_shows_the_comment():
    page = comment_page("## Headline\n\n| a |\n| --- |\n| `b` |\n", "A change")
    assert "<title>A change</title>" in page
    assert "<h2>Headline</h2>" in page
    assert "<td><code>b</code></td>" in page
