"""One request, token by token: when each chunk came, what was promised, and what else ran meanwhile. PURE."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.views import theme
from app.views.timeline import bars, engine_curves, engine_texts, seconds, stacked_plots
from app.words import ENGLISH, Words

MAX_CHUNKS = 2000
MAX_OTHERS = 40
ROW_PX = 9


def chunk_times(row: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """(arrival of each chunk in s of the cell, gap before it in ms; the first has none, NaN)."""
    first = row["first_chunk_ns"]
    if first is None or pd.isna(first):
        return np.zeros(0), np.zeros(0)
    deltas = np.asarray(row["chunk_deltas_us"], dtype=np.float64)
    at = float(first) / 1e9 + np.concatenate([[0.0], np.cumsum(deltas) / 1e6])
    return at, np.concatenate([[np.nan], deltas / 1000.0])


def row_of(requests: pd.DataFrame, request: int) -> dict[str, Any]:
    """One request of a cell's request table, by its number; it must be there."""
    row = requests[requests["request"] == request].iloc[0]
    return {str(key): value for key, value in row.items()}


def others_of(requests: pd.DataFrame, request: int) -> pd.DataFrame:
    """The requests of the same cell whose time overlaps this one's, the longest overlaps of them, by arrival."""
    start, end = seconds(requests["scheduled_ns"]), seconds(requests["end_ns"])
    mine = (requests["request"] == request).to_numpy()
    from_s, until_s = start[mine][0], end[mine][0]
    overlap = np.minimum(np.nan_to_num(end, nan=np.inf), until_s) - np.maximum(start, from_s)
    found = np.flatnonzero((overlap > 0) & ~mine)
    longest = found[np.argsort(-overlap[found], kind="stable")[:MAX_OTHERS]]
    return requests.iloc[np.sort(longest)]


def request_figure(
    requests: pd.DataFrame,
    engine: pd.DataFrame,
    request: int,
    target: Mapping[str, Any] | None = None,
    words: Words = ENGLISH,
    *,
    dark: bool = False,
) -> go.Figure:
    """Gaps of one request over time with its targets, above the other requests that ran meanwhile and the engine.

    `requests`: the request table of its cell. `target`: {"ttft_ms", "gap_ms"} of its class, or null. At most the first
    2000 chunks and 40 others are drawn.
    """
    row = row_of(requests, request)
    others = others_of(requests, request)
    plots = {
        "yaxis": (words.text("time since the chunk before (ms)"), (0.62, 1.0)),
        "yaxis4": (words.text("what else ran"), (0.3, 0.57)),
        "yaxis2": (words.text("requests"), (0.14, 0.25)),
        "yaxis3": (words.text("KV (%)"), (0.0, 0.09)),
    }
    layout = stacked_plots(plots, words)
    layout["yaxis"]["rangemode"] = "tozero"
    layout["yaxis4"] |= {"range": [max(len(others), 1) - 0.5, -0.5], "showticklabels": False}
    start, end = float(row["scheduled_ns"]) / 1e9, _end_s(row)
    pad = 0.02 * max(end - start, 1e-3)
    layout["xaxis"]["range"] = [start - pad, end + pad]
    traces = [
        *_chunks(row, target, engine, words),
        *_limits(row, target, words),
        *_others(others, engine, words, dark),
        *engine_curves(engine, words),
    ]
    return theme.drawn(traces, layout, None, dark=dark, height=640 + ROW_PX * len(others))


def _end_s(row: Mapping[str, Any]) -> float:
    end = row["end_ns"]
    return float(row["scheduled_ns"] if end is None or pd.isna(end) else end) / 1e9


