"""The page about a step: rows, lives, arrows and findings of a small case, and hostile names."""

from __future__ import annotations

import re
import time
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from action.probe.places import common_prefix, shorter
from action.probe.recording import Recording
from action.probe.timeline import timeline

BLOCKS = ("blocks.0", "blocks.1")
HOSTILE = """blocks.<script>alert("1")</script>'&\u202e\x1b[31m\n]]>"""
BEFORE = """
enter 0 | gather 0 own | wait 0
enter 1 | gather 1 own | wait 1 | gather 2 forward_edge 1 | reshard 1 | leave 1
enter 2 | wait 2 | gather 1 forward_edge 2 | reshard 2 | leave 2 | leave 0
loss
turn 0 | gather 2 default 0
turn 2 | wait 2 | skip 1 backward_edge 2 | reshard 2 | reduce 2 | done 2
"""
USED = f"{BEFORE} turn 1 | wait 1 | end | reshard 0 | done 0 | reshard 1 | done 1"
DROPPED = f"{BEFORE} end | reshard 0 | done 0 | drop 1"
WITHOUT = """
enter 0 | gather 0 own | wait 0
enter 1 | gather 1 own | wait 1 | reshard 1 | leave 1
enter 2 | gather 2 own | wait 2 | reshard 2 | leave 2 | leave 0
loss
turn 0 | gather 2 default 0
turn 2 | wait 2 | gather 1 default 2 | reshard 2 | reduce 2 | done 2
turn 1 | wait 1 | end | reshard 0 | done 0 | reshard 1 | done 1
"""


def events(text: str) -> list[list[object]]:
    """Read `kind unit why by`, separated by bars and line ends."""
    found: list[list[object]] = []
    for part in filter(None, map(str.strip, re.split(r"[|\n]|(?= (?:turn|end))", text))):
        kind, *rest = part.split()
        unit = [int(rest[0])] if rest else []
        why = [rest[1].replace("_", " ")] if len(rest) > 1 else []
        found.append([kind, *unit, *why, *map(int, rest[2:])])
    return found


def recording(hook: str = USED, blocks: tuple[str, ...] = BLOCKS, **more: object) -> Recording:
    passes = [
        {"kind": "train", "edges": edges, "events": events(text)}
        for edges, text in (("none", WITHOUT), ("hook", hook))
        for _ in range(2)
    ]
    units = [
        {"paths": (path,), "shapes": ((4, 64, 4, 1),), "tensors": 1, "trainable": 1}
        for path in ("", *blocks)
    ]
    given: dict[str, object] = {
        "torch": "2.13.0",
        "mode": "fake",
        "mesh": {"dp_shard": 2},
        "top_class": "models.Model",
        "hook": {"bound": True, "callable": True},
        "units": units,
        "edges": {"forward": ((1, (2,)), (2, (1,))), "backward": ((2, (1,)),)},
        "calls": [
            {"source": s, "direction": "forward", "targets": (t,), "in_hook": True}
            for s, t in ((1, 2), (2, 1))
        ],
        "paths": [{"name": "train", "passes": passes}],
        "roots": (0,),
    }
    return Recording.model_validate(given | more)


def drawn(page: str) -> ET.Element:
    """Return the drawing; the whole page is well-formed."""
    svg = ET.fromstring(page).find(".//div[@class='scroll']/svg")
    assert svg is not None
    return svg


def of_class(svg: ET.Element, name: str) -> list[ET.Element]:
    return [e for e in svg.iter() if name in (e.get("class") or "").split()]


def placed(element: ET.Element) -> tuple[float, float]:
    return float(element.get("x", "")), float(element.get("width", ""))


@pytest.fixture(scope="module")
def svg() -> ET.Element:
    return drawn(timeline(recording(), "train"))


def test_a_row_for_each_unit_in_the_order_of_execution(svg: ET.Element):
    rows = [e for e in of_class(svg, "row") if e.get("data-unit")]
    assert [e.get("data-unit") for e in rows] == ["(root)", "blocks.0", "blocks.1"]
    heights = [float(e.get("y", "")) for e in rows]
    assert [b - a for a, b in pairwise(heights)] == [20, 20]


