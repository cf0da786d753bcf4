"""The same events from run to run, and on fake tensors and real ones."""

import pytest

from tests.hazards.conftest import observe_cases

CASES = ("wrap_around", "no_backward", "router_logits", "unet_skips")


def events(seen):
    return [(p.name, p.passes) for p in seen.recording.paths]


@pytest.fixture(scope="module")
def runs():
    keys = [(name, variant) for name in CASES for variant in ("hazard", "healthy")]
    return observe_cases(keys), observe_cases(keys[::-1]), observe_cases(keys, mode="real")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("variant", ["hazard", "healthy"])
def test_events_do_not_depend_on_the_run_its_order_or_the_tensors(runs, name, variant):
    first, again, real = (run[name, variant] for run in runs)
    assert first.recording.mode == "fake"
    assert real.recording.mode == "real"
    assert any(one.events for path in first.recording.paths for one in path.passes)
    assert events(first) == events(again)
    assert events(first) == events(real)
    assert {f.rule for f in first.observation.findings} == {
        f.rule for f in real.observation.findings
    }