def _chunks(
    row: Mapping[str, Any], target: Mapping[str, Any] | None, engine: pd.DataFrame, words: Words
) -> list[theme.Trace]:
    """Each chunk at the height of the gap before it, on a stem; apart those in time and those too late."""
    at, gap = chunk_times(row)
    at, gap = at[:MAX_CHUNKS], gap[:MAX_CHUNKS]
    if not len(at):
        return []
    gap = np.where(np.isnan(gap), row["ttft_ms"], gap)
    promised = (float(target["ttft_ms"]), float(target["gap_ms"])) if target else (np.inf, np.inf)
    late = gap > np.where(np.arange(len(at)) == 0, *promised)
    state = engine_texts(engine, at, words)
    hover = [
        "<br>".join(filter(None, [_chunk_text(i, float(g), bool(bad), words), text]))
        for i, (g, bad, text) in enumerate(zip(gap, late, state, strict=True))
    ]
    stems_y = np.column_stack([np.zeros(len(gap)), gap, np.full(len(gap), np.nan)]).ravel()
    stems: theme.Trace = {
        "x": np.repeat(at, 3).round(4).tolist(),
        "y": [None if np.isnan(v) else float(v) for v in stems_y],
        "mode": "lines",
        "line": {"color": theme.GREY, "width": 1},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    kinds = (
        (words.text("chunk in time"), np.flatnonzero(~late), theme.OKABE_ITO[0], "circle"),
        (words.text("chunk too late"), np.flatnonzero(late), theme.TARGET, "x"),
    )
    marks: list[theme.Trace] = [
        {
            "x": at[index].round(4).tolist(),
            "y": gap[index].tolist(),
            "mode": "markers",
            "marker": {"color": colour, "size": 7, "symbol": symbol},
            "name": name,
            "text": [hover[i] for i in index],
            "hovertemplate": "%{text}<extra></extra>",
        }
        for name, index, colour, symbol in kinds
        if len(index)
    ]
    return [stems, *marks]


def _chunk_text(number: int, gap_ms: float, late: bool, words: Words) -> str:
    text = (
        words.text("first chunk after {time}", time=words.ms(gap_ms))
        if number == 0
        else words.text("chunk {n}, {time} after the one before", n=words.count(number + 1), time=words.ms(gap_ms))
    )
    return f"{text} – {words.text('too late')}" if late else text


def _limits(row: Mapping[str, Any], target: Mapping[str, Any] | None, words: Words) -> list[theme.Trace]:
    """The promise for the first chunk as an upright, that for the gaps as a level line."""
    if not target:
        return []
    begin = float(row["sent_ns"] if row.get("closed") and not pd.isna(row["sent_ns"]) else row["scheduled_ns"]) / 1e9
    due, end = begin + float(target["ttft_ms"]) / 1000, _end_s(row)
    style: theme.Trace = {
        "line": {"color": theme.TARGET, "dash": "dash", "width": 2},
        "hoverinfo": "skip",
        "showlegend": False,
        "textfont": {"color": theme.TARGET},
        "mode": "lines+text",
        "cliponaxis": False,
    }
    gap_text = words.text("gap target {value}", value=words.ms(target["gap_ms"]))
    level, across = [float(target["gap_ms"])] * 2, [begin, max(end, due)]
    lines = [{"x": across, "y": level, "text": ["", gap_text], "textposition": "top left", **style}]
    if due < end + (end - begin):  # a target far behind the end would squeeze the chunks
        first_text = words.text("first token due")
        top = max(float(target["gap_ms"]), float(np.nan_to_num(row["ttft_ms"])))
        # towards the middle: at the right edge the words would be cut
        place = "top left" if due - begin > (max(end, due) - begin) / 2 else "top right"
        lines.append({"x": [due, due], "y": [0, top], "text": ["", first_text], "textposition": place, **style})
    return lines


def _others(others: pd.DataFrame, engine: pd.DataFrame, words: Words, dark: bool) -> list[theme.Trace]:
    """Bars of the others in a plot of their own."""
    if not len(others):
        return []
    return [{**bar, "yaxis": "y4"} for bar in bars(others.reset_index(drop=True), engine, words, dark=dark)]


def request_sentences(row: Mapping[str, Any], target: Mapping[str, Any] | None, words: Words = ENGLISH) -> list[str]:
    """What became of one request's promises: first token, then gaps."""
    return [_first_sentence(row["ttft_ms"], target, words), *_gap_sentences(row, target, words)]


def _first_sentence(ttft_ms: float, target: Mapping[str, Any] | None, words: Words) -> str:
    if pd.isna(ttft_ms):
        return words.text("No first token came.")
    if not target:
        return words.text("First token after {time}.", time=words.ms(ttft_ms))
    return words.text(
        "First token after {time}, promised within {target}.",
        time=words.ms(ttft_ms),
        target=words.ms(target["ttft_ms"]),
    )


def _gap_sentences(row: Mapping[str, Any], target: Mapping[str, Any] | None, words: Words) -> list[str]:
    if pd.isna(row["gap_max_ms"]):
        return []
    values = {"longest": words.ms(row["gap_max_ms"]), "p99": words.ms(row["gap_p99_ms"])}
    if not target:
        return [words.text("Longest gap {longest}, 99 % of its gaps within {p99}.", **values)]
    return [
        words.text(
            "Longest gap {longest}, 99 % of its gaps within {p99}; promised within {target}.",
            target=words.ms(target["gap_ms"]),
            **values,
        )
    ]