def test_a_column_for_each_entry_the_loss_and_the_end(svg: ET.Element):
    slots = [(e.get("data-unit"), e.get("data-phase"), *placed(e)) for e in of_class(svg, "slot")]
    assert slots == [
        ("(root)", "forward", 0, 64),
        ("blocks.0", "forward", 64, 64),
        ("blocks.1", "forward", 128, 64),
        ("(root)", "backward", 256, 64),
        ("blocks.1", "backward", 320, 64),
        ("blocks.0", "backward", 384, 64),
    ]
    marks = [(e.get("data-kind"), *placed(e)) for e in of_class(svg, "mark")]
    assert marks == [("loss", 192, 64), ("end", 448, 64)]
    assert [e.text for e in of_class(svg, "phase")][:4] == ["loss", "end", "forward", "backward"]


def test_a_life_for_each_all_gather(svg: ET.Element):
    lives = []
    for gather in of_class(svg, "gather"):
        pending, whole = (of_class(gather, name)[0] for name in ("pending", "whole"))
        start, middle = placed(pending)[0], placed(whole)[0]
        assert sum(placed(pending)) == pytest.approx(middle, abs=0.2)
        end = sum(placed(whole))
        lives.append((gather.get("data-unit"), gather.get("data-why"), start, middle, end))
    # Each column is 64 wide; an event stands at its share of the column's events.
    expected = [
        ("(root)", "own", 64 / 3, 128 / 3, 448 + 64 / 5),
        ("blocks.0", "own", 64 + 64 / 6, 64 + 128 / 6, 64 + 256 / 6),
        ("blocks.1", "forward edge", 64 + 192 / 6, 128 + 64 / 6, 128 + 192 / 6),
        ("blocks.0", "forward edge", 128 + 128 / 6, 384 + 32, 448 + 192 / 5),
        ("blocks.1", "default", 256 + 32, 320 + 64 / 6, 320 + 192 / 6),
    ]
    assert [life[:2] for life in lives] == [life[:2] for life in expected]
    for life, wanted in zip(lives, expected, strict=True):
        assert life[2:] == pytest.approx(wanted[2:], abs=0.2)
    assert len(of_class(svg, "tick")) == 5


def test_an_arrow_for_each_edge_that_fired(svg: ET.Element):
    arrows = [
        (e.get("class"), e.get("data-from"), e.get("data-to"))
        for e in svg.iter("path")
        if e.get("data-from")
    ]
    assert arrows == [
        ("arrow forward", "blocks.0", "blocks.1"),
        ("arrow forward", "blocks.1", "blocks.0"),
        ("arrow default", "(root)", "blocks.1"),
        ("skip backward", "blocks.1", "blocks.0"),
    ]
    down = of_class(svg, "arrow")[0].get("d")
    assert down == "M96,64 V79"  # from the middle of one row to the edge of the bar in the next


def test_causes_differ_in_shape_not_only_in_colour(svg: ET.Element):
    heads = {}
    for e in of_class(svg, "head"):
        path = re.sub(r"^M[\d.,-]+", "", e.get("d", ""))
        heads[e.get("class")] = (e.tag, path.replace("-7", "7"))
    assert len(set(heads.values())) == len(heads) == 3


def test_what_a_finding_blames_stands_out_with_its_number(svg: ET.Element):
    blamed = [e for e in of_class(svg, "gather") if e.get("data-findings")]
    assert [(e.get("data-unit"), e.get("data-findings")) for e in blamed] == [("blocks.0", "1")]
    assert len(of_class(blamed[0], "blamed")) == 1
    assert [e.get("href") for e in of_class(svg, "badge")] == ["#finding-1", "#finding-2"]
    crossed = [e for e in of_class(svg, "cross") if "blamed" in e.get("class", "")]
    assert len(crossed) == 1  # the backward edge found its target there already


def test_live_bytes_with_and_without_the_hook(svg: ET.Element):
    # Units of 1 KiB: the root, a block gathered too early, and the block that runs.
    peaks = [(e.text, e.get("data-bytes")) for e in of_class(svg, "note") if e.get("data-bytes")]
    assert peaks == [
        ("peak 3.0 KiB in forward of blocks.0", "3072"),
        ("without edges: peak 3.0 KiB", "3072"),
    ]
    hook, twin = of_class(svg, "live")
    assert hook.get("class") == "live hook" and twin.get("class") == "live twin"
    assert hook.get("d") != twin.get("d")


def test_a_gather_that_nobody_used():
    svg = drawn(timeline(recording(DROPPED), "train"))
    unused = [e for e in of_class(svg, "gather") if of_class(e, "unused")]
    assert [(e.get("data-unit"), e.get("data-why")) for e in unused] == [
        ("blocks.0", "forward edge")
    ]
    assert [e.text for e in of_class(unused[0], "note")] == ["unused"]


