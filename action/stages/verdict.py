"""From what is left of a pytest process to the result of a stage.

Three witnesses must agree before anything counts as passed: the exit code, the JUnit XML and what
the plugin wrote down meanwhile. Any disagreement is `crashed`, with a sentence that says which.

The tests run inside the process that makes all three, so that a test written to deceive can forge
each of them. What this catches is every accident, and the cheap tricks: `os._exit(0)`, a
report written by hand, `pytest.exit` with code 0, tests deselected by a setting. That tests assert
what they claim is for review, and for mutations, to prove.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from action.processes.command import Ended
from action.processes.text import first_line, last_lines, quoted, shortened
from action.records import Failure, Outcome, StageId, StageResult
from action.stages.junit import Case, CaseFailure, UnusableXml, case_key
from action.stages.sidecar import Course

_FAILURES_SHOWN = 10
_EXCERPT_LINES = 40
_SUMMARY_MESSAGE = 200
_NAME_LENGTH = 150
_REASONS_SHOWN = 10
_NO_TORCH = re.compile(r"ModuleNotFoundError: No module named 'torch'")
_NO_PYTEST = re.compile(r"No module named '?pytest'?$", re.MULTILINE)
_CONFTEST = re.compile(r"^ImportError while loading conftest '(.+)'\.$", re.MULTILINE)
_EXCEPTION = re.compile(r"^E   (?=\S)(.*)$", re.MULTILINE)
_INTERNAL = re.compile(r"^INTERNALERROR> (?=\S)(.*)$", re.MULTILINE)
_ERROR = re.compile(r"^(?:ERROR: |.*: error: )(.+)$", re.MULTILINE)
# faulthandler prints the innermost frame first, so that thirty of pytest's own would push what
# matters out of the tail.
_PYTEST_FRAME = re.compile(
    r'  File "(?:[^"]{,500}/(?:_pytest|pytest|pluggy)/[\w/]{,100}\.py|<frozen runpy>)", line \d+ in'
)


@dataclass(frozen=True)
class Remains:
    """What a pytest process left: how it ended, its report, its course, and the end of its log.

    `target` is the path that pytest was given, `limit` the stage's limit in seconds, `secrets`
    the values to black out of every text.
    """

    stage: StageId
    python: str
    target: str
    limit: float
    ended: Ended
    report: tuple[Case, ...] | UnusableXml
    course: Course
    log_end: str
    secrets: tuple[str, ...] = ()


def judge(remains: Remains) -> StageResult:
    """Return the result of a stage from what its pytest process left behind."""
    ended, course = remains.ended, remains.course
    trouble = _never_started(remains) or _died(remains) or _disagreement(remains)
    cases: tuple[Case, ...] = ()
    deselected = 0
    if trouble is not None:
        # Counts of a report that is not to be trusted are not shown either.
        outcome, summary = trouble
    else:
        cases = () if isinstance(remains.report, UnusableXml) else remains.report
        deselected = course.deselected
        outcome, summary = _tests_said(remains, cases)
    passed = sum(case.outcome == "passed" for case in cases)
    failed = sum(case.outcome == "failed" for case in cases)
    return StageResult(
        id=remains.stage,
        outcome=outcome,
        summary=_clean(remains, summary),
        exit_code=ended.exit_code,
        signal=ended.signal,
        duration=round(ended.duration, 3),
        tests=len(cases) + deselected,
        passed=passed,
        failed=failed,
        skipped=len(cases) - passed - failed + deselected,
        skip_reasons=_skip_reasons(remains, cases) if trouble is None else (),
        failures=_failures(remains) if outcome == "failed" else (),
        last_test=_clean(remains, course.running) if course.running is not None else None,
        tail=_tail(remains),
    )


def _never_started(remains: Remains) -> tuple[Outcome, str] | None:
    """A Python without pytest or torch is the machine's fault; a verdict on it would be false."""
    ended, log = remains.ended, remains.log_end
    name = quoted(remains.python)
    no_torch = f"{name} has no torch"
    if ended.timed_out or ended.signal is not None:
        return None
    if not remains.course.loaded and ended.exit_code != 0:
        if _NO_PYTEST.search(log):
            return "could not start", f"{name} has no pytest"
        last = first_line(last_lines(log, count=1)) or "it said nothing"
        return "could not start", (
            f"{name} exited with {ended.exit_code} before pytest started: {last}"
        )
    if not remains.course.session and _CONFTEST.search(log) and _NO_TORCH.search(log):
        return "could not start", no_torch
    failures = _case_failures(remains)
    if failures and all(
        failure.phase == "collection" and _NO_TORCH.match(failure.message)
        for _, failure in failures
    ):
        return "could not start", no_torch
    return None


