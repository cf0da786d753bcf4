"""A training step as one would draw it on a whiteboard: one HTML page that needs nothing else.

The recording was written by a process that ran the recipe's own code. Every name in it is cleaned
of control characters and escaped, and a step too large to draw is not drawn.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from action.probe import places
from action.probe.chart import comparable
from action.probe.drawing import Figure
from action.probe.judge import judge
from action.probe.judge.case import Case, PathCase
from action.probe.marks import Safe, cross, head, shown, span, tag
from action.probe.recording import Recording
from action.records import Finding

_MOST_EVENTS, _MOST_ROWS = 50_000, 600


def timeline(recording: Recording, path: str) -> str:
    """Return the page about a path's second step with the hook's edges.

    Raises:
        ValueError: the recording has no such path.
    """
    if path not in [known.name for known in recording.paths]:
        raise ValueError(f"the recording has no training path {path!r}")
    case = Case(recording)
    seen = next(known for known in case.paths if known.name == path)
    found = [f for f in judge(recording) if not f.paths or path in f.paths]
    step = seen.hooked
    if step is None:
        body = tag("p", _why_not(seen))
    elif len(step.events) > _MOST_EVENTS:
        body = tag("p", f"The step has {len(step.events)} events, too many to draw.")
    elif len(places.rows(step)) > _MOST_ROWS:
        body = tag("p", f"{len(places.rows(step))} units take part, too many to draw.")
    else:
        figure = Figure(case, seen, step, found)
        body = figure.caption() + tag("div", figure.svg(), cls="scroll") + _legend(figure)
    top = shown(recording.top_class.rpartition(".")[2])
    title = f"Prefetching of {top}, path {shown(path)}"
    which = "second" if seen.hooked is not None and _has_second(seen) else "only"
    facts = [
        f"{which} training step with the hook's edges",
        f"torch {shown(recording.torch)}",
        f"bytes for {recording.shard} ranks",
    ]
    if recording.config is not None:
        facts.insert(1, shown(recording.config))
    head = tag("h1", title) + tag("p", " · ".join(facts), cls="facts")
    return _PAGE.format(
        title=html.escape(title), style=_STYLE, body=head + body + _list(found, len(case.paths))
    )


def _has_second(path: PathCase) -> bool:
    return sum(p.edges == "hook" and p.kind == "train" and not p.error for p in path.passes) > 1


def _why_not(path: PathCase) -> str:
    errors = [p.error for p in path.passes if p.error is not None]
    why = f": {shown(errors[0].message)}" if errors else ""
    return f"No training step with the hook's edges came to its end{why}"


def _legend(figure: Figure) -> Safe:
    causes = [
        ("forward", "forward edge of the hook"),
        ("backward", "backward edge of the hook"),
        ("default", "FSDP2's own backward prefetch"),
        ("own", "gathered on its own entry"),
    ]
    if any(bar.gather.why == "call" for bar in figure.bars):
        causes.append(("call", "gathered by a call of unshard"))
    entries: list[tuple[Safe, str]] = []
    for cause, text in causes:
        line = tag("path", cls=f"arrow {cause}", d="M2,8 H14") if cause in _DRAWN else Safe()
        bar = span(f"pending {cause}", 16, 30, 8)
        rest = span(f"whole {cause}", 30, 40, 8)
        entries.append((line + bar + rest + head(cause, 16, 8, True), text))
    slot = tag("rect", cls="slot", x=8, y=1, width=24, height=14)
    tick = tag("path", cls="tick", d="M20,2.5 v11")
    wait = span("pending own", 4, 20, 8) + span("whole own", 20, 36, 8) + tick
    bad = tag("circle", cx=8, cy=8, r=6) + tag("text", "1", x=8, y=11)
    badge = tag("g", bad, cls="badge")
    entries += [
        (slot, "the unit computes"),
        (wait, "pale: on the way; line: waited for; full: in memory until resharded"),
        (cross(20, 8, "skip forward"), "an edge fired, its target was there already"),
        (span("unused own", 4, 36, 8), "never used"),
        (badge + span("blamed", 18, 36, 8, 5), "blamed by the finding of that number"),
        (tag("path", cls="live hook", d="M2,8 H38"), "live bytes with the hook"),
    ]
    if comparable(figure.axis, figure.twin) is not None:
        entries.append((tag("path", cls="live twin", d="M2,8 H38"), "live bytes without edges"))
    items = [
        tag("li", tag("svg", mark, width=42, height=16, aria_hidden="true"), tag("span", text))
        for mark, text in entries
    ]
    return tag("ul", *items, cls="legend")


_DRAWN = ("forward", "backward", "default")


def _list(findings: Sequence[Finding], total: int) -> Safe:
    only = " for this path" if total > 1 else ""
    if not findings:
        return tag("h2", "Findings") + tag("p", f"None{only}.")
    items = []
    for place, finding in enumerate(findings, 1):
        rows = [("event", finding.event), ("cost", finding.cost), ("instead", finding.instead)]
        if finding.location is not None:
            rows.append(("set at", str(finding.location)))
        lines = [tag("dt", key) + tag("dd", _marked(text)) for key, text in rows if text]
        unsure = " (not settled)" if finding.verdict == "unknown" else ""
        summary = tag("b", _marked(finding.summary), f" [{finding.rule}]{unsure}")
        items.append(tag("li", summary, tag("dl", *lines), id=f"finding-{place}"))
    return tag("h2", f"Findings{only}") + tag("ol", *items)


def _marked(text: str) -> Safe:
    """Return text with what stands in backticks as code."""
    parts = re.split(r"`([^`]*)`", shown(text, 1_000))
    return Safe(
        "".join(tag("code", p) if place % 2 else html.escape(p) for place, p in enumerate(parts))
    )


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<meta name="viewport" content="width=device-width"/>
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""
_STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2126; --soft: #68717a;
  --zebra: #f4f6f8; --slot: #ccd3da; --line: #d5dae0; --forward: #0068b5; --backward: #b06a00;
  --default: #76569c; --own: #3c8468; --call: #555; --bad: #cf1040; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181c; --ink: #e4e8ec; --soft: #98a2ac;
  --zebra: #1a1f24; --slot: #414a54; --line: #353d45; --forward: #58b0f5; --backward: #f2ae46;
  --default: #bd9fe6; --own: #63bf9a; --call: #aaa; --bad: #ff5c80; } }
body { margin: 20px 24px 48px; background: var(--paper); color: var(--ink);
  font: 14px/1.45 system-ui, sans-serif; }
h1 { margin: 0; font-size: 19px; } h2 { margin: 22px 0 6px; font-size: 15px; }
h1, p, li, dd { overflow-wrap: anywhere; }
.facts { margin: 2px 0; color: var(--soft); font-size: 12.5px; }
.scroll { margin: 8px 0; overflow-x: auto; }
svg { display: block; } svg text { font: 10px ui-monospace, monospace; fill: var(--ink); }
svg text.row { text-anchor: end; } svg text.idle { fill: var(--soft); font-style: italic; }
svg text.phase { text-anchor: middle; font: 600 12px system-ui, sans-serif; fill: var(--soft); }
svg text.small { font-size: 9.5px; font-weight: 400; } svg text.left { text-anchor: start; }
svg text.note { font: 9.5px system-ui, sans-serif; paint-order: stroke; stroke: var(--paper);
  stroke-width: 3px; stroke-linejoin: round; }
.zebra { fill: var(--zebra); } .slot { fill: var(--slot); } .mark { fill: var(--line);
  opacity: .55; } .grid { stroke: var(--line); }
.own { --hue: var(--own); } .forward { --hue: var(--forward); }
.backward { --hue: var(--backward); } .default { --hue: var(--default); }
.call { --hue: var(--call); }
.pending { fill: var(--hue); opacity: .38; } .whole { fill: var(--hue); }
.unused { fill: url(#hatch); stroke: var(--bad); } .hatch { fill: var(--bad); }
.blamed { fill: none; stroke: var(--bad); stroke-width: 1.5; }
.tick { stroke: var(--ink); stroke-width: 1.3; }
.arrow, .skip { fill: none; stroke: var(--hue); stroke-width: 1.3; }
.arrow.backward { stroke-dasharray: 4 2; } .arrow.default { stroke-dasharray: 1.3 2; }
path.skip { opacity: .5; } path.cross { opacity: 1; stroke-width: 1.2; }
.halo { stroke: var(--paper); stroke-width: 3.2; }
path.cross.blamed { stroke: var(--bad); stroke-width: 2; }
.head { fill: var(--hue); stroke: var(--hue); }
.head.backward, .head.default { fill: var(--paper); stroke-width: 1.2; }
.badge circle { fill: var(--bad); }
svg .badge text { fill: var(--paper); text-anchor: middle; font-weight: 700; font-size: 9px; }
.area { fill: var(--forward); opacity: .14; } .live { fill: none; stroke: var(--ink); }
.live.hook { stroke: var(--forward); stroke-width: 1.6; }
.live.twin { stroke-dasharray: 5 3; } circle.peak { fill: var(--forward); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 20px; margin: 8px 0; padding: 0;
  list-style: none; font-size: 12.5px; }
.legend li { display: flex; align-items: center; gap: 6px; }
ol { margin: 0; padding-left: 24px; max-width: 920px; } ol li { margin-bottom: 10px; }
b { font-weight: 600; } code { font: 12.5px ui-monospace, monospace; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 1px 10px; margin: 2px 0; }
dt { color: var(--soft); } dd { margin: 0; } li:target { outline: 2px solid var(--bad);
  outline-offset: 4px; }
"""
