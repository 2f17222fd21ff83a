"""Small charts of a sweep that runs, from the lines of live.jsonl. PURE. At most 120 points a line."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from app.views import theme
from app.words import ENGLISH, Words

MAX_POINTS = 120


def thin(lines: Sequence[Mapping[str, Any]], most: int = MAX_POINTS) -> list[Mapping[str, Any]]:
    """Evenly spaced lines, the last one always among them."""
    step = -(-len(lines) // most) if lines else 1
    return list(lines[::-1][::step])[::-1]


def _chart(
    lines: Sequence[Mapping[str, Any]],
    keys: Mapping[str, str],
    y_title: str,
    words: Words,
    dark: bool,
    height: int = 220,
) -> go.Figure:
    fig = theme.figure(words.text("time (s)"), y_title, dark=dark, height=height)
    kept = thin(lines)
    seconds = [line.get("at_s") for line in kept]
    values: list[float | None] = []
    for index, (key, name) in enumerate(keys.items()):
        style = theme.series_style(index)
        column = [line.get(key) for line in kept]
        values += column
        fig.add_scatter(
            x=seconds, y=column, mode="lines+markers", marker={"size": 3}, name=name, connectgaps=False,
            line={"color": style["colour"], "dash": style["dash"], "width": 2},
            hovertemplate=name + ": %{y:.3~s}<extra></extra>",
        )  # fmt: skip
    fig.update_layout(hovermode="x unified")
    if not any(v is not None for v in values):  # plotly would draw an empty plot from -1 s on
        fig.update_xaxes(range=[0, 10])
    fig.update_yaxes(**theme.axis(values))
    return fig


def latency_figure(lines: Sequence[Mapping[str, Any]], words: Words = ENGLISH, *, dark: bool = False) -> go.Figure:
    """First-token times, second by second."""
    keys = {"ttft_p50_ms": "p50", "ttft_p95_ms": "p95"}
    return _chart(lines, keys, words.text("first token (ms)"), words, dark)


def gap_figure(lines: Sequence[Mapping[str, Any]], words: Words = ENGLISH, *, dark: bool = False) -> go.Figure:
    """Gaps between chunks, second by second."""
    return _chart(lines, {"gap_p50_ms": "p50", "gap_p95_ms": "p95"}, words.text("gap (ms)"), words, dark)


def batch_figure(lines: Sequence[Mapping[str, Any]], words: Words = ENGLISH, *, dark: bool = False) -> go.Figure:
    """What the server runs and what waits."""
    keys = {"running": words.text("running"), "waiting": words.text("waiting")}
    return _chart(lines, keys, words.text("requests"), words, dark)


def kv_figure(lines: Sequence[Mapping[str, Any]], words: Words = ENGLISH, *, dark: bool = False) -> go.Figure:
    """Fill of the KV cache."""
    shares = [
        {**line, "kv": None if line.get("kv_cache_usage") is None else 100 * line["kv_cache_usage"]} for line in lines
    ]
    fig = _chart(shares, {"kv": words.text("KV cache")}, words.text("KV cache (%)"), words, dark)
    fig.update_yaxes(range=[0, 102], type="linear", tickvals=None)
    return fig


def client_figure(lines: Sequence[Mapping[str, Any]], words: Words = ENGLISH, *, dark: bool = False) -> go.Figure:
    """Our own lateness: is the load generator the limit?"""
    return _chart(lines, {"loop_lag_ms": words.text("loop lag")}, words.text("loop lag (ms)"), words, dark)
