"""The report as JUnit XML, for tools that collect test results."""

from __future__ import annotations

from junitparser import Error, JUnitXml, Skipped, TestCase, TestSuite
from junitparser import Failure as JUnitFailure

from action.records import CheckResult, Report, StageResult
from action.report.markdown import clean


def junit_xml(report: Report) -> bytes:
    """Return one suite per recipe, with a case for every item and every stage.

    `unknown` and `not applicable` items, and stages that ran no test, are skipped cases that say
    why: a tool that counts passes never counts them.
    """
    document = JUnitXml("fsdp2-prefetch")
    for recipe in report.recipes:
        suite = TestSuite(clean(recipe.name))
        for check in recipe.checks:
            suite.add_testcase(_check_case(recipe.name, check))
        for stage in recipe.stages:
            suite.add_testcase(_stage_case(recipe.name, stage))
        document.add_testsuite(suite)
    document.update_statistics()  # type: ignore[no-untyped-call]
    return bytes(document.tostring())  # type: ignore[no-untyped-call]


def _check_case(recipe: str, check: CheckResult) -> TestCase:
    case = TestCase(check.id, classname=f"{clean(recipe)}.soft", time=0.0)
    message = clean(check.summary)
    match check.verdict:
        case "fail":
            case.result = [JUnitFailure(message)]
        case "unknown" | "not applicable":
            case.result = [Skipped(f"{check.verdict}: {message}")]
        case "pass":
            pass
    return case


def _stage_case(recipe: str, stage: StageResult) -> TestCase:
    case = TestCase(stage.id, classname=f"{clean(recipe)}.hard", time=stage.duration)
    message = clean(stage.summary)
    match stage.outcome:
        case "failed":
            case.result = [JUnitFailure(message)]
        case "crashed" | "timed out" | "could not start":
            case.result = [Error(message)]
        case "missing" | "nothing collected" | "all skipped" | "not run":
            case.result = [Skipped(f"{stage.outcome}: {message}")]
        case "passed":
            pass
    return case
