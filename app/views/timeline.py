"""One cell in time: requests as bars, chunks as ticks, engine curves below on the same time axis. PURE."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.views import theme
from app.words import ENGLISH, Words

MAX_TICKS = 4000
CROWDED = 1500
TELLABLE = 400  # so many usual gaps side by side fill the width with ticks that can still be told apart
MAX_REQUESTS = 300
MAX_SAMPLES = 600


def timeline_figure(
    requests: pd.DataFrame,
    engine: pd.DataFrame,
    words: Words = ENGLISH,
    *,
    from_s: float = 0.0,
    marked: int | None = None,
    dark: bool = False,
) -> go.Figure:
    """`requests`: rows of analysis' request table of one cell; `engine`: its EngineSample rows. x in s of the cell.

    Drawn are at most 300 requests, the first that arrive from `from_s` on, 4000 ticks and 600 samples, so that a phone
    keeps up. `marked`: a request whose bar is framed. `customdata` of a bar is [request, class]. The server does not
    tell when a single request left its queue: waiting and prefill are one bar.
    """
    plots = {
        "yaxis": (words.text("request, by arrival"), (0.47, 1.0)),
        "yaxis2": (words.text("requests"), (0.22, 0.41)),
        "yaxis3": (words.text("KV (%)"), (0.0, 0.16)),
    }
    layout = stacked_plots(plots, words)
    layout["yaxis"]["autorange"] = "reversed"
    traces: list[theme.Trace] = []
    arrived = requests.sort_values("scheduled_ns", kind="stable")
    arrived = arrived[seconds(arrived["scheduled_ns"]) >= from_s]
    shown = arrived.head(MAX_REQUESTS).reset_index(drop=True)
    if len(shown):
        traces += [*bars(shown, engine, words, marked=marked, dark=dark), *_ticks(shown, words)]
        if len(arrived) > MAX_REQUESTS:
            _, _, _, end = _ends(shown)
            layout["xaxis"]["range"] = [from_s, float(np.nanmax(end))]
    return theme.drawn([*traces, *engine_curves(engine, words)], layout, None, dark=dark, height=720)


def stacked_plots(plots: Mapping[str, tuple[str, tuple[float, float]]], words: Words) -> dict[str, Any]:
    """The layout of plots above one another on one time axis, so that the line at the pointer runs through all of them.

    `plots`: axis of the layout -> (title, (lower, upper) edge as shares of the height); yaxis2 counts requests, yaxis3
    is the KV cache in percent and lies lowest.
    """
    axes: dict[str, theme.Trace] = {
        name: {"anchor": "x", "domain": list(edges), "title": {"text": title}} for name, (title, edges) in plots.items()
    }
    axes["yaxis2"]["rangemode"] = "tozero"
    axes["yaxis3"]["range"] = [0, 102]
    return {
        "bargap": 0.15,
        "barmode": "overlay",
        "xaxis": {
            "title": {"text": words.text("time in the cell (s)")},
            "anchor": "y3",
            "showspikes": True,
            "spikemode": "across",
            "spikesnap": "cursor",
            "spikethickness": 1,
            "spikedash": "dot",
            "spikecolor": theme.GREY,
        },
        **axes,
    }


def seconds(column: pd.Series) -> np.ndarray:
    """A column in ns as s; null is NaN."""
    return np.asarray(pd.to_numeric(column, errors="coerce").to_numpy(dtype=float, na_value=np.nan) / 1e9)


def _ends(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scheduled, sent, first chunk and end in s; where a stage was not reached, the stage before ends at the end."""
    scheduled, sent = seconds(rows["scheduled_ns"]), seconds(rows["sent_ns"])
    end = seconds(rows["end_ns"])
    end = np.where(np.isnan(end), scheduled, end)
    sent = np.where(np.isnan(sent), end, sent)
    first = seconds(rows["first_chunk_ns"])
    return scheduled, sent, np.where(np.isnan(first), end, first), end


def bars(
    rows: pd.DataFrame,
    engine: pd.DataFrame,
    words: Words,
    *,
    marked: int | None = None,
    dark: bool = False,
) -> list[theme.Trace]:
    """A bar for each stage of each request, from the first row downwards. Hover tells the engine at its start."""
    scheduled, sent, first, end = _ends(rows)
    ok = (rows["outcome"] == "ok").to_numpy()
    everyone = np.ones(len(rows), bool)
    stages = (
        (words.text("not sent yet"), scheduled, sent, theme.OKABE_ITO[5], everyone),
        (words.text("queue + prefill"), sent, first, theme.OKABE_ITO[1], everyone),
        (words.text("decode"), first, end, theme.OKABE_ITO[0], ok),
        (words.text("decode, then failed or cut"), first, end, theme.GREY, ~ok),
    )
    ids = rows[["request", "class_name"]].to_numpy(dtype=object)
    drawn: list[theme.Trace] = []
    framed = np.equal(ids[:, 0].astype(np.int64), -1 if marked is None else marked)
    for name, start, stop, colour, which in stages:
        index = np.flatnonzero(which & (stop > start))
        if len(index) == 0:
            continue
        state = engine_texts(engine, start[index], words)
        hover = [_hover(ids[i], name, stop[i] - start[i], at, words) for i, at in zip(index, state, strict=True)]
        frame = {"color": theme.ink(dark), "width": np.where(framed[index], 2, 0).tolist()}
        drawn.append(
            {
                "type": "bar",
                "base": np.round(start[index], 4).tolist(),
                "x": np.round(stop[index] - start[index], 4).tolist(),
                "y": index.tolist(),
                "orientation": "h",
                "marker": {"color": colour, "line": frame},
                "customdata": [[int(ids[i][0]), str(ids[i][1])] for i in index],
                "hovertext": hover,
                "hovertemplate": "%{hovertext}<extra></extra>",
                "name": name,
            }
        )
    return drawn


