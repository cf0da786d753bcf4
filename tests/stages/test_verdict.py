"""Verdicts that need a plugin which is not installed here: the three witnesses by hand."""

from dataclasses import replace

from action.stages.junit import Case
from action.stages.processes import Ended
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


def test_no_test_at_all_is_no_pass_even_with_exit_code_0():
    nothing = replace(COURSE, reported=frozenset(), ended=frozenset())
    result = judge(replace(REMAINS, course=nothing, report=()))
    assert result.outcome == "nothing collected"
