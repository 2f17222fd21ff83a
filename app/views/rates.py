"""The largest rate that each setting keeps its promises at, as a search for it found. PURE."""

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from app.views import cells as c
from app.views import theme
from app.words import ENGLISH, Words


def rate_rows(result: c.Result, words: Words = ENGLISH) -> list[dict[str, Any]]:
    """One row a setting of the result's `max_rates`: name, short, rate, low, high (null: not known), probes,
    ill_defined, reason."""
    names, shorts = c.setting_names(result, words), c.short_names(result, words)
    rows = []
    for found in result.get("max_rates") or []:
        setting, caps = found.get("setting") or {}, found.get("caps") or {}
        key = c.key_of(setting)
        name = names.get(key) or c.setting_name(setting, list(setting), words)
        beside = "".join(f", {k} {v}" for k, v in caps.items())
        values = {**(found.get("reason_values") or {}), "setting": name + beside, **_loads(found, words)}
        if values.get("why"):
            values["why"] = words.said(values["why"])
        reason = [words.text(template, **values) for template in found.get("reason_templates") or []]
        rows.append(
            {
                "name": name + beside,
                "short": shorts.get(key, name) + beside,
                "rate": found.get("load"),
                "low": found.get("low"),
                "high": found.get("high"),
                "probes": found.get("probes"),
                "ill_defined": bool(found.get("ill_defined")),
                "reason": " ".join(reason) or words.said(found.get("reason") or ""),
            }
        )
    return rows


def _loads(found: Mapping[str, Any], words: Words) -> dict[str, str]:
    """Its load and the ends of its interval in the reader's language, as far as they are known."""
    level = {"load": found.get("high") if found.get("load") is None else found["load"]}
    known = {**level, **{k: found.get(k) for k in ("low", "high")}}
    return {k: c.load_name({"load": {str(found.get("axis")): v}}, words) for k, v in known.items() if v is not None}


def rates_figure(result: c.Result, words: Words = ENGLISH, *, dark: bool = False) -> go.Figure:
    """A point with its interval for each setting that has a rate; a hollow one where the rate is ill-defined."""
    rows = [r for r in rate_rows(result, words) if r["rate"] is not None]
    axis = next((str(found.get("axis")) for found in result.get("max_rates") or []), "load")
    title = words.text("largest {load} that keeps the promises", load=c.load_title(axis, words))
    fig = theme.figure("", "", dark=dark, height=150 + 34 * max(len(rows), 1))
    fig.update_xaxes(title_text=theme.folded(title, 44))  # on a phone one line would be cut at both ends
    for ill, symbol, name in (
        (False, "circle", words.text("found")),
        (True, "circle-open", words.text("ill-defined (hollow)")),
    ):
        mine = [r for r in rows if r["ill_defined"] is ill]
        if not mine:
            continue
        fig.add_scatter(
            x=[r["rate"] for r in mine],
            y=[theme.plain(r["short"]) for r in mine],
            error_x={
                "type": "data",
                "array": [max((r["high"] or r["rate"]) - r["rate"], 0.0) for r in mine],
                "arrayminus": [max(r["rate"] - (r["rate"] if r["low"] is None else r["low"]), 0.0) for r in mine],
                "thickness": 1.5,
                "width": 6,
            },
            mode="markers",
            marker={"color": theme.OKABE_ITO[0], "symbol": symbol, "size": 11, "line": {"width": 2}},
            name=name,
            text=[f"{theme.plain(r['name'])}<br>{_interval(r, words)}" for r in mine],
            hovertemplate="%{text}<extra></extra>",
        )
    fig.update_yaxes(type="category", autorange="reversed")
    fig.update_xaxes(rangemode="tozero")
    return fig


def _interval(row: Mapping[str, Any], words: Words) -> str:
    return words.text(
        "{rate} (95 % interval {low} to {high}, {n} cells)",
        rate=words.significant(row["rate"]),
        low=words.significant(row["low"]),
        high=words.significant(row["high"]),
        n=words.count(row["probes"]),
    )
