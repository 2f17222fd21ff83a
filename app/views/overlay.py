"""Several results in one picture: frontier over frontier, and one row each. PURE."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from app.views import cells as c
from app.views import theme
from app.views.frontier import HOVER, hover_data
from app.words import ENGLISH, NOTHING, Words

LEGEND_LETTERS = 40  # of a line: what fits beside its mark on a phone


def measure_titles(words: Words = ENGLISH, percentile: str | None = None) -> dict[str, str]:
    """What can be drawn against raw output; with `percentile` that of times is named."""
    which = f" · {percentile}" if percentile else ""
    times = {"ttft": words.text("first token (ms)"), "gap": words.text("gap (ms)")}
    return {"goodput": words.text("goodput (requests/s)"), **{key: title + which for key, title in times.items()}}


def stated_percentile(result: c.Result) -> str:
    """Of the usual ones the first that a result tells of its first tokens: other tools state what they like."""
    told = [x.get("ttft_ms") or {} for x in c.cells_of(result)]
    return next((p for p in ("p95", "p99", "p90", "p50") if any(t.get(p) is not None for t in told)), "p95")


def _value(cell: c.Cell, measure: str, percentile: str = "p95") -> float | None:
    if measure == "goodput":
        return cell.get("goodput_per_s")
    return c.percentile(c.promised(cell), "ttft_ms" if measure == "ttft" else "gap_ms", percentile)


def _points(result: c.Result, measure: str, percentile: str = "p95") -> list[c.Cell]:
    ran = [x for x in c.cells_of(result) if x.get("status") == "ok" and x.get("output_tok_per_s") is not None]
    return [x for x in ran if _value(x, measure, percentile) is not None]


def drawn(results: Sequence[c.Result], measure: str, percentile: str = "p95") -> list[bool]:
    """Which of the results have anything to draw of this measure; `percentile`: of times."""
    return [bool(_points(r, measure, percentile)) for r in results]


def overlay_figure(
    results: Sequence[c.Result],
    names: Sequence[str],
    words: Words = ENGLISH,
    *,
    measure: str = "goodput",
    percentile: str = "p95",
    dark: bool = False,
    height: int = 480,
) -> go.Figure:
    """Every cell of every result, a colour, marker and dash a result; of goodput its frontier as a step line.

    `customdata` of a point ends in the place of its result among `results`. `percentile`: of times.
    """
    title = measure_titles(words, percentile)[measure]
    fig = theme.figure(words.text("raw output (tokens/s)"), title, dark=dark, height=height)
    xs: list[float] = []
    ys: list[float] = []
    for index, (result, name) in enumerate(zip(results, names, strict=True)):
        points, style = _points(result, measure, percentile), theme.series_style(index)
        if not points:
            continue
        xs += [float(p["output_tok_per_s"]) for p in points]
        heights = [_value(p, measure, percentile) for p in points]
        ys += [float(y or 0.0) for y in heights]
        if measure == "goodput":
            _add_frontier(fig, points, style, name)
        _add_points(fig, points, heights, result, index, name, measure, words)
    fig.update_xaxes(**theme.axis(xs))
    if measure == "goodput":
        top = max(ys, default=1.0) or 1.0
        fig.update_yaxes(range=[-0.04 * top, 1.12 * top])
    else:
        fig.update_yaxes(**theme.axis(ys))
    return fig


def _add_frontier(fig: go.Figure, points: Sequence[c.Cell], style: dict[str, Any], name: str) -> None:
    on = sorted(
        (p["output_tok_per_s"], p["goodput_per_s"]) for p in points if p.get("on_frontier") and not c.why_invalid(p)
    )
    fig.add_scatter(
        x=[x for x, _ in on],
        y=[y for _, y in on],
        mode="lines",
        line={"shape": "vh", "width": 2.5, "color": style["colour"], "dash": style["dash"]},
        legendgroup=name,
        showlegend=False,
        hoverinfo="skip",
        meta={"role": "frontier"},
    )


def _add_points(
    fig: go.Figure,
    points: Sequence[c.Cell],
    heights: Sequence[float | None],
    result: c.Result,
    index: int,
    name: str,
    measure: str,
    words: Words,
) -> None:
    style, settings, pick = theme.series_style(index), c.setting_names(result, words), c.chosen_cell(result)
    rows = [hover_data(p, settings[c.key_of(p.get("setting") or {})], words) for p in points]
    for row in rows:
        row[4] = f"{theme.plain(name)}<br>{row[4]}"
        row.append(index)
    on = [measure != "goodput" or bool(p.get("on_frontier")) for p in points]
    picked = [pick is not None and p["cell"] == pick["cell"] for p in points]
    fig.add_scatter(
        x=[p["output_tok_per_s"] for p in points],
        y=heights,
        mode="markers",
        marker={
            "color": style["colour"],
            "symbol": [style["symbol"] + ("-open" if c.why_invalid(p) else "") for p in points],
            "size": [15 if star else 10 if o else 6 for star, o in zip(picked, on, strict=True)],
            "opacity": [1.0 if o else 0.55 for o in on],
            "line": {"width": 1.5, "color": style["colour"]},
        },
        customdata=rows,
        hovertemplate=HOVER,
        name=theme.folded(name, LEGEND_LETTERS),
        legendgroup=name,
        meta={"role": "points"},
    )


def pick_rows(results: Sequence[c.Result], names: Sequence[str], words: Words = ENGLISH) -> list[dict[str, str]]:
    """One row a result, all text: its pick and what that gives; without a pick its cell of most raw output."""
    return [_pick_row(r, n, words) for r, n in zip(results, names, strict=True)]


def pick_titles(words: Words = ENGLISH) -> dict[str, str]:
    """Key of a row of `pick_rows` -> column title."""
    return {
        "name": words.text("sweep"),
        "setting": words.text("pick"),
        "load": words.text("load"),
        "goodput": words.text("goodput"),
        "share": words.text("inside targets"),
        "ttft": "TTFT p95",
        "gap": words.text("gap p95"),
        "raw": words.text("raw output"),
    }


def _pick_row(result: c.Result, name: str, words: Words) -> dict[str, str]:
    cell = c.chosen_cell(result)
    shown = cell or max(_points(result, "ttft"), key=lambda x: x["output_tok_per_s"], default=None)
    if shown is None:
        return {**dict.fromkeys(pick_titles(words), NOTHING), "name": name}
    settings = c.setting_names(result, words)
    share = words.share(shown.get("share"))
    if shown.get("share_low") is not None:
        share += f" ({words.share(shown['share_low'])} … {words.share(shown.get('share_high'))})"
    return {
        "name": name,
        "setting": settings[c.key_of(shown.get("setting") or {})] if cell else words.text("no pick"),
        "load": c.load_name(shown, words) or NOTHING,
        "goodput": words.per_s(shown.get("goodput_per_s"), "req"),
        "share": share,
        "ttft": words.ms(c.percentile(c.promised(shown), "ttft_ms", "p95")),
        "gap": words.ms(c.percentile(c.promised(shown), "gap_ms", "p95")),
        "raw": words.per_s(shown.get("output_tok_per_s"), "tok"),
    }


def alike(names: Sequence[str]) -> list[str]:
    """Names that tell each other apart: one that comes twice is numbered."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(f"{name} ({seen[name]})" if names.count(name) > 1 else name)
    return out
