"""Share of requests inside the targets, by class and load, with intervals. PURE."""

from typing import Any

import plotly.graph_objects as go

from app.views import cells as c
from app.views import theme
from app.words import ENGLISH, Words


def share_figure(
    result: c.Result, class_name: str, words: Words = ENGLISH, *, dark: bool = False, height: int = 400
) -> go.Figure:
    """Share of one class against load, a line a setting, 95 % intervals as bars, the share wanted as a dashed line."""
    ran = c.measured(result)
    axis = c.load_of(ran[0])[0] if ran else "load"
    title = words.text("share of {name} inside targets (%)", name=theme.plain(class_name))
    fig = theme.figure(c.load_title(axis, words), title, dark=dark, height=height)
    shorts = c.short_names(result, words)
    numbers = [v for x in ran if (v := c.load_of(x)[1]) is not None]
    named = None if numbers else {x["cell"]: theme.plain(c.load_name(x, words)) for x in ran}
    caps = {key for x in ran for key in c.extra_load(x)}
    if named and len(caps) == 1:  # the axis says what they are
        (cap,) = caps
        named = {x["cell"]: theme.plain(c.extra_load(x).get(cap, "")) for x in ran}
        fig.update_xaxes(title_text=theme.plain(cap))
    for index, (key, name) in enumerate(c.setting_names(result, words).items()):
        mine = [x for x in c.by_load(ran, key) if _of_class(x, class_name).get("share") is not None]
        if mine:
            xs = [c.load_of(x)[1] if named is None else named[x["cell"]] for x in mine]
            _add_series(fig, mine, xs, class_name, (name, shorts[key]), index, words)
    theme.name_legend(fig, c.short_title(result))
    places: list[Any] = [min(numbers), max(numbers)] if numbers else list(dict.fromkeys((named or {}).values()))
    wanted = result.get("share_target")
    if wanted is not None and places:
        fig.add_scatter(
            x=[places[0], places[-1]],
            y=[100 * wanted] * 2,
            mode="lines",
            line={"color": theme.TARGET, "dash": "dash", "width": 2},
            name=words.text("wanted: {share}", share=words.share(wanted)),
            hoverinfo="skip",
        )
        if places[0] == places[-1]:  # a line from a point to itself is none
            fig.add_hline(y=100 * wanted, line={"color": theme.TARGET, "dash": "dash", "width": 2})
    # caps alone are no numbers on one axis: each way has its name there
    names_axis = {"type": "category", "categoryorder": "array", "categoryarray": places}
    fig.update_xaxes(**(theme.axis(numbers) if named is None else names_axis))
    fig.update_yaxes(range=[-3, 103])
    return fig


def _of_class(cell: c.Cell, class_name: str) -> dict[str, Any]:
    found: dict[str, Any] = (cell.get("classes") or {}).get(class_name) or {}
    return found


def _add_series(
    fig: go.Figure,
    mine: list[c.Cell],
    xs: list[Any],
    class_name: str,
    name: tuple[str, str],
    index: int,
    words: Words,
) -> None:
    style = theme.series_style(index)
    rows = [_of_class(x, class_name) for x in mine]
    shares = [float(r["share"]) for r in rows]
    high = [float(r.get("share_high") or s) for r, s in zip(rows, shares, strict=True)]
    low = [float(s if r.get("share_low") is None else r["share_low"]) for r, s in zip(rows, shares, strict=True)]
    up = [100 * max(h - s, 0.0) for h, s in zip(high, shares, strict=True)]
    down = [100 * max(s - v, 0.0) for v, s in zip(low, shares, strict=True)]
    hover = [
        theme.plain(f"{name[0]} · {c.load_name(x, words)}")
        + "<br>"
        + words.text(
            "{share} inside targets ({low} to {high}, n = {n})",
            share=words.share(r["share"]),
            low=words.share(r.get("share_low")),
            high=words.share(r.get("share_high")),
            n=words.count(r.get("scheduled")),
        )
        for x, r in zip(mine, rows, strict=True)
    ]
    fig.add_scatter(
        x=xs,
        y=[100 * s for s in shares],
        error_y={"type": "data", "array": up, "arrayminus": down, "thickness": 1.2, "width": 4},
        mode="lines+markers",
        line={"color": style["colour"], "dash": style["dash"], "width": 1.5},
        marker={
            "color": style["colour"],
            "size": 8,
            "symbol": [style["symbol"] + ("-open" if c.why_invalid(x) else "") for x in mine],
        },
        customdata=[[x["cell"]] for x in mine],
        text=hover,
        hovertemplate="%{text}<extra></extra>",
        name=theme.plain(name[1]),
    )
