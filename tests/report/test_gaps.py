import pytest

from action.records import Environment, StageResult
from action.report import conclude, recipe_gaps, run_gaps

TWO_GPUS = Environment(torch="2.13.0", cuda_devices=("H100", "H100"))


def gap_ids(checks, stages, environment=TWO_GPUS):
    return [gap.id for gap in recipe_gaps(checks, stages, environment)]


def all_green(checks_of):
    return checks_of(forward_edges="pass", backward_edges="pass")


def test_green_stages_leave_what_nobody_looked_at(checks_of, stages_of):
    assert gap_ids(checks_of(), stages_of()) == [
        "item:edges",
        "smoke:not-evidenced",
        "identity:not-mutated",
    ]


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        (None, ["smoke:not-evidenced", "smoke:devices-unknown"]),
        ((), ["smoke:not-evidenced", "smoke:no-gpus"]),
        (("H100",), ["smoke:not-evidenced", "smoke:no-gpus"]),
        (("H100", "H100"), ["smoke:not-evidenced"]),
    ],
)
def test_smoke_on_less_than_two_gpus_is_a_gap(checks_of, stages_of, devices, expected):
    found = gap_ids(all_green(checks_of), stages_of(), Environment(cuda_devices=devices))
    assert [gap for gap in found if gap.startswith("smoke")] == expected


@pytest.mark.parametrize(
    ("outcome", "gap"),
    [
        ("missing", "identity:missing"),
        ("nothing collected", "identity:nothing-collected"),
        ("all skipped", "identity:all-skipped"),
        ("not run", "identity:not-run"),
        ("could not start", "identity:could-not-start"),
    ],
)
def test_a_stage_that_ran_no_test_is_a_gap_not_a_failure(checks_of, stages_of, outcome, gap):
    assert gap in gap_ids(all_green(checks_of), stages_of(identity=outcome))


@pytest.mark.parametrize("outcome", ["failed", "crashed", "timed out"])
def test_a_failed_stage_is_a_failure_not_a_gap(checks_of, stages_of, recipe_of, report_of, outcome):
    stages = stages_of(identity=outcome)
    assert [g for g in gap_ids(all_green(checks_of), stages) if g.startswith("identity")] == []
    assert report_of(recipe_of(stages=stages)).conclusion == "failed"


def test_skipped_tests_are_a_gap_with_their_reasons(checks_of):
    stage = StageResult(
        id="structure",
        outcome="passed",
        summary="2 passed, 1 skipped",
        tests=3,
        passed=2,
        skipped=1,
        skip_reasons=("needs CUDA",),
    )
    (gap,) = recipe_gaps(all_green(checks_of), [stage], TWO_GPUS)
    assert gap.summary == "Structure: 1 of 3 tests were skipped (needs CUDA)"


def test_without_a_hook_there_are_no_edges_to_identify(checks_of, stages_of):
    checks = checks_of(
        hook_bound="not applicable",
        forward_edges="not applicable",
        backward_edges="not applicable",
    )
    assert gap_ids(checks, stages_of(identity="missing")) == ["smoke:not-evidenced"]


def test_a_selected_recipe_without_a_result_is_a_gap_of_the_run(recipe_of, report_of):
    both = report_of(recipe_of("one"), recipe_of("two"))
    gaps = run_gaps(both.selection, both.recipes[:1], None)
    assert [gap.summary for gap in gaps] == ["Selected, but no result arrived: `two`"]
    assert conclude(both.selection, both.recipes[:1], gaps) == "gaps"


def test_conclusions(checks_of, stages_of, recipe_of, report_of):
    failing = recipe_of("a", checks=checks_of(stays_local="fail"))
    stuck = recipe_of("b", stages=stages_of(structure="could not start"))
    assert report_of(failing).conclusion == "failed"
    assert report_of(stuck).conclusion == "infrastructure"
    assert report_of(failing, stuck).conclusion == "failed"
    assert report_of(recipe_of()).conclusion == "gaps"
    assert report_of().conclusion == "nothing selected"
    proved = recipe_of().model_copy(update={"gaps": ()})
    assert conclude(report_of(proved).selection, (proved,)) == "passed"


def test_an_interrupted_run_is_no_verdict(recipe_of, report_of):
    report = report_of(recipe_of())
    gaps = run_gaps(report.selection, report.recipes, "it was cancelled")
    assert conclude(report.selection, report.recipes, gaps) == "infrastructure"
