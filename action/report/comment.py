"""The comment that a maintainer reads, and the same text as a step summary.

Order: one headline with counts; what fails; remaining gaps; one table row per recipe; details per
recipe; what the change did not affect; a foot that says what was compared and on what it ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment as Jinja
from jinja2 import PackageLoader, StrictUndefined

from action.records import (
    CheckResult,
    Gap,
    Location,
    RecipeReport,
    Report,
    Verdict,
)
from action.report import markdown, observed
from action.report.gaps import has_failure, stage_name
from action.report.markdown import Markdown

COMMENT_LIMIT = 65_536
"""Characters that GitHub accepts in a comment's body."""

SUMMARY_LIMIT = 1_048_576 - 1
"""Bytes that GitHub accepts in a step summary; one more and all of it is dropped."""

_DOTS: dict[Verdict, str] = {"pass": "🟢", "fail": "🔴", "unknown": "🟡", "not applicable": "➖"}
_OUTCOMES = {
    "passed": "✅ passed",
    "failed": "❌ failed",
    "crashed": "❌ crashed",
    "timed out": "❌ timed out",
    "nothing collected": "⚠️ nothing collected",
    "all skipped": "⚠️ all skipped",
    "missing": "⚠️ missing",
    "could not start": "⚠️ could not start",
    "not run": "➖ not run",
}


@dataclass(frozen=True)
class Cut:
    """What a shorter comment leaves out; None stands for no bound."""

    left_out: str
    excerpt_lines: int | None = None
    evidence_of_passes: bool = True
    graphs: bool = True
    details: str = "all"
    listed: int | None = None
    rows: int | None = None


_LADDER = (
    Cut("", excerpt_lines=25),
    Cut("long test output", excerpt_lines=10),
    Cut(
        "test output, graphs and the evidence of passing items",
        excerpt_lines=0,
        evidence_of_passes=False,
        graphs=False,
        listed=100,
    ),
    Cut(
        "the details of recipes without a failure, graphs and test output",
        excerpt_lines=0,
        evidence_of_passes=False,
        graphs=False,
        details="failing",
        listed=60,
    ),
    Cut("the details of every recipe", details="none", listed=40),
    Cut("the details of every recipe, and table rows", details="none", listed=20, rows=100),
    Cut("nearly everything", details="none", listed=5, rows=10),
)


def render_comment(report: Report, limit: int = COMMENT_LIMIT) -> str:
    """Return the comment as Markdown of at most `limit` characters, saying what was cut."""
    return _first_that_fits(report, lambda text: len(text) <= limit)


def render_summary(report: Report, limit: int = SUMMARY_LIMIT) -> str:
    """Return the same text for a step summary of at most `limit` bytes in UTF-8."""
    return _first_that_fits(report, lambda text: len(text.encode()) <= limit)


def headline(report: Report) -> str:
    """Return the one line that stands for the whole report, as plain text."""
    failing = sum(has_failure(recipe) for recipe in report.recipes)
    gaps = len(_grouped_gaps(report))
    remain = "no gap remains" if not gaps else f"{_count(gaps, 'gap')} remain{'s' * (gaps == 1)}"
    total = len(report.recipes)
    if failing:
        verb = "fails" if failing == 1 else "fail"
        return f"❌ FSDP2 prefetching: {failing} of {_count(total, 'recipe')} {verb}, {remain}"
    if report.conclusion == "infrastructure":
        return f"⚠️ FSDP2 prefetching: the run could not be completed, {remain}"
    if report.selection.recipe_count == 0:
        return "⚠️ FSDP2 prefetching: there is no recipe here, so nothing was run"
    if not report.selection.recipes:
        return "✅ FSDP2 prefetching: this change affects no recipe, so nothing was run"
    if gaps:
        return f"⚠️ FSDP2 prefetching: no failure in {_count(total, 'recipe')}, {remain}"
    return f"✅ FSDP2 prefetching: {_count(total, 'recipe')} proved, {remain}"


def _first_that_fits(report: Report, fits: Callable[[str], bool]) -> str:
    text = ""
    for cut in _LADDER:
        text = _environment().get_template("comment.md.j2").render(_context(report, cut))
        if fits(text):
            return text
    # Ten rows of names that are each thousands of characters long: keep what counts.
    head = Markdown(f"## {headline(report)}\n\n")
    return f"{head}The report does not fit here; all of it is in `report.json`.\n"


@cache
def _environment() -> Jinja:
    jinja = Jinja(
        loader=PackageLoader("action.report", "."),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # The comment is Markdown, which HTML escaping would spoil: whatever a template prints
        # that is not `Markdown` already is escaped as a sentence.
        autoescape=False,
        finalize=_escaped,
    )
    jinja.filters |= {
        "code": markdown.code,
        "cell": markdown.cell,
        "block": markdown.block,
        "html_line": markdown.html_line,
    }
    return jinja


def _escaped(value: object) -> object:
    if isinstance(value, Markdown | int):
        return value
    return markdown.sentence(str(value))


