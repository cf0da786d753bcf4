"""A recording is only believed in its shape: forged ones are refused, not read."""

import pytest
from pydantic import ValidationError

from action.probe.recording import Event, Recording

UNITS = [{"paths": [""], "classes": ["Model"]}, {"paths": ["a"], "classes": ["Block"]}]


def recording(**changes) -> Recording:
    events = changes.pop("events", [["enter", 0], ["gather", 1, "forward edge", 0], ["loss"]])
    one = {"kind": "train", "edges": "hook", "events": events}
    return Recording.model_validate(
        {
            "torch": "2.13.0",
            "mode": "fake",
            "mesh": {"shard": 2},
            "top_class": "m.Model",
            "hook": {"bound": True, "callable": True},
            "units": UNITS,
            "edges": {"forward": [[0, [1]]], "backward": []},
            "paths": [{"name": "train", "passes": [one]}],
            **changes,
        }
    )


def test_a_recording_in_shape_is_read():
    one = recording().paths[0].passes[0]
    assert one.events == (Event("enter", 0), Event("gather", 1, "forward edge", 0), Event("loss"))


@pytest.mark.parametrize(
    "changes",
    [
        {"events": [["enter", 2]]},
        {"events": [["enter", -1]]},
        {"events": [["gather", 1, "forward edge", 9]]},
        {"events": [["explode", 1]]},
        {"edges": {"forward": [[0, [5]]], "backward": []}},
        {"roots": [7]},
        {"calls": [{"source": 0, "direction": "forward", "targets": [3]}]},
        {"mode": "imagined"},
    ],
)
def test_a_forged_one_is_refused(changes):
    with pytest.raises(ValidationError):
        recording(**changes)