def _died(remains: Remains) -> tuple[Outcome, str] | None:
    """A process that did not come to pytest's own end has no result, whatever its exit code."""
    ended, course, log = remains.ended, remains.course, remains.log_end
    where = _where(course)
    if ended.timed_out:
        return "timed out", f"stopped at its limit of {remains.limit:g} s {where}"
    if ended.signal is not None:
        hint = " (out of memory?)" if ended.signal == "SIGKILL" else ""
        return "crashed", (
            f"pytest was killed by {ended.signal} after {ended.duration:.1f} s {where}{hint}"
        )
    if not course.loaded:
        return "crashed", "the process exited with 0, but pytest never started in it"
    if not course.session and ended.exit_code in (3, 4):
        return "crashed", _start_up_error(remains)
    if not course.finished:
        return "crashed", (
            f"the process exited with {ended.exit_code} {where}, without pytest coming to its end"
        )
    if ended.exit_code != course.status:
        return "crashed", (
            f"pytest finished with {course.status}, but its process exited with {ended.exit_code}"
        )
    if ended.exit_code == 3:
        lines = _INTERNAL.findall(log)
        why = first_line(lines[-1]) if lines else "see the log"
        return "crashed", f"pytest stopped on an internal error {where}: {why}"
    return None


def _start_up_error(remains: Remains) -> str:
    log = remains.log_end
    conftest = _CONFTEST.search(log)
    if conftest:
        lines = _EXCEPTION.findall(log)
        why = first_line(lines[-1], length=_SUMMARY_MESSAGE) if lines else "see the log"
        return f"pytest could not load {quoted(_in_recipe(remains, conftest[1]))}: {why}"
    if internal := _INTERNAL.findall(log):
        return f"pytest stopped on an internal error while it started: {first_line(internal[-1])}"
    lines = _ERROR.findall(log)
    why = first_line(lines[-1]) if lines else first_line(last_lines(log, count=1))
    return f"pytest refused its options, given here or in the repository's settings: {why}"


def _in_recipe(remains: Remains, path: str) -> str:
    """Return an absolute path from the log as one within the checkout, where it is one."""
    root = remains.target.partition("/")[0]
    _, found, rest = path.partition(f"/{root}/")
    return f"{root}/{rest}" if found else path


def _disagreement(remains: Remains) -> tuple[Outcome, str] | None:
    """Compare exit code, XML and plugin; return what is wrong with them, if anything is."""
    code, course, report = remains.ended.exit_code, remains.course, remains.report
    if isinstance(report, UnusableXml):
        return "crashed", f"pytest exited with {code}, but its JUnit XML {report.why}"
    seen = {case_key(t) for t in course.reported | course.uncollected | course.skipped_files}
    if len(report) != len(seen):
        return "crashed", f"{_tests(len(seen))} ran, but the JUnit XML has {len(report)}"
    failed = {case.key for case in report if case.outcome == "failed"}
    seen_failed = {case_key(t) for t in course.failed | course.uncollected}
    if len(failed) != len(seen_failed):
        return "crashed", (
            f"{_tests(len(seen_failed))} failed, but in the JUnit XML {len(failed)} did"
        )
    if code in (0, 5) and failed:
        return "crashed", f"pytest exited with {code}, but {_tests(len(failed))} failed"
    if code == 1 and not failed:
        return "crashed", "pytest exited with 1, but no test failed"
    if code == 5 and any(case.outcome != "skipped" for case in report):
        return "crashed", "pytest exited with 5 (no tests), but its JUnit XML has results"
    if code == 2 and not failed:
        return "crashed", f"pytest was interrupted {_where(course)}"
    if code not in (0, 1, 2, 5):
        return "crashed", f"pytest exited with {code} {_where(course)}"
    unended = course.reported - course.ended
    cut_short = course.collected is not None and len(course.ended) < course.collected
    if not failed and (unended or cut_short):
        where = f" {_where(course)}" if course.running is not None else ""
        return "crashed", f"pytest exited with {code}{where}, before all its tests had run"
    return None


