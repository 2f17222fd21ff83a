"""First-token and gap percentiles against raw output, with the targets. PURE."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from app.views import cells as c
from app.views import theme
from app.words import ENGLISH, Words

# two-sided 95 % order-statistic intervals exist from these n on (design page "metrics")
NEEDED_N = {"p50": 6, "p90": 36, "p95": 72, "p99": 368}
SHOWN = {"ttft_ms": c.PERCENTILES, "gap_ms": ("p50", "p95", "p99")}


def percentiles_figure(
    result: c.Result,
    words: Words = ENGLISH,
    *,
    shown: str = "p95",
    others: bool = True,
    dark: bool = False,
    height: int = 620,
) -> go.Figure:
    """Two plots, one above the other: first-token time and token gaps, a line a setting through its loads.

    All percentiles are in the figure; those other than `shown` are hidden (`visible` False, `meta.percentile` tells
    which is which), or left out without `others`. A percentile whose sample is too small is a gap in the line with a
    hollow grey mark that says so.
    """
    points = [c.promised(p) for p in c.measured(result) if p.get("output_tok_per_s") is not None]
    names, shorts = c.setting_names(result, words), c.short_names(result, words)
    cells, traces, scales = c.by_settings(points), list[theme.Trace](), list[theme.Trace]()
    for row, metric in enumerate(("ttft_ms", "gap_ms"), start=1):
        for name in SHOWN[metric]:
            if name != shown and not others:
                continue
            for index, (key, label) in enumerate(names.items()):
                mine = cells.get(key, [])
                traces.append(_line(row, metric, name, mine, index, (label, shorts[key]), name == shown, words))
            traces += _missing(row, metric, name, points, name == shown, words)
        traces += _targets(row, metric, result, points, words)
        values = [v for p in points for n in SHOWN[metric] if (v := c.percentile(p, metric, n)) is not None]
        scales.append(theme.axis(values))
    output = theme.axis([p["output_tok_per_s"] for p in points])
    raw = {"text": words.text("raw output (tokens/s)")}
    first, gap = {"text": words.text("first token (ms)")}, {"text": words.text("gap between chunks (ms)")}
    axes = {
        "xaxis": {"anchor": "y", "domain": [0.0, 1.0], "matches": "x2", "showticklabels": False, **output},
        "xaxis2": {"anchor": "y2", "domain": [0.0, 1.0], "title": raw, **output},
        "yaxis": {"anchor": "x", "domain": [0.535, 1.0], "title": first, **scales[0]},
        "yaxis2": {"anchor": "x2", "domain": [0.0, 0.465], "title": gap, **scales[1]},
    }
    return theme.drawn(traces, axes, c.short_title(result), dark=dark, height=height)


def _axes(row: int) -> theme.Trace:
    """The plot of that row, from 1."""
    return {"xaxis": "x", "yaxis": "y"} if row == 1 else {"xaxis": "x2", "yaxis": "y2"}


def _line(
    row: int,
    metric: str,
    name: str,
    mine: Sequence[c.Cell],
    index: int,
    label: tuple[str, str],
    visible: bool,
    words: Words,
) -> theme.Trace:
    style = theme.series_style(index)
    values = [c.percentile(p, metric, name) for p in mine]
    hover = [
        theme.plain(f"{label[0]} · {c.load_name(p, words)}") + "<br>" + value_text(p, metric, name, words) for p in mine
    ]
    spans = [_interval(p, metric, name) for p in mine]
    drawn = [(v, low, high) for v, (low, high) in zip(values, spans, strict=True)]
    return {
        **_axes(row),
        "x": [p["output_tok_per_s"] for p in mine],
        "y": values,
        "error_y": {
            "array": [high - v if v is not None and high is not None else 0.0 for v, _, high in drawn],
            "arrayminus": [v - low if v is not None and low is not None else 0.0 for v, low, _ in drawn],
            "thickness": 1,
            "type": "data",
            "width": 3,
        },
        "mode": "lines+markers",
        "line": {"color": style["colour"], "dash": style["dash"], "width": 1.5},
        "marker": {
            "color": style["colour"],
            "size": 8,
            "symbol": [style["symbol"] + ("-open" if c.why_invalid(p) else "") for p in mine],
        },
        "customdata": [[p["cell"]] for p in mine],
        "text": hover,
        "hovertemplate": "%{text}<extra></extra>",
        "name": theme.plain(label[1]),
        "legendgroup": label[0],
        "showlegend": row == 1,
        "connectgaps": False,
        "visible": visible,
        "meta": {"role": "percentile", "percentile": name},
    }


def _n(cell: c.Cell, metric: str) -> int | None:
    n = (cell.get(metric) or {}).get("n")
    return int(n) if n is not None else None


def _interval(cell: c.Cell, metric: str, name: str) -> tuple[float | None, float | None]:
    told = cell.get(metric) or {}
    return told.get(f"{name}_low"), told.get(f"{name}_high")


def value_text(cell: c.Cell, metric: str, name: str, words: Words = ENGLISH) -> str:
    """`p95 820 ms (610 ms to 1.20 s, n = 98)`; without an interval the value and n."""
    low, high = _interval(cell, metric, name)
    shown = {"name": name, "value": words.ms(c.percentile(cell, metric, name)), "n": words.count(_n(cell, metric))}
    if low is None and high is None:
        return words.text("{name} {value} (n = {n})", **shown)
    if low is not None and high is not None:
        return words.text("{name} {value} ({low} to {high}, n = {n})", low=words.ms(low), high=words.ms(high), **shown)
    return words.text("{name} {value} (upper end not known yet, n = {n})", **shown)


def missing_text(cell: c.Cell, metric: str, name: str, words: Words = ENGLISH) -> str:
    """Why there is no number: `p99: n too small (62, needs 368)`."""
    return words.text(
        "{name}: n too small ({n}, needs {needed})",
        name=name,
        n=words.count(_n(cell, metric)),
        needed=words.count(((cell.get(metric) or {}).get("needs") or {}).get(name, NEEDED_N[name])),
    )


def _missing(
    row: int, metric: str, name: str, points: Sequence[c.Cell], visible: bool, words: Words
) -> list[theme.Trace]:
    """A hollow mark at the highest percentile that is known, for those that are not."""
    found: list[tuple[c.Cell, float]] = []
    for p in points:
        known = [v for n in SHOWN[metric] if (v := c.percentile(p, metric, n)) is not None]
        if c.percentile(p, metric, name) is None and known:
            found.append((p, max(known)))
    if not found:
        return []
    told = [f"{theme.plain(c.load_name(p, words))}<br>{missing_text(p, metric, name, words)}" for p, _ in found]
    trace = {
        **_axes(row),
        "x": [p["output_tok_per_s"] for p, _ in found],
        "y": [v for _, v in found],
        "mode": "markers",
        "marker": {"color": theme.GREY, "size": 9, "symbol": "circle-open-dot"},
        "text": told,
        "hovertemplate": "%{text}<extra></extra>",
        "name": words.text("n too small"),
        "legendgroup": "n too small",
        "showlegend": row == 1,
        "visible": visible,
        "meta": {"role": "percentile", "percentile": name},
    }
    return [trace]


def _targets(row: int, metric: str, result: c.Result, points: Sequence[c.Cell], words: Words) -> list[theme.Trace]:
    """Dashed lines at the targets, drawn as data: labels of layout lines get lost on log axes."""
    xs = [p["output_tok_per_s"] for p in points]
    targets = {k: t[metric] for k, t in targets_of(result).items() if t.get(metric) is not None}
    drawn: list[theme.Trace] = []
    for class_name, value in targets.items() if xs else ():
        # classes with one value share one label
        same = [k for k, v in targets.items() if v == value]
        text = words.text("{name} target {value}", name=", ".join(same), value=words.ms(value))
        drawn.append(
            {
                **_axes(row),
                "x": [min(xs), max(xs)],
                "y": [value] * 2,
                "mode": "lines+text",
                "line": {"color": theme.TARGET, "dash": "dash", "width": 2},
                "text": ["", theme.plain(text) if same[0] == class_name else ""],
                "textposition": "top left",
                "textfont": {"color": theme.TARGET},
                "cliponaxis": False,
                "hoverinfo": "skip",
                "showlegend": False,
                "meta": {"role": "target", "class": class_name, "metric": metric},
            }
        )
    return drawn


def targets_of(result: c.Result) -> dict[str, Mapping[str, Any]]:
    """class -> {ttft_ms, gap_ms, rule}; classes without targets are left out."""
    return {k: v for k, v in (result.get("targets") or {}).items() if v}
