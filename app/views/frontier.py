"""THE figure: goodput against raw output. PURE.

One point a cell, one colour + marker a setting. Frontier points are filled, dominated ones grey, invalid ones hollow.
Traces carry `meta.role` (path, points, legend, frontier, pick, raw), so that the shared page can move points in place
when a target changes. `customdata` of a point: [cell, goodput text, share text, the other lines, title].
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go

from app.views import cells as c
from app.views import theme
from app.views.label_places import Label, Place, label_places
from app.words import ENGLISH, Words

HOVER = "%{customdata[4]}<br>%{customdata[1]}<br>%{customdata[2]}<br>%{customdata[3]}<extra></extra>"
BESIDE = 0.07  # of the width of the data: what Plotly leaves free at both ends of an axis that fits itself


def frontier_figure(result: c.Result, words: Words = ENGLISH, *, dark: bool = False, height: int = 480) -> go.Figure:
    """Goodput (requests/s inside the targets) against raw output (tokens/s) for every measured cell."""
    points = [p for p in c.measured(result) if p.get("output_tok_per_s") is not None]
    names, shorts = c.setting_names(result, words), c.short_names(result, words)
    mine, traces = c.by_settings(points), list[theme.Trace]()
    for index, (key, name) in enumerate(names.items()):
        traces += _setting(mine.get(key, []), key, name, shorts[key], index, words)
    traces += [*_frontier(points, words, dark), *_marks(result, words, dark)]
    top = max((p["goodput_per_s"] for p in points), default=1.0) or 1.0
    output, reach = theme.axis([p["output_tok_per_s"] for p in points]), (-0.04 * top, 1.18 * top)
    _place_labels(traces, reach, log=output["type"] == "log")
    axes = {
        "xaxis": {"title": {"text": words.text("raw output (tokens/s)")}, **output},
        "yaxis": {"title": {"text": words.text("goodput (requests/s)")}, "range": list(reach)},
    }
    return theme.drawn(traces, axes, c.short_title(result), dark=dark, height=height)


def _setting(mine: Sequence[c.Cell], key: str, name: str, short: str, index: int, words: Words) -> list[theme.Trace]:
    """Path through the loads, points and legend entry of one setting; from the ninth on they share one entry."""
    grouped = index >= theme.MAX_SERIES
    style = {"colour": theme.GREY, "symbol": "asterisk", "dash": "dot"} if grouped else theme.series_style(index)
    group = "other settings" if grouped else key
    xs = [p["output_tok_per_s"] for p in mine]
    ys = [p["goodput_per_s"] for p in mine]
    common: dict[str, Any] = {"x": xs, "y": ys, "legendgroup": group, "showlegend": False}
    line = {"color": style["colour"], "dash": style["dash"], "width": 1.5}
    path = {**common, "mode": "lines", "line": line, "opacity": 0.6, "hoverinfo": "skip", "meta": {"role": "path"}}
    dots = {
        **common,
        "mode": "markers",
        "marker": _markers(mine, style),
        "customdata": [hover_data(p, name, words) for p in mine],
        "hovertemplate": HOVER,
        "meta": {"role": "points", "colour": style["colour"], "symbol": style["symbol"]},
        "name": theme.plain(name),
    }
    if index > theme.MAX_SERIES:
        return [path, dots]
    shown = words.text("other settings") if grouped else short
    mark = {"color": style["colour"], "size": 9, "symbol": style["symbol"]}
    return [path, dots, {**_entry(shown), "mode": "lines+markers", "legendgroup": group, "line": line, "marker": mark}]


def _entry(name: str) -> theme.Trace:
    """What stands in the legend alone."""
    return {"x": [None], "y": [None], "mode": "markers", "name": theme.plain(name), "meta": {"role": "legend"}}


def _markers(mine: Sequence[c.Cell], style: Mapping[str, Any]) -> dict[str, Any]:
    invalid = [c.why_invalid(p) is not None for p in mine]
    on = [bool(p.get("on_frontier")) and not bad for p, bad in zip(mine, invalid, strict=True)]
    colours = [style["colour"] if o or bad else theme.GREY for o, bad in zip(on, invalid, strict=True)]
    return {
        "color": colours,
        "line": {"color": colours, "width": 1.5},
        "opacity": [1.0 if o or bad else 0.75 for o, bad in zip(on, invalid, strict=True)],
        "size": [12 if o else 8 for o in on],
        "symbol": [style["symbol"] + ("-open" if bad else "") for bad in invalid],
    }


def hover_data(cell: c.Cell, name: str, words: Words = ENGLISH) -> list[Any]:
    """What a point tells on hover; the first entry is the cell id, for opening it on click."""
    title = theme.plain(f"{name} · {c.load_name(cell, words)}")
    return [cell["cell"], goodput_line(cell, words), share_line(cell, words), _other_lines(cell, words), title]


def goodput_line(cell: c.Cell, words: Words = ENGLISH) -> str:
    """Goodput beside raw output, in words."""
    return words.text(
        "goodput {goodput}, raw {raw}",
        goodput=words.per_s(cell.get("goodput_per_s"), "req"),
        raw=words.per_s(cell.get("output_tok_per_s"), "tok"),
    )


def share_line(cell: c.Cell, words: Words = ENGLISH) -> str:
    """Share inside the targets with its interval and n."""
    return words.text(
        "{share} inside targets ({low} to {high}, n = {n})",
        share=words.share(cell.get("share")),
        low=words.share(cell.get("share_low")),
        high=words.share(cell.get("share_high")),
        n=words.count(cell.get("judged") or cell.get("scheduled")),
    )


def _other_lines(cell: c.Cell, words: Words) -> str:
    felt = c.promised(cell)
    lines = [
        words.text(
            "first token p50 {p50}, p95 {p95}",
            p50=words.ms(c.percentile(felt, "ttft_ms", "p50")),
            p95=words.ms(c.percentile(felt, "ttft_ms", "p95")),
        ),
        words.text(
            "gaps p50 {p50}, p95 {p95}",
            p50=words.ms(c.percentile(felt, "gap_ms", "p50")),
            p95=words.ms(c.percentile(felt, "gap_ms", "p95")),
        ),
    ]
    lines += _sureness(cell, words)
    engine = cell.get("engine") or {}
    if engine.get("running_max") is not None:
        lines.append(
            words.text(
                "batch {mean} on average, {max} at most (limit {limit})",
                mean=words.significant(engine.get("running_mean")),
                max=words.count(engine["running_max"]),
                limit=words.count(limit_of(cell)),
            )
        )
    reason = c.why_invalid(cell, words)
    if reason:
        lines.append(words.text("can't be chosen: {reason}", reason=reason))
    return "<br>".join(theme.plain(line) for line in lines)


def _sureness(cell: c.Cell, words: Words) -> list[str]:
    """The intervals of both axes, and how surely the point belongs to the frontier, where these are known."""
    told = []
    if cell.get("goodput_per_s_low") is not None and cell.get("output_tok_per_s_low") is not None:
        told.append(
            words.text(
                "95 %: goodput {low} to {high}, raw {raw_low} to {raw_high}",
                low=words.significant(cell["goodput_per_s_low"]),
                high=words.significant(cell.get("goodput_per_s_high")),
                raw_low=words.significant(cell["output_tok_per_s_low"]),
                raw_high=words.significant(cell.get("output_tok_per_s_high")),
            )
        )
    if cell.get("on_frontier_probability") is not None:
        chance = words.share(cell["on_frontier_probability"])
        told.append(words.text("on the frontier with a probability of {chance}", chance=chance))
    return told


def limit_of(cell: c.Cell) -> float | None:
    """The configured batch limit in sequences: the cell's own `limit`, else max_num_seqs of its setting."""
    limit = cell.get("limit")
    if isinstance(limit, Mapping):
        limit = limit.get("max_num_seqs")
    value = limit if limit is not None else (cell.get("setting") or {}).get("max_num_seqs")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _frontier(points: Sequence[c.Cell], words: Words, dark: bool) -> list[theme.Trace]:
    """Step line: at each raw output, the most goodput that some setting still reaches."""
    on = sorted(
        (p["output_tok_per_s"], p["goodput_per_s"]) for p in points if p.get("on_frontier") and not c.why_invalid(p)
    )
    line = {
        "x": [x for x, _ in on],
        "y": [y for _, y in on],
        "mode": "lines",
        "line": {"color": theme.ink(dark), "shape": "vh", "width": 2},
        "hoverinfo": "skip",
        "name": words.text("frontier"),
        "meta": {"role": "frontier"},
    }
    grey = {"color": theme.GREY, "opacity": 0.75, "size": 8}
    hollow = {"color": theme.ink(dark), "line": {"width": 1.5}, "size": 8, "symbol": "circle-open"}
    told = [line, {**_entry(words.text("beaten by another point")), "marker": grey}]
    if any(c.why_invalid(p) for p in points):
        told.append({**_entry(words.text("not valid (hollow)")), "marker": hollow})
    return told


