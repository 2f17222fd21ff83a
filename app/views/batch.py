"""Limit against what the server really did: batch, queue, KV cache, preemptions. PURE."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from app.views import cells as c
from app.views import theme
from app.views.frontier import limit_of
from app.words import ENGLISH, Words


def batch_rows(result: c.Result, words: Words = ENGLISH) -> list[dict[str, Any]]:
    """One row a setting, at the load where it ran the most at once.

    Keys: cell, name, short, load, limit, running_mean, running_max, waiting_max, kv_cache_usage_max, num_preemptions,
    sentence.
    """
    rows = []
    shorts = c.short_names(result, words)
    for key, name in c.setting_names(result, words).items():
        seen = [x for x in c.by_load(c.measured(result), key) if (x.get("engine") or {}).get("running_max") is not None]
        if seen:
            top = max(seen, key=lambda x: (x["engine"]["running_max"], x["engine"].get("running_mean") or 0))
            engine = top["engine"]
            rows.append(
                {
                    "cell": top["cell"],
                    "name": name,
                    "short": shorts[key],
                    "load": c.load_name(top, words),
                    "limit": limit_of(top),
                    "running_mean": engine.get("running_mean"),
                    "running_max": engine.get("running_max"),
                    "waiting_max": engine.get("waiting_max"),
                    "kv_cache_usage_max": max(_known(seen, "kv_cache_usage_max"), default=None),
                    "num_preemptions": sum(_known(seen, "num_preemptions")),
                    "sentence": limit_sentence(top, words),
                }
            )
    return rows


def _known(cells: Sequence[c.Cell], key: str) -> list[float]:
    return [x["engine"][key] for x in cells if (x.get("engine") or {}).get(key) is not None]


def limit_sentence(cell: c.Cell, words: Words = ENGLISH) -> str:
    """`Limit 256, never above 37 at once; KV cache up to 97 %; 12 preemptions.`"""
    engine = cell.get("engine") or {}
    limit, most = limit_of(cell), engine.get("running_max")
    if most is None:
        return words.text("The server does not tell how many requests it runs at once.")
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
    """A row a setting: the limit as a bar mark, the batch that was seen as dots, the longest queue as a cross."""
    rows = batch_rows(result, words)
    fig = theme.figure(words.text("requests"), "", dark=dark, height=150 + 34 * max(len(rows), 1))
    theme.name_legend(fig, c.short_title(result))
    names = [theme.plain(r["short"]) for r in rows]
    for y, row in zip(names, rows, strict=True):
        ends = [v for v in (row["running_mean"], row["limit"], row["running_max"]) if v is not None]
        line = {"color": theme.GREY, "width": 1, "dash": "dot"}
        fig.add_scatter(x=[min(ends), max(ends)], y=[y, y], mode="lines", line=line, hoverinfo="skip", showlegend=False)
    marks = (
        ("limit", words.text("limit"), "line-ns-open", theme.ink(dark), 18),
        ("running_mean", words.text("running, average"), "circle", theme.OKABE_ITO[0], 10),
        ("running_max", words.text("running, most"), "diamond", theme.OKABE_ITO[1], 11),
        ("waiting_max", words.text("waiting, most"), "x", theme.OKABE_ITO[3], 9),
    )
    hover = [f"{theme.plain(r['name'])} · {theme.plain(r['load'])}<br>{theme.plain(r['sentence'])}" for r in rows]
    for key, label, symbol, colour, size in marks:
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