def _tests_said(remains: Remains, cases: Sequence[Case]) -> tuple[Outcome, str]:
    course, seconds = remains.course, f"{remains.ended.duration:.1f} s"
    failed = [case for case in cases if case.outcome == "failed"]
    if failed:
        sentence = _failure_sentence(remains)
        if len(cases) > 1:
            sentence += f" ({len(failed)} of {_tests(len(cases))} failed in {seconds})"
        return "failed", sentence
    passed = sum(case.outcome == "passed" for case in cases)
    xfailed = sum(case.outcome == "xfailed" for case in cases)
    skipped = len(cases) - passed - xfailed + course.deselected
    reasons = "; ".join(_skip_reasons(remains, cases))
    if not passed and xfailed:
        return "all skipped", f"no test passed: {reasons}"
    if not passed and skipped:
        if not course.reported and not course.deselected:
            return "all skipped", f"{quoted(remains.target)} skipped itself as a whole: {reasons}"
        what = "the only test was" if skipped == 1 else f"all {skipped} tests were"
        return "all skipped", f"{what} skipped: {reasons}"
    if not passed:
        return "nothing collected", f"pytest collected no test in {quoted(remains.target)}"
    sentence = f"{_tests(passed)} passed in {seconds}"
    if course.xpassed:
        sentence += f" ({len(course.xpassed)} of them though marked as xfail)"
    if skipped:
        sentence += f", {skipped} skipped"
    if xfailed:
        sentence += f", {xfailed} failed as marked (xfail)"
    return "passed", sentence


def _failure_sentence(remains: Remains) -> str:
    test, failure = _case_failures(remains)[0]
    verb = {
        "call": "failed",
        "set-up": "failed in its set-up",
        "teardown": "failed in its teardown",
        "collection": "could not be collected",
    }[failure.phase]
    message = first_line(failure.message, remains.secrets, _SUMMARY_MESSAGE) or "no message"
    return f"{quoted(_short(test))} {verb}: {message}"


def _failures(remains: Remains) -> tuple[Failure, ...]:
    return tuple(
        Failure(
            test=_clean(remains, test),
            message=first_line(failure.message, remains.secrets),
            excerpt=last_lines(failure.traceback, remains.secrets, _EXCERPT_LINES),
        )
        for test, failure in _case_failures(remains)[:_FAILURES_SHOWN]
    )


def _case_failures(remains: Remains) -> list[tuple[str, CaseFailure]]:
    """Return every failure with the node id of its test, in the order of the report."""
    if isinstance(remains.report, UnusableXml):
        return []
    course = remains.course
    node_ids = {case_key(t): t for t in sorted(course.reported | course.uncollected)}
    return [
        (node_ids.get(case.key, "::".join(filter(None, case.key))), failure)
        for case in remains.report
        for failure in case.failures
    ]


def _skip_reasons(remains: Remains, cases: Iterable[Case]) -> tuple[str, ...]:
    counts: dict[str, int] = {}
    for case in cases:
        if case.outcome in ("skipped", "xfailed"):
            reason = first_line(case.reason, remains.secrets) or "no reason given"
            if case.outcome == "xfailed":
                given = f": {reason}" if case.reason else ""
                reason = f"it failed, as its xfail mark expects{given}"
            counts[reason] = counts.get(reason, 0) + 1
    if remains.course.deselected:
        counts["deselected by the repository's pytest settings"] = remains.course.deselected
    reasons = [f"{why} ({number} tests)" if number > 1 else why for why, number in counts.items()]
    if len(reasons) > _REASONS_SHOWN:
        more = len(reasons) - _REASONS_SHOWN
        reasons[_REASONS_SHOWN:] = [f"{more} more reasons"]
    return tuple(reasons)


def _tail(remains: Remains) -> str:
    lines = remains.log_end.split("\n")
    kept = "\n".join(line for line in lines if not _PYTEST_FRAME.match(line))
    return last_lines(kept, remains.secrets)


def _where(course: Course) -> str:
    """Say where in its course the session stands."""
    if course.running is not None:
        return f"in {quoted(_short(course.running))}"
    if course.finished:
        return "with its tests already done"
    if course.collected is not None:
        return "between tests" if course.reported else "before its first test"
    return "while it collected the tests" if course.session else "while it started"


def _short(node_id: str) -> str:
    """Return a node id without its folders: `test_smoke.py::test_trains`."""
    path, separator, rest = node_id.partition("::")
    return shortened(path.rpartition("/")[2] + separator + rest, _NAME_LENGTH)


def _tests(number: int) -> str:
    return "1 test" if number == 1 else f"{number} tests"


def _clean(remains: Remains, text: str) -> str:
    return first_line(shortened(text, 2_000), remains.secrets, 1_000)