def _marks(result: c.Result, words: Words, dark: bool) -> list[theme.Trace]:
    """The pick ringed, and the throughput winner named as what not to take."""
    pick, raw = c.chosen_cell(result), c.raw_winner(result)
    same = pick is not None and raw is not None and pick["cell"] == raw["cell"]
    label = words.text("the pick, also most raw tokens") if same else words.text("the pick")
    not_pick = words.text("most raw tokens – not the pick")
    return [
        _mark(pick, "pick", label, "star-open", dark),
        _mark(None if same else raw, "raw", not_pick, "x-thin-open", dark),
    ]


def _place_labels(traces: Sequence[theme.Trace], reach: tuple[float, float], *, log: bool) -> None:
    """Sets each mark's label where it covers least of the points and lines that `traces` hold."""
    roles: dict[str, list[tuple[theme.Trace, list[Place]]]] = {}
    for trace, places in zip(traces, _relative(traces, reach, log), strict=True):
        roles.setdefault(trace["meta"]["role"], []).append((trace, places))
    marked = [(t, at[0]) for role in ("pick", "raw") for t, at in roles[role] if at]
    dots = [
        (x, y, size) for t, at in roles.get("points", []) for (x, y), size in zip(at, t["marker"]["size"], strict=True)
    ]
    lines = [at for _, at in roles.get("path", [])] + [_stepped(at) for _, at in roles["frontier"]]
    labels = [Label(*at, t["text"][0], t["marker"]["size"]) for t, at in marked]
    for (trace, _), place in zip(marked, label_places(labels, dots, lines), strict=True):
        trace["textposition"] = place