def test_findings_are_listed_with_what_they_cost():
    page = ET.fromstring(timeline(recording(), "train"))
    item = page.find(".//li[@id='finding-1']")
    assert item is not None
    text = "".join(item.itertext())
    assert "blocks.1 → blocks.0" in text and "[wrap-around]" in text
    assert [e.text for e in item.iter("dt")] == ["event", "cost", "instead"]


def test_hostile_names_are_text():
    other = recording(blocks=(HOSTILE, "blocks.1"), top_class=f"x.{HOSTILE}", torch=HOSTILE)
    page = timeline(other, "train")
    assert "<script" not in page and "\u202e" not in page and "\x1b" not in page
    names = [e.get("data-unit") for e in of_class(drawn(page), "row") if e.get("data-unit")]
    assert names[1] == """blocks.<script>alert("1")</script>'& ]]>"""
    assert {e.tag for e in ET.fromstring(page).iter()}.isdisjoint({"script", "img", "link"})


def test_units_of_another_model():
    more = [{"paths": ("",)}, {"paths": ("blocks.0",)}, {"outside": True}, {"outside": True}]
    odd = "enter 0 | gather 3 forward_edge 2 | gather 0 own | wait 0 | leave 0 | loss | turn 0"
    svg = drawn(timeline(recording(odd, edges={}, units=more), "train"))
    rows = [e for e in of_class(svg, "row") if e.get("data-unit")]
    assert [(e.get("data-unit"), e.get("class")) for e in rows[1:]] == [
        ("(another model's unit 3)", "row idle"),
        ("(another model's unit 2)", "row idle"),
    ]


def test_a_step_without_events():
    assert drawn(timeline(recording(""), "train")) is not None


def test_the_same_page_each_time():
    assert timeline(recording(), "train") == timeline(recording(), "train")


def test_a_path_that_is_not_there():
    with pytest.raises(ValueError, match="no training path 'other'"):
        timeline(recording(), "other")


def test_a_step_that_did_not_end_well():
    failed = {"kind": "train", "edges": "hook", "error": {"message": "no <memory>"}}
    page = timeline(recording(paths=[{"name": "train", "passes": [failed]}]), "train")
    assert "no &lt;memory&gt;" in page and "scroll" not in page.partition("<body>")[2]


def test_a_step_too_large_to_draw():
    many = " | ".join(["enter 0", "gather 0 own", "wait 0", *["skip 1 own"] * 50_000])
    start = time.monotonic()
    page = timeline(recording(many), "train")
    assert "too many to draw" in page and len(page) < 20_000
    assert time.monotonic() - start < 20


def test_sixty_layers_fit_a_laptop():
    depth = 60
    forward = "".join(
        f"enter {n}|{f'gather {n} own|' if n == 1 else ''}wait {n}|"
        f"{f'gather {n + 1} forward_edge {n}|' if n < depth else ''}reshard {n}|leave {n}\n"
        for n in range(1, depth + 1)
    )
    backward = "".join(
        f"turn {n}|wait {n}|{f'gather {n - 1} default {n}|' if n > 1 else ''}reshard {n}|done {n}\n"
        for n in range(depth, 0, -1)
    )
    text = f"enter 0|gather 0 own|wait 0\n{forward}leave 0|loss\nturn 0|gather {depth} default 0\n"
    layers = tuple(f"model.layers.{n}" for n in range(depth))
    page = timeline(recording(f"{text}{backward}end|reshard 0", layers, edges={}), "train")
    svg = drawn(page)
    assert float(svg.get("width", "")) < 1200 and float(svg.get("height", "")) < 1000
    labels = ["".join(e.itertext()) for e in of_class(svg, "row") if e.get("data-unit")]
    assert labels[60].endswith("layers.59") and "begin with “model.”" in page


@pytest.mark.parametrize(
    ("names", "prefix"),
    [
        (["model.layers.0", "model.layers.1"], "model."),
        (["blocks.0", "blocks.1"], ""),
        (["model.layers.0", "model.head"], ""),
        (["a.b.c.x", "a.b.d.x"], "a."),
        (["model.layers.0"], ""),
        ([], ""),
    ],
)
def test_common_prefix(names: list[str], prefix: str):
    assert common_prefix(names) == prefix


def test_long_names_keep_both_ends():
    assert shorter("model.layers.0 + model.layers.1", "model.") == "layers.0 + layers.1"
    cut = shorter(f"model.{'x' * 80}.mlp.experts", "")
    assert len(cut) == 34 and cut.startswith("model.") and cut.endswith(".mlp.experts")