def _context(report: Report, cut: Cut) -> dict[str, object]:
    # What needs a reader first; otherwise the order of the selection.
    recipes = sorted(report.recipes, key=lambda recipe: not has_failure(recipe))
    detailed = [
        recipe
        for recipe in recipes
        if cut.details == "all" or (cut.details == "failing" and has_failure(recipe))
    ]
    return {
        "report": report,
        "cut": cut,
        "headline": Markdown(headline(report)),
        "failures": list(_failures(report)),
        "gaps": _grouped_gaps(report),
        "rows": recipes[: cut.rows],
        "detailed": detailed,
        "dots": _dots,
        "dot": lambda check: Markdown(_DOTS[check.verdict]),
        "outcome": _outcome,
        "stage_name": stage_name,
        "excerpt": lambda text: _excerpt(text, cut.excerpt_lines),
        "at": lambda location: _at(report, location),
        "shows_evidence": lambda c: cut.evidence_of_passes or c.verdict in ("fail", "unknown"),
        "status": _status,
        "runs": observed.edge_runs,
        "how": observed.how,
        "edges": observed.listed_edges,
        "changed": observed.changed,
        "versus": observed.versus,
        "graph": lambda seen: observed.graph(seen) if cut.graphs else Markdown(""),
        "verdict": _verdict,
        "most": lambda number: number if cut.listed is None else min(number, cut.listed),
        "more": _more,
        "foot": _foot(report),
    }


def _failures(report: Report) -> Iterator[tuple[str, str, str]]:
    for recipe in report.recipes:
        for check in recipe.checks:
            if check.verdict == "fail":
                yield recipe.name, check.id, check.summary
        for stage in recipe.stages:
            if stage.outcome in ("failed", "crashed", "timed out"):
                yield recipe.name, stage_name(stage.id).lower(), stage.summary


def _grouped_gaps(report: Report) -> list[tuple[Gap, tuple[str, ...]]]:
    """Return the run's own gaps, then those of the recipes, merged where recipes share one."""
    recipes: dict[tuple[str, str], tuple[Gap, list[str]]] = {
        (gap.summary, gap.closes): (gap, []) for gap in report.gaps
    }
    for recipe in report.recipes:
        for gap in recipe.gaps:
            recipes.setdefault((gap.summary, gap.closes), (gap, []))[1].append(recipe.name)
    return [(gap, tuple(names)) for gap, names in recipes.values()]


def _dots(checks: tuple[CheckResult, ...]) -> Markdown:
    return Markdown("".join(_DOTS[check.verdict] for check in checks))


def _outcome(recipe: RecipeReport, stage_id: str) -> Markdown:
    stage = next((stage for stage in recipe.stages if stage.id == stage_id), None)
    return Markdown("➖ not run" if stage is None else _OUTCOMES[stage.outcome])


def _verdict(recipe: RecipeReport, item: str) -> str:
    return next((check.verdict for check in recipe.checks if check.id == item), "unknown")


def _status(recipe: RecipeReport) -> Markdown:
    failed: list[str] = [check.id for check in recipe.checks if check.verdict == "fail"]
    failed += [
        stage_name(stage.id).lower()
        for stage in recipe.stages
        if stage.outcome in ("failed", "crashed", "timed out")
    ]
    start = f"fails at {', '.join(failed)}" if failed else "no failure"
    gaps = len(recipe.gaps)
    return Markdown(f"{start}, {_count(gaps, 'gap')}" if gaps else f"{start}, no gap")


def _more(items: Sequence[object], shown: int | None) -> Markdown:
    """Return the list entry that says how many are not shown; nothing when all are."""
    left = 0 if shown is None else len(items) - shown
    return Markdown(f"- … and {left} more, in `report.json`\n" if left > 0 else "")


def _excerpt(text: str, lines: int | None) -> Markdown:
    if not text.strip() or lines == 0:
        return Markdown("")
    kept = text.strip("\n").splitlines()
    if lines is not None and len(kept) > lines:
        kept = ["…", *kept[-lines:]]
    return markdown.block("\n".join(kept))


def _at(report: Report, location: Location | None) -> Markdown:
    if location is None:
        return Markdown("")
    url = None
    if report.repository_url is not None:
        line = "" if location.line is None else f"#L{location.line}"
        url = f"{report.repository_url}/blob/{report.selection.head}/{location.path}{line}"
    return markdown.link(markdown.code(str(location)), url)


def _foot(report: Report) -> Markdown:
    selection = report.selection
    parts = [f"head {markdown.code(selection.head[:12])}"]
    if selection.base is not None:
        parts.append(f"base {markdown.code(selection.base[:12])}")
    if selection.merge_base is not None and selection.merge_base != selection.base:
        parts.append(f"merge base {markdown.code(selection.merge_base[:12])}")
    environments = {recipe.environment for recipe in report.recipes}
    for version in sorted({e.torch for e in environments if e.torch}):
        parts.append(f"torch {markdown.code(version)}")
    devices = {e.cuda_devices for e in environments if e.cuda_devices is not None}
    for names in sorted(devices):
        parts.append(f"{_count(len(names), 'CUDA device')}{_named(names)}")
    parts.append(_duration(report.duration))
    if report.run_url is not None:
        parts.append(markdown.link(Markdown("run"), report.run_url))
    return Markdown(" · ".join(parts))


def _named(names: tuple[str, ...]) -> str:
    return f" ({markdown.sentence(', '.join(sorted(set(names))))})" if names else ""


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