def _relative(traces: Sequence[theme.Trace], reach: tuple[float, float], log: bool) -> list[list[Place]]:
    """Where the points of each trace lie in the plot."""
    across = [[math.log10(x) if log else x for x in t["x"] if x is not None] for t in traces]
    known = [x for xs in across for x in xs] or [0.0]
    span = max(known) - min(known)
    left, wide = min(known) - BESIDE * span, (1 + 2 * BESIDE) * span
    up = [[(y - reach[0]) / (reach[1] - reach[0]) for y in t["y"] if y is not None] for t in traces]
    return [
        [((x - left) / wide if wide else 0.5, y) for x, y in zip(*at, strict=True)]
        for at in zip(across, up, strict=True)
    ]


def _stepped(places: Sequence[Place]) -> list[Place]:
    """With the corners of a line that goes down first, then to the right."""
    corners = [[(a[0], b[1]), b] for a, b in pairwise(places)]
    return [*places[:1], *(place for both in corners for place in both)]


def _mark(cell: c.Cell | None, role: str, label: str, symbol: str, dark: bool) -> theme.Trace:
    there = cell is not None and cell.get("output_tok_per_s") is not None
    return {
        "x": [cell["output_tok_per_s"]] if cell is not None and there else [],
        "y": [cell["goodput_per_s"]] if cell is not None and there else [],
        "mode": "markers+text",
        "text": [label] if there else [],
        "textposition": "top center",
        "textfont": {"size": 13, "weight": 700 if role == "pick" else 400},
        "cliponaxis": False,
        "marker": {
            "color": theme.ink(dark),
            "line": {"width": 2},
            "size": 24 if role == "pick" else 16,
            "symbol": symbol,
        },
        "hoverinfo": "skip",
        "showlegend": False,
        "meta": {"role": role, "label": label},
    }
