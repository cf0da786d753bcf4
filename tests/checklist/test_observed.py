"""What was seen settles what the source leaves open, and nothing that was not seen does."""

import pytest

from action.checklist.observed import decide
from action.records import CheckResult, Finding, Location, Observation, ObservedPath, Traffic

TRAFFIC = Traffic(
    forward=5, backward=4, unused=0, repeated=0, inversions=0, peak_bytes=64, peak_at="a, forward"
)
SEEN = Observation(
    outcome="observed",
    summary="5 units",
    mode="fake",
    top_class="recipes.toy.model.Toy",
    hook_called=True,
    forward=("a → b",),
    backward=("b → a",),
    forward_edges=1,
    backward_edges=1,
    lookahead=(1, 1),
    paths=(ObservedPath(name="text", with_hook=TRAFFIC, without=TRAFFIC),),
)
WRONG = Finding(
    rule="already-ran",
    item="forward-edges",
    verdict="fail",
    summary="the forward edge `b → a` is wrong",
    event="gather a (forward edge of b)",
    cost="an all-gather",
    instead="name `c`",
    location=Location(path="recipes/toy/model.py", line=7),
)


def static(item: str, verdict: str = "unknown", summary: str = "not known") -> CheckResult:
    by = "nothing" if verdict == "unknown" else "static"
    return CheckResult.model_validate(
        {"id": item, "verdict": verdict, "established_by": by, "summary": summary}
    )


@pytest.mark.parametrize(
    ("item", "summary"),
    [
        ("hook-bound", "the runtime found the hook on the wrapped `Toy` and called it"),
        (
            "forward-edges",
            "1 edge seen in `text`: each target runs after its source, at most 1 unit ahead; "
            "no all-gather unused, repeated or out of order",
        ),
        ("idempotent", "a second call set nothing; every list kept its units, by identity"),
    ],
)
def test_what_was_seen_settles_what_the_source_leaves_open(item, summary):
    result = decide(static(item), SEEN)
    assert (result.verdict, result.established_by, result.summary) == ("pass", "probe", summary)


def test_a_finding_fails_its_item_alone():
    seen = SEEN.model_copy(update={"findings": (WRONG,)})
    result = decide(static("forward-edges"), seen)
    assert (result.verdict, result.established_by) == ("fail", "probe")
    assert result.summary == "the forward edge `b → a` is wrong"
    assert [(e.text, str(e.location)) for e in result.evidence] == [
        (
            "The forward edge `b → a` is wrong. Seen: `gather a (forward edge of b)`. "
            "Cost: an all-gather. Instead: name `c`",
            "recipes/toy/model.py:7",
        )
    ]
    assert decide(static("backward-edges"), seen).verdict == "pass"


def test_an_unknown_finding_leaves_the_item_open():
    unsure = WRONG.model_copy(update={"verdict": "unknown"})
    result = decide(static("forward-edges"), SEEN.model_copy(update={"findings": (unsure,)}))
    assert (result.verdict, result.summary) == ("unknown", "the forward edge `b → a` is wrong")


@pytest.mark.parametrize("item", ["hook-bound", "wrap-targets", "forward-edges", "idempotent"])
def test_a_failure_of_the_source_stays_one(item):
    assert decide(static(item, "fail", "it is wrong"), SEEN).verdict == "fail"


def test_a_path_that_did_not_run_leaves_its_edges_open():
    broken = ObservedPath(name="image", problem="its step raised ValueError: no pixels")
    seen = SEEN.model_copy(update={"paths": (*SEEN.paths, broken)})
    for item in ("forward-edges", "backward-edges"):
        result = decide(static(item), seen)
        assert result.verdict == "unknown"
        assert result.summary == (
            "path `image` could not be run: its step raised ValueError: no pixels"
        )


def test_a_model_without_a_called_hook_is_not_that_of_the_source():
    seen = SEEN.model_copy(update={"hook_called": False})
    result = decide(static("hook-bound", "pass"), seen)
    assert (result.verdict, result.summary) == (
        "unknown",
        "`probe.py` builds a `Toy`, on which no hook was called",
    )
    bare = seen.model_copy(update={"forward_edges": 0, "backward_edges": 0})
    assert decide(static("forward-edges"), bare).verdict == "unknown"
    assert decide(static("forward-edges", "not applicable"), bare).verdict == "not applicable"
    assert decide(static("hook-bound", "not applicable"), seen).verdict == "not applicable"


@pytest.mark.parametrize("outcome", ["no probe", "timed out", "crashed", "no torch", "not run"])
def test_a_probe_that_could_not_look_settles_nothing(outcome):
    nothing = Observation(outcome=outcome, summary="it could not look")
    for item in ("hook-bound", "wrap-targets", "forward-edges", "backward-edges", "idempotent"):
        assert decide(static(item), nothing).verdict == "unknown"
    assert decide(static("forward-edges"), nothing).summary == "not observed: it could not look"
    assert decide(static("idempotent", "pass"), nothing) == static("idempotent", "pass")
