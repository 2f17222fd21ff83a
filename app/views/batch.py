"""Limit against what the server really did: batch, queue, KV cache, preemptions. PURE."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from app.views import cells as c
from app.views import theme
from app.views.bound import bound_name, bound_sentence, observed_columns, over_loads, seen_sentence, ttft_sentence
from app.views.frontier import limit_of
from app.words import ENGLISH, Words


def batch_rows(result: c.Result, words: Words = ENGLISH) -> list[dict[str, Any]]:
    """One row a setting, at the load where the most was seen at once, by the server or, where it does not tell, by its
    streams.

    Keys: cell, name, short, load, limit, bound (a word, or null), sentence, more (further sentences), streams_only (the
    most streams where the server does not tell), and the cell's `engine` object; its kv_cache_usage_max and
    num_preemptions are over all loads.
    """
    rows = []
    shorts = c.short_names(result, words)
    for key, name in c.setting_names(result, words).items():
        seen = [x for x in c.by_load(c.measured(result), key) if _most_at_once(x) is not None]
        if seen:
            top = max(seen, key=lambda x: (_most_at_once(x), x["engine"].get("running_mean") or 0))
            by = (top.get("bound") or {}).get("by")
            preemptions = _known(seen, "num_preemptions")
            beside = (over_loads(result, key, words), seen_sentence(top, words), ttft_sentence(top, words))
            rows.append(
                {
                    **dict.fromkeys(key for key, _, _ in observed_columns(words)),
                    **top["engine"],
                    "streams_only": None if top["engine"].get("running_max") is not None else _most_at_once(top),
                    "cell": top["cell"],
                    "name": name,
                    "short": shorts[key],
                    "load": c.load_name(top, words),
                    "limit": limit_of(top),
                    "kv_cache_usage_max": max(_known(seen, "kv_cache_usage_max"), default=None),
                    "num_preemptions": sum(preemptions) if preemptions else None,
                    "bound": bound_name(by, words) if by else None,
                    "sentence": bound_sentence(top, words) or limit_sentence(top, words),
                    "more": [s for s in beside if s],
                }
            )
    return rows


def _most_at_once(cell: c.Cell) -> float | None:
    engine = cell.get("engine") or {}
    most = engine.get("running_max")
    value = most if most is not None else engine.get("streams_max")
    return None if value is None else float(value)


def _known(cells: Sequence[c.Cell], key: str) -> list[float]:
    return [x["engine"][key] for x in cells if (x.get("engine") or {}).get(key) is not None]


def limit_sentence(cell: c.Cell, words: Words = ENGLISH) -> str:
    """`Limit 256, never above 37 at once; KV cache up to 97 %; 12 preemptions.`"""
    engine = cell.get("engine") or {}
    limit, most = limit_of(cell), engine.get("running_max")
    if most is None:
        return words.text("The server does not tell how many requests it runs at once.")
    most = max(most, engine.get("streams_max") or 0)  # short requests fall between two looks at the server
    if limit is None:
        parts = [words.text("At most {most} at once", most=words.count(most))]
    elif most >= limit:
        parts = [words.text("Limit {limit}, reached", limit=words.count(limit))]
    else:
        parts = [
            words.text("Limit {limit}, never above {most} at once", limit=words.count(limit), most=words.count(most))
        ]
    if engine.get("waiting_max"):
        parts.append(words.text("up to {waiting} waiting", waiting=words.count(engine["waiting_max"])))
    if engine.get("kv_cache_usage_max") is not None:
        parts.append(words.text("KV cache up to {share}", share=words.share(engine["kv_cache_usage_max"])))
    if engine.get("num_preemptions") is not None:
        n = int(engine["num_preemptions"])
        parts.append(words.plural("{n} preemption", "{n} preemptions", n) if n else words.text("no preemptions"))
    return "; ".join(parts) + "."


def batch_figure(result: c.Result, words: Words = ENGLISH, *, dark: bool = False) -> go.Figure:
    """A row a setting: the limit as a bar mark, the batch as the server tells it and as its streams show it from
    outside, the longest queue as a cross."""
    rows = batch_rows(result, words)
    fig = theme.figure(words.text("requests"), "", dark=dark, height=150 + 34 * max(len(rows), 1))
    theme.name_legend(fig, c.short_title(result))
    names = [theme.plain(r["short"]) for r in rows]
    for y, row in zip(names, rows, strict=True):
        ends = [v for v in (row["running_mean"], row["limit"], _most_at_once({"engine": row})) if v is not None]
        if not ends:
            continue
        line = {"color": theme.GREY, "width": 1, "dash": "dot"}
        fig.add_scatter(x=[min(ends), max(ends)], y=[y, y], mode="lines", line=line, hoverinfo="skip", showlegend=False)
    marks = (
        ("limit", words.text("limit"), "line-ns-open", theme.ink(dark), 18),
        ("running_mean", words.text("running, average"), "circle", theme.OKABE_ITO[0], 10),
        ("running_max", words.text("running, most"), "diamond", theme.OKABE_ITO[1], 11),
        ("streams_only", words.text("streams, most (nothing told)"), "diamond-open", theme.OKABE_ITO[1], 11),
        ("arrivals_together_mean", words.text("arriving together"), "triangle-up-open", theme.OKABE_ITO[2], 10),
        ("waiting_max", words.text("waiting, most"), "x", theme.OKABE_ITO[3], 9),
    )
    hover = [f"{theme.plain(r['name'])} · {theme.plain(r['load'])}<br>{theme.plain(r['sentence'])}" for r in rows]
    for key, label, symbol, colour, size in marks:
        if key == "streams_only" and all(r[key] is None for r in rows):
            continue
        fig.add_scatter(
            x=[r[key] for r in rows],
            y=names,
            mode="markers",
            name=label,
            marker={"symbol": symbol, "color": colour, "size": size, "line": {"width": 3 if key == "limit" else 1}},
            customdata=[[r["cell"]] for r in rows],
            text=hover,
            hovertemplate="%{text}<extra></extra>",
        )
    values = [r[k] for r in rows for k, *_ in marks if r[k] is not None and r[k] > 0]
    fig.update_xaxes(**theme.axis(values))
    fig.update_yaxes(type="category", autorange="reversed")
    return fig
