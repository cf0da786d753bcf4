"""A report as a run would make it, built from records."""

from collections.abc import Callable

import pytest

from action.records import (
    CheckResult,
    Environment,
    Evidence,
    Failure,
    Hook,
    Location,
    Reason,
    RecipeReport,
    RecipeSource,
    Report,
    SelectedRecipe,
    Selection,
    StageResult,
    Symbol,
    Unaffected,
    WrapTarget,
)
from action.records import ClassAttribute as Attribute
from action.report import conclude, recipe_gaps, run_gaps

MODEL = "recipes/toy/model.py"
NOT_OBSERVED = "the order in which the units run was not observed"


def make_checks(**verdicts: str) -> tuple[CheckResult, ...]:
    """The eight items: edges unknown, the rest passed, but for what `verdicts` says."""
    items = {
        "hook-bound": ("pass", "`apply` is bound on `Toy`, the class that training instantiates"),
        "wrap-targets": ("pass", "`Block` is the name of a class that the model uses"),
        "forward-edges": ("unknown", NOT_OBSERVED),
        "backward-edges": ("unknown", NOT_OBSERVED),
        "idempotent": ("pass", "a second call returns at once"),
        "attributes-merged": ("not applicable", "there are no TP attributes"),
        "stays-local": ("pass", "the diff adds no toggle"),
        "honest-claims": ("pass", "no sentence claims more than it may"),
    }
    return tuple(
        CheckResult(
            id=item,
            verdict=verdicts.get(item.replace("-", "_"), verdict),
            established_by="nothing" if verdict == "unknown" else "static",
            summary=summary,
            evidence=()
            if verdict in ("unknown", "not applicable")
            else (Evidence(text=f"seen for {item}", location=Location(path=MODEL, line=7)),),
        )
        for item, (verdict, summary) in items.items()
    )


def make_stages(**outcomes: str) -> tuple[StageResult, ...]:
    stages = []
    for stage in ("structure", "smoke", "identity"):
        outcome = outcomes.get(stage, "passed")
        failures = ()
        summary = "3 tests passed in 1.5 s"
        if outcome == "failed":
            summary = "`test_edges` failed: AssertionError: layers.1 is missing"
            failures = (
                Failure(
                    test="test_prefetch_edges_impact.py::test_edges",
                    message="AssertionError: layers.1 is missing",
                    excerpt="    assert edges == expected\nE   AssertionError",
                ),
            )
        elif outcome != "passed":
            summary = f"{outcome} for a reason"
        stages.append(
            StageResult(
                id=stage,
                outcome=outcome,
                summary=summary,
                tests=3 if outcome in ("passed", "failed") else 0,
                failures=failures,
                duration=1.5,
            )
        )
    return tuple(stages)


def make_recipe(
    name: str = "toy",
    checks: tuple[CheckResult, ...] | None = None,
    stages: tuple[StageResult, ...] | None = None,
    environment: Environment | None = None,
) -> RecipeReport:
    checks = make_checks() if checks is None else checks
    stages = make_stages() if stages is None else stages
    environment = environment or Environment(python="3.11.7", torch="2.13.0", cuda_devices=())
    toy = Symbol(name="recipes.toy.model.Toy", location=Location(path=MODEL, line=20))
    binding = Attribute(
        name="APPLY_FSDP2_CUSTOM_PREFETCHING",
        owner=toy,
        location=Location(path=MODEL, line=21),
        value="apply",
    )
    return RecipeReport(
        name=name,
        path=f"recipes/{name}",
        reasons=(
            Reason(
                rule="hook",
                detail="the hook `apply` changed",
                location=Location(path=MODEL, line=5),
            ),
            Reason(
                rule="imported-module",
                detail="`blocks/base.py` changed",
                location=Location(path="blocks/base.py"),
                chain=("blocks/base.py", MODEL),
            ),
        ),
        source=RecipeSource(
            name=name,
            path=f"recipes/{name}",
            top_level_class=toy,
            hooks=(
                Hook(
                    binding=binding,
                    function=Symbol(
                        name="recipes.toy.model.apply", location=Location(path=MODEL, line=5)
                    ),
                    kind="function",
                ),
            ),
            targets=(
                WrapTarget(
                    class_name="Block",
                    named_at=Location(path=MODEL, line=22),
                    origin="_no_split_modules",
                ),
            ),
        ),
        checks=checks,
        stages=stages,
        gaps=recipe_gaps(checks, stages, environment),
        environment=environment,
    )


def make_report(*recipes: RecipeReport, **changes: object) -> Report:
    selection = Selection(
        mode="diff",
        head="a" * 40,
        base="b" * 40,
        merge_base="c" * 40,
        recipes=tuple(SelectedRecipe(name=r.name, path=r.path, reasons=r.reasons) for r in recipes),
        unaffected=(Unaffected(path="README.md", reason="documentation, which no recipe reads"),),
    )
    selection = changes.pop("selection", selection)
    gaps = run_gaps(selection, recipes, None)
    return Report(
        conclusion=conclude(selection, recipes, gaps),
        selection=selection,
        recipes=recipes,
        gaps=gaps,
        started="2026-01-02T03:04:05+00:00",
        duration=93.2,
        **changes,
    )


@pytest.fixture
def report_of() -> Callable[..., Report]:
    return make_report


@pytest.fixture
def recipe_of() -> Callable[..., RecipeReport]:
    return make_recipe


@pytest.fixture
def checks_of() -> Callable[..., tuple[CheckResult, ...]]:
    return make_checks


@pytest.fixture
def stages_of() -> Callable[..., tuple[StageResult, ...]]:
    return make_stages