def _hover(who: np.ndarray, stage: str, lasts_s: float, engine: str, words: Words) -> str:
    what = theme.plain(f"{who[1]} #{who[0]}")
    return "<br>".join(filter(None, [what, f"{stage}: {words.ms(1000 * lasts_s)}", engine]))


def engine_texts(engine: pd.DataFrame, at_s: np.ndarray, words: Words) -> list[str]:
    """What the server told last before each moment: `running 4, waiting 2, KV cache 12 %`; empty where nothing."""
    told = _told(engine)
    if not len(told):
        return [""] * len(at_s)
    place = np.searchsorted(seconds(told["at_ns"]), at_s, side="right") - 1
    asked = np.unique(place[place >= 0])
    texts = dict(zip(asked.tolist(), _sample_texts(told.iloc[asked], words), strict=True))
    return [texts.get(int(p), "") for p in place]


def _told(engine: pd.DataFrame) -> pd.DataFrame:
    return engine.sort_values("at_ns", kind="stable") if len(engine) else engine


def _sample_texts(samples: pd.DataFrame, words: Words) -> list[str]:
    """One text a sample; what the server did not tell is left out."""
    shown = (
        ("running", words.text("running"), words.significant),
        ("waiting", words.text("waiting"), words.significant),
        ("kv_cache_usage", words.text("KV cache"), words.share),
    )
    parts = [
        ["" if np.isnan(v) else f"{name} {write(float(v))}" for v in _numbers(samples, column)]
        for column, name, write in shown
    ]
    return [", ".join(filter(None, row)) for row in zip(*parts, strict=True)]


def _numbers(samples: pd.DataFrame, column: str) -> np.ndarray:
    if column not in samples:
        return np.full(len(samples), np.nan)
    return np.asarray(pd.to_numeric(samples[column]).to_numpy(dtype=float, na_value=np.nan))


def _ticks(rows: pd.DataFrame, words: Words) -> list[theme.Trace]:
    """A mark for each chunk, or for every so-manyth."""
    first = seconds(rows["first_chunk_ns"])
    xs: list[np.ndarray] = []
    ys: list[np.ndarray] = []
    for i, deltas in enumerate(rows["chunk_deltas_us"]):
        if not np.isnan(first[i]):
            at = first[i] + np.concatenate([[0.0], np.cumsum(np.asarray(deltas, dtype=float)) / 1e6])
            xs.append(at)
            ys.append(np.full(len(at), float(i)))
    if not xs:
        return []
    x, y = np.concatenate(xs), np.concatenate(ys)
    gaps = np.concatenate([np.diff(row) for row in xs])
    dense = len(gaps) > 0 and float(np.median(gaps)) * TELLABLE < float(np.ptp(x))
    step = -(-len(x) // MAX_TICKS)
    name = words.text("chunk") if step == 1 else words.text("one chunk in {n}", n=step)
    marker = {
        "symbol": "line-ns-open",
        "size": 8 if len(rows) <= 40 else 5 if len(rows) <= 120 else 3,
        "color": "#FFFFFF",
        "opacity": 0.8,
        "line": {"width": 1},
    }
    return [
        {
            "x": np.round(x[::step], 4).tolist(),
            "y": y[::step].tolist(),
            "mode": "markers",
            "marker": marker,
            "hoverinfo": "skip",
            "name": name,
            # in a crowd ticks hide the bars: a click on the legend brings them back for a closer look
            "visible": True if len(x) <= CROWDED and not dense else "legendonly",
        }
    ]


def engine_curves(engine: pd.DataFrame, words: Words) -> list[theme.Trace]:
    """Running, waiting and KV cache below the requests; each point tells all three."""
    told = _told(engine)
    samples = told.iloc[:: max(1, -(-len(told) // MAX_SAMPLES))] if len(told) else told
    texts = _sample_texts(samples, words) if len(samples) else []
    at = seconds(samples["at_ns"]).round(3).tolist() if len(samples) else []
    curves = (
        ("running", words.text("running"), 1.0, "y2", 0),
        ("waiting", words.text("waiting"), 1.0, "y2", 3),
        ("kv_cache_usage", words.text("KV cache"), 100.0, "y3", 4),
    )
    drawn: list[theme.Trace] = []
    for column, name, factor, axis, style_index in curves:
        if column in samples and samples[column].notna().any():
            style = theme.series_style(style_index)
            values = _numbers(samples, column) * factor
            dash = "solid" if axis == "y3" else style["dash"]
            drawn.append(
                {
                    "x": at,
                    "y": [None if np.isnan(v) else float(v) for v in values],
                    "mode": "lines",
                    "line": {"color": style["colour"], "dash": dash, "shape": "hv", "width": 1.5},
                    "name": name,
                    "text": texts,
                    "hovertemplate": "%{x:.1f} s<br>%{text}<extra></extra>",
                    "yaxis": axis,
                }
            )
    return drawn
