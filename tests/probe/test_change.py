"""What a change did to the edges and the traffic of a recipe."""

from dataclasses import replace
from pathlib import Path

from action.probe import Request, observe
from action.records import Edge
from tests.hazards.conftest import CASES, ROOT
from tests.probe.conftest import LIMITS, around

BASE = "b" * 40
HEALTHY = Request("toy", CASES["wrap_around"], ROOT, overrides=("healthy",))
HAZARD = replace(HEALTHY, overrides=("hazard",))
ADDED = Edge(source="blocks.3", target="blocks.0", direction="forward")


def test_edges_added_and_what_they_cost():
    (seen,) = observe([HAZARD], LIMITS, around(), (BASE, [HEALTHY]))
    change = seen.change
    assert change is not None and change.problem is None
    assert (change.base, change.added, change.removed) == (BASE, (ADDED,), ())
    (before,), (now,) = change.before, seen.paths
    assert before.with_hook is not None and now.with_hook is not None
    assert (before.with_hook.forward, now.with_hook.forward) == (5, 6)
    assert (before.with_hook.peak_bytes, now.with_hook.peak_bytes) == (576, 832)


def test_edges_removed_and_nothing_changed():
    same, mended = observe([HEALTHY, HEALTHY], LIMITS, around(), (BASE, [HEALTHY, HAZARD]))
    assert same.change is not None and mended.change is not None
    assert (same.change.added, same.change.removed) == ((), ())
    assert (mended.change.added, mended.change.removed) == ((), (ADDED,))


def test_a_base_without_a_probe_file_is_said():
    bare = replace(HEALTHY, probe=Path("/absent/probe.py"))
    (seen,) = observe([HEALTHY], LIMITS, around(), (BASE, [bare]))
    assert seen.change is not None
    assert seen.change.problem == "the recipe had no probe file there"
    (unseen,) = observe([bare], LIMITS, around(), (BASE, [HEALTHY]))
    assert (unseen.outcome, unseen.change) == ("no probe", None)
