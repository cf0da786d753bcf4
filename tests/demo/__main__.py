"""`make demo`: three changes to a scratch clone of this repository, each to its comment.

For every `diffs/*.diff` the change is committed on a branch of its own, `fsdp2-prefetch run`
compares it with the commit it started from, and the comment is written as Markdown and as a page.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.demo.page import comment_page

ROOT = Path(__file__).resolve().parents[2]
DIFFS = Path(__file__).parent / "diffs"


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.demo", description=__doc__)
    arguments.add_argument("--out", type=Path, default=Path("out/demo"))
    out = arguments.parse_args().out.resolve()
    with tempfile.TemporaryDirectory(prefix="fsdp2-prefetch-demo-") as folder:
        clone = Path(folder) / "clone"
        git(ROOT, "clone", "--quiet", "--shared", "--", str(ROOT), str(clone))
        git(clone, "config", "user.name", "demo")
        git(clone, "config", "user.email", "demo@example.invalid")
        base = git(clone, "rev-parse", "HEAD").strip()
        for diff in sorted(DIFFS.glob("*.diff")):
            show(clone, base, diff, out / diff.stem)
    print(f"\nOpen {out}/*/comment.html")
    return 0


def show(clone: Path, base: str, diff: Path, out: Path) -> None:
    title = title_of(diff)
    print(f"\n{title}")
    git(clone, "checkout", "--quiet", "-B", diff.stem, base)
    git(clone, "apply", "--index", str(diff))
    git(clone, "commit", "--quiet", "--message", title)
    begin = time.monotonic()
    command = [sys.executable, "-m", "action", "run", "--base", base, "--out", str(out)]
    result = subprocess.run(
        [*command, "--repo", str(clone), "--python", sys.executable],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    comment = out / "comment.md"
    if result.returncode not in (0, 1) or not comment.exists():
        raise SystemExit(f"the run ended with {result.returncode}:\n{result.stderr}")
    text = comment.read_text(encoding="utf-8")
    (out / "comment.html").write_text(comment_page(text, title), encoding="utf-8")
    print(f"  {text.splitlines()[0].removeprefix('## ')}")
    print(f"  exit code {result.returncode}, {time.monotonic() - begin:.0f} s, {comment}")


def title_of(diff: Path) -> str:
    """The first line of the file; git ignores what stands before the diff itself."""
    return diff.read_text(encoding="utf-8").splitlines()[0]


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=folder, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


if __name__ == "__main__":
    sys.exit(main())
