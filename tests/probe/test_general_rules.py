"""The rules that hold whatever the reason: all-gathers against those of the model without edges.

Today's FSDP2 breaks them only in ways that a more specific rule names. These recordings are what
another one might do: written by hand, for a model whose unit `a` runs before its unit `b`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from action.probe.judge import judge
from action.probe.recording import Recording

A, B = 1, 2
FORWARD = [
    ["enter", A],
    ["gather", A, "own"],
    ["wait", A],
    ["gather", B, "forward edge", A],
    ["reshard", A],
    ["leave", A],
    ["enter", B],
    ["wait", B],
    ["reshard", B],
    ["leave", B],
]
BACKWARD = [
    ["loss"],
    ["turn", B],
    ["gather", B, "own"],
    ["wait", B],
    ["gather", A, "backward edge", B],
    ["reshard", B],
    ["turn", A],
    ["wait", A],
    ["reshard", A],
    ["end"],
]


def recording(events: Sequence[Sequence[object]], **changes: object) -> Recording:
    """Return a recording in which the edges a → b and b → a did `events`."""
    twin = [[*event[:2], "own"] if event[0] == "gather" else event for event in FORWARD + BACKWARD]
    passes = [
        {"kind": "train", "edges": "none", "events": twin},
        {"kind": "train", "edges": "hook", "events": events, **changes},
    ]
    parameters = {"parameters": 8, "tensors": 1, "trainable": 1, "shapes": [[2, 4, 4, 1]]}
    return Recording.model_validate(
        {
            "torch": "2.13.0",
            "mode": "fake",
            "mesh": {"shard": 2},
            "top_class": "m.Model",
            "hook": {"bound": True, "callable": True},
            "units": [{"paths": [name], **parameters} for name in ("", "a", "b")],
            "roots": [0],
            "edges": {"forward": [[A, [B]]], "backward": [[B, [A]]]},
            "calls": [
                {"source": A, "direction": "forward", "targets": [B], "in_hook": True},
                {"source": B, "direction": "backward", "targets": [A], "in_hook": True},
            ],
            "paths": [{"name": "train", "passes": passes}],
        }
    )


def test_the_healthy_recording_has_no_finding():
    assert judge(recording(FORWARD + BACKWARD)) == ()


def replaced(events: list[list[object]], unit: int, *instead: list[object]) -> list[list[object]]:
    """Return events with others in the place of a unit's wait."""
    at = events.index(["wait", unit])
    return [*events[:at], *instead, *events[at + 1 :]]


AGAIN = ["gather", B, "own"]


@pytest.mark.parametrize(
    ("events", "live", "rule", "event", "cost"),
    [
        (
            replaced(FORWARD, B, AGAIN, ["wait", B]) + BACKWARD,
            (),
            "unused",
            "gather b (forward edge of a)",
            "an all-gather, 32 B held from `a` on, past the end of the step",
        ),
        (
            replaced(FORWARD, B, ["wait", B], ["reshard", B], AGAIN, ["wait", B]) + BACKWARD,
            (),
            "repeated",
            "gather b (forward edge of a)",
            "an all-gather, 32 B held from `a` to `b` in forward",
        ),
        (
            [e for e in FORWARD if e not in (["wait", B], ["reshard", B])]
            + [e for e in BACKWARD if e != AGAIN],
            (),
            "held-over",
            "gather b (forward edge of a)",
            "an all-gather, 32 B held from `a` to `b` in backward",
        ),
        (
            FORWARD + [e for e in BACKWARD if e != ["reshard", A]],
            (A,),
            "left-live",
            "gather a (backward edge of b)",
            "an all-gather, 32 B held from `b` on, past the end of the step",
        ),
    ],
)
def test_what_the_model_without_edges_does_not_do(events, live, rule, event, cost):
    (finding,) = judge(recording(events, live=live))
    assert (finding.rule, finding.event) == (rule, event)
    assert finding.cost.split(";")[0] == cost


def test_a_config_that_does_not_shard_leaves_the_edges_unknown():
    seen = recording(FORWARD + BACKWARD).model_copy(update={"configured_mesh": {"shard": 1}})
    assert [(f.rule, f.item, f.verdict) for f in judge(seen)] == [
        ("not-sharded", "forward-edges", "unknown"),
        ("not-sharded", "backward-edges", "unknown"),
    ]


def test_a_line_feed_in_a_name_does_not_end_the_sentence():
    seen = recording(replaced(FORWARD, B, AGAIN, ["wait", B]) + BACKWARD)
    units = (*seen.units[:B], seen.units[B].model_copy(update={"paths": ("b\n# all is well",)}))
    (finding,) = judge(seen.model_copy(update={"units": units}))
    assert "`a → b # all is well` starts an all-gather that nobody uses" in finding.summary


def test_a_hook_that_cannot_be_called():
    seen = recording(FORWARD + BACKWARD)
    hook = seen.hook.model_copy(update={"callable": False})
    found = judge(seen.model_copy(update={"hook": hook}))
    assert ("hook-not-callable", "hook-bound", "fail") in [
        (f.rule, f.item, f.verdict) for f in found
    ]
