from pathlib import Path

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options

from action.records import Unaffected
from action.report import headline, render_comment, render_summary
from action.report.comment import COMMENT_LIMIT

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def failing(report_of, recipe_of, stages_of):
    return report_of(
        recipe_of("good"),
        recipe_of("bad", stages=stages_of(identity="failed")),
        repository_url="https://github.example/o/r",
        run_url="https://github.example/o/r/actions/runs/1",
        notes=("The stages worked in a scratch checkout.",),
    )


def test_the_comment_to_the_letter(failing, matches_golden):
    matches_golden(render_comment(failing), GOLDEN / "failing.md")


def test_nothing_selected_to_the_letter(report_of, matches_golden):
    matches_golden(render_comment(report_of()), GOLDEN / "nothing.md")


def test_headlines(report_of, recipe_of, stages_of):
    failed = recipe_of("a", stages=stages_of(smoke="failed"))
    proved = recipe_of("b").model_copy(update={"gaps": ()})
    stuck = recipe_of("c", stages=stages_of(structure="could not start"))
    assert headline(report_of(proved)) == "✅ FSDP2 prefetching: 1 recipe proved, no gap remains"
    assert headline(report_of(failed, proved)) == (
        "❌ FSDP2 prefetching: 1 of 2 recipes fails, 2 gaps remain"
    )
    assert headline(report_of(recipe_of())) == (
        "⚠️ FSDP2 prefetching: no failure in 1 recipe, 4 gaps remain"
    )
    assert headline(report_of(stuck)).startswith(
        "⚠️ FSDP2 prefetching: the run could not be completed, "
    )
    assert headline(report_of()) == (
        "✅ FSDP2 prefetching: this change affects no recipe, so nothing was run"
    )


def test_a_gap_that_recipes_share_is_said_once(report_of, recipe_of):
    comment = render_comment(report_of(*(recipe_of(f"r{i}") for i in range(7))))
    assert comment.count("not run on GPUs with NCCL") == 1
    assert comment.count("(every recipe)") == 4


@pytest.mark.parametrize("number", [1, 10, 60, 400])
@pytest.mark.parametrize("lines", [1, 20, 60])
def test_it_fits_and_says_what_was_cut(report_of, recipe_of, stages_of, number, lines):
    def with_output(index):
        recipe = recipe_of(f"recipe_{index}", stages=stages_of(identity="failed"))
        stage = recipe.stages[2]
        excerpt = "".join(f"{line:3} {'y' * 60}\n" for line in range(lines))
        failure = stage.failures[0].model_copy(update={"excerpt": excerpt})
        stages = (*recipe.stages[:2], stage.model_copy(update={"failures": (failure,)}))
        return recipe.model_copy(update={"stages": stages})

    report = report_of(*(with_output(index) for index in range(number)))
    comment = render_comment(report)
    assert len(comment) <= COMMENT_LIMIT
    assert comment.count("<details>") == comment.count("</details>")
    assert comment.startswith("## ❌ FSDP2 prefetching: ")
    whole = comment.count("y" * 60) == number * min(lines, 25)
    assert whole == ("Shortened to fit" not in comment)
    assert f"{lines - 1:3} " + "y" * 60 in comment or not whole
    if number <= 60:
        assert comment.count("| `recipe_") == number


def test_three_failing_tests_are_shown_and_the_rest_named(report_of, recipe_of, stages_of):
    recipe = recipe_of("bad", stages=stages_of(identity="failed"))
    stage = recipe.stages[2]
    failures = tuple(
        stage.failures[0].model_copy(update={"test": f"t.py::test_{n}", "excerpt": f"E   {n}"})
        for n in range(5)
    )
    stage = stage.model_copy(update={"failures": failures, "log": "bad/identity.log"})
    comment = render_comment(
        report_of(recipe.model_copy(update={"stages": (*recipe.stages[:2], stage)}))
    )
    assert [n for n in range(5) if f"E   {n}" in comment] == [0, 1, 2]
    assert "Also failing: `t.py::test_3`, `t.py::test_4`." in comment
    assert "All of its output is in `bad/identity.log`, beside this report." in comment


def test_sixty_recipes_with_the_longest_names_still_have_their_rows(report_of, recipe_of):
    report = report_of(*(recipe_of(f"{'long_name_' * 10}{index}") for index in range(60)))
    comment = render_comment(report)
    assert len(comment) <= COMMENT_LIMIT
    assert comment.count("\n| `long_name_") == 60


def test_a_name_too_long_for_any_row_still_gives_a_headline(report_of, recipe_of):
    comment = render_comment(report_of(recipe_of("n" * 70_000)))
    assert comment == (
        "## ⚠️ FSDP2 prefetching: no failure in 1 recipe, 4 gaps remain\n\n"
        "The report does not fit here; all of it is in `report.json`.\n"
    )


def test_the_summary_counts_bytes(report_of, recipe_of):
    report = report_of(*(recipe_of(f"é{index}" * 20) for index in range(200)))
    assert len(render_summary(report, limit=30_000).encode()) <= 30_000


def test_hostile_paths_and_names_stay_text(report_of, recipe_of):
    evil = "a`|<img src=x onerror=1>\n@octocat #1"
    report = report_of(recipe_of(evil))
    unaffected = (Unaffected(path=evil, reason=evil),)
    selection = report.selection.model_copy(update={"unaffected": unaffected})
    comment = render_comment(report.model_copy(update={"selection": selection}))
    html = cmarkgfm.github_flavored_markdown_to_html(comment, options=Options.CMARK_OPT_UNSAFE)
    assert "<img" not in html
    assert html.count("<td") == html.count("</td>")
