"""Each hazard is found for its reason and on its edges; its healthy neighbour has no finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hazards.conftest import CASES, VARIANTS, Seen, load_case


def edges(observation) -> set[tuple[str, str, str]]:
    return {(e.source, e.target, e.direction) for f in observation.findings for e in f.edges}


@pytest.mark.parametrize("name", CASES)
def test_a_hazard_is_found_for_its_reason(name: str, seen: dict[tuple[str, str], Seen]):
    case, observation = load_case(name), seen[name, "hazard"].observation
    assert observation.outcome == "observed", observation.summary + observation.tail
    findings = observation.findings
    assert {finding.rule for finding in findings} == case.RULES, findings
    assert edges(observation) == set(getattr(case, "EDGES", edges(observation))), findings
    for finding in findings:
        assert finding.summary and finding.cost and finding.instead, finding


@pytest.mark.parametrize("name", CASES)
def test_its_healthy_neighbour_has_no_finding(name: str, seen: dict[tuple[str, str], Seen]):
    healthy = seen[name, "healthy"]
    assert healthy.observation.outcome == "observed", healthy.answer
    assert healthy.observation.findings == ()
    assert all(path.problem is None for path in healthy.observation.paths)


@pytest.mark.parametrize("name", [n for n in CASES if hasattr(load_case(n), "EVENTS")])
def test_the_event_that_tells_them_apart(name: str, seen: dict[tuple[str, str], Seen]):
    expected = load_case(name).EVENTS
    lists = {v: seen[name, v].events(expected["path"]) for v in VARIANTS}
    for variant, other in (VARIANTS, reversed(VARIANTS)):
        assert expected[variant] in lists[variant]
        assert expected[variant] not in lists[other]


EVENTS = Path(__file__).parent / "events"
WHOLE = (
    "already_ran_backward",
    "already_ran_forward",
    "default_off",
    "duplicate_in_group",
    "edge_to_root_backward",
    "edge_to_unused_ancestor",
    "encoder_decoder",
    "farthest_first",
    "inversion_partial",
    "list_replaced_in_group",
    "never_runs",
    "no_backward",
    "rank_divergence",
    "recomputed",
    "self_edge_backward",
    "shared_in_a_row",
    "shared_unit",
    "wrap_around",
)
"""Cases whose lists are short, and tell what the hazard is."""


@pytest.mark.parametrize("name", WHOLE)
def test_whole_lists_of_events(name: str, seen: dict[tuple[str, str], Seen], matches_golden):
    lists = [
        "\n".join([f"{variant}, {path.name}", *seen[name, variant].events(path.name), ""])
        for variant in VARIANTS
        for path in seen[name, variant].recording.paths
    ]
    matches_golden("\n".join(lists), EVENTS / f"{name}.txt")
