"""Verdicts that need a plugin which is not installed here: the three witnesses by hand."""

import time
from dataclasses import replace

import pytest

from action.processes.command import Ended
from action.stages.junit import Case
from action.stages.sidecar import Course
from action.stages.verdict import Remains, judge

ID = "recipes/toy/tests/test_smoke.py::test_a"
# pytest-xdist runs the tests elsewhere: how many there are is not known where the plugin looks.
COURSE = Course(
    loaded=True,
    session=True,
    reported=frozenset({ID}),
    ended=frozenset({ID}),
    finished=True,
    status=0,
)
REMAINS = Remains(
    stage="smoke",
    python="python3",
    target="recipes/toy/tests/test_smoke.py",
    limit=60.0,
    ended=Ended(0, None, False, 1.25),
    report=(Case(("recipes.toy.tests.test_smoke", "test_a"), "passed"),),
    course=COURSE,
    log_end="",
)


def test_tests_that_ran_elsewhere_can_pass():
    result = judge(REMAINS)
    assert (result.outcome, result.summary) == ("passed", "1 test passed in 1.2 s")


def test_but_a_test_that_never_ended_did_not():
    result = judge(replace(REMAINS, course=replace(COURSE, ended=frozenset())))
    assert (result.outcome, result.summary) == (
        "crashed",
        "pytest exited with 0, before all its tests had run",
    )


def test_a_thousand_reasons_are_cut():
    cases = tuple(Case(("", f"test_{i}"), "skipped", f"reason {i}") for i in range(1000))
    ids = frozenset(f"test_{i}" for i in range(1000))
    course = replace(COURSE, reported=ids, ended=ids)
    result = judge(replace(REMAINS, report=cases, course=course))
    assert (result.outcome, result.skipped) == ("all skipped", 1000)
    assert result.skip_reasons == (*(f"reason {i}" for i in range(10)), "990 more reasons")


@pytest.mark.parametrize(
    "log",
    [
        '  File "' + "/pytest" * 20_000,
        "x: error: " * 13_000,
        "\x1b[" + "1;" * 60_000,
        "\x1b]" * 60_000,
        "\r" * 130_000,
        "\u202e" * 130_000,
        "INTERNALERROR> " * 9_000,
    ],
)
def test_a_log_made_to_be_slow_is_read_quickly(log):
    course = replace(COURSE, session=False, finished=False, status=None)
    remains = replace(REMAINS, log_end=log, course=course, ended=Ended(4, None, False, 1.0))
    begin = time.process_time()
    assert judge(remains).outcome == "crashed"
    assert time.process_time() - begin < 2


def test_no_test_at_all_is_no_pass_even_with_exit_code_0():
    nothing = replace(COURSE, reported=frozenset(), ended=frozenset())
    result = judge(replace(REMAINS, course=nothing, report=()))
    assert result.outcome == "nothing collected"
