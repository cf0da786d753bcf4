"""pytest's JUnit XML, read as a file that the tests may have written themselves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.etree.ElementTree import ParseError

from junitparser import Error, JUnitXml, JUnitXmlError, TestCase
from junitparser import Failure as FailureResult

from action.processes.output import read_regular

XML_LIMIT = 8 * 2**20
_DECLARATION = b'<?xml version="1.0" encoding="utf-8"?>'
_SUBTESTS_FAILED = re.compile(r"contains \d+ failed subtests?$")
# The exception is on the last such line; above it may stand the offending source.
_EXCEPTION = re.compile(r"^E   (?=\S)(.*)$", re.MULTILINE)
_LONGEST_TUPLE = 10_000

CaseOutcome = Literal["passed", "failed", "skipped", "xfailed"]
Key = tuple[str, str]


@dataclass(frozen=True)
class CaseFailure:
    """One failure or error of a test; `phase` is where: set-up, call, teardown, collection."""

    phase: Literal["set-up", "call", "teardown", "collection"]
    message: str
    traceback: str


@dataclass(frozen=True)
class Case:
    """One test as pytest reports it; `key` is its class name and name, `reason` why it skipped."""

    key: Key
    outcome: CaseOutcome
    reason: str = ""
    failures: tuple[CaseFailure, ...] = ()


@dataclass(frozen=True)
class UnusableXml:
    """Why there is no report: `why` continues "its JUnit XML ..."."""

    why: str


def read_junit(path: Path) -> tuple[Case, ...] | UnusableXml:
    """Return the tests in pytest's XML, one case for each, or why the file cannot be used.

    pytest declares UTF-8 and writes no document type, so that a file with one, where entities
    that blow up would be defined, is not pytest's. The counts in the file are not used: with
    subtests they are not the number of tests.
    """
    data = read_regular(path, XML_LIMIT)
    if isinstance(data, str):
        return UnusableXml(data)
    if not data:
        return UnusableXml("is empty")
    if not data.startswith(_DECLARATION) or b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        return UnusableXml("is not what pytest writes")
    try:
        suites = JUnitXml.fromstring(data)
        cases = [case for suite in suites for case in suite if isinstance(case, TestCase)]
        if not list(suites):
            return UnusableXml("holds no test suite")
        return _merged(cases)
    except ParseError as trouble:
        return UnusableXml(f"is cut off or broken ({trouble})")
    except (JUnitXmlError, ValueError, TypeError, AttributeError):
        return UnusableXml("is not what pytest writes")


def case_key(node_id: str) -> Key:
    """Return the class name and the name under which pytest's XML has the test `node_id`."""
    path, bracket, parameters = node_id.partition("[")
    names = path.split("::")
    names[0] = re.sub(r"\.py$", "", names[0].replace("/", "."))
    names[-1] += bracket + parameters
    return ".".join(names[:-1]), names[-1]


def _merged(cases: Iterable[TestCase]) -> tuple[Case, ...]:
    # A test that fails and then fails in its teardown has two entries.
    merged: dict[Key, Case] = {}
    for entry in cases:
        case = _case(entry)
        if case.key in merged:
            before = merged[case.key]
            worse = before if before.outcome == "failed" or case.outcome == "passed" else case
            failures = before.failures + case.failures
            case = Case(case.key, worse.outcome, worse.reason, failures)
        merged[case.key] = case
    return tuple(merged.values())


def _case(entry: TestCase) -> Case:
    key = (entry.classname or "", entry.name or "")
    failures: list[CaseFailure] = []
    outcome: CaseOutcome = "passed"
    reason = ""
    for result in entry.result:
        message, text = result.message or "", result.text or ""
        if isinstance(result, FailureResult | Error):
            if not (failures and _SUBTESTS_FAILED.match(message)):
                failures.append(_failure(message, text))
        elif result.type == "pytest.xfail":
            outcome, reason = "xfailed", message
        else:
            outcome, reason = "skipped", _module_skip(text) or message
    if failures:
        outcome, reason = "failed", ""
    return Case(key, outcome, reason, tuple(failures))


def _failure(message: str, text: str) -> CaseFailure:
    if message == "collection failure":
        lines = _EXCEPTION.findall(text) or text.strip().splitlines()[-1:]
        return CaseFailure("collection", lines[-1] if lines else "", text)
    if message.startswith("[XPASS(strict)]"):
        reason = message.removeprefix("[XPASS(strict)]").strip()
        why = f" ({reason})" if reason else ""
        return CaseFailure("call", f"it passed, but is marked as a strict xfail{why}", text)
    for phase, words in (("set-up", "setup"), ("teardown", "teardown")):
        found = re.match(rf'failed on {words} with "(.*?)"?$', message, re.DOTALL)
        if found:
            return CaseFailure("set-up" if phase == "set-up" else "teardown", found[1], text)
    return CaseFailure("call", message, text)


def _module_skip(text: str) -> str | None:
    """Return the reason why a whole file skipped itself; its XML has a printed Python tuple."""
    if not text.startswith("(") or len(text) > _LONGEST_TUPLE:
        return None
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if isinstance(value, tuple) and len(value) == 3:
        return str(value[2]).removeprefix("Skipped: ")
    return None
