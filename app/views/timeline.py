"""One cell in time: requests as bars, chunks as ticks, engine curves below. PURE."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.views import theme
from app.words import ENGLISH, Words

MAX_TICKS = 4000
CROWDED = 1500
TELLABLE = 400  # so many usual gaps side by side fill the width with ticks that can still be told apart
MAX_REQUESTS = 300
MAX_SAMPLES = 600


def timeline_figure(
    requests: pd.DataFrame, engine: pd.DataFrame, words: Words = ENGLISH, *, dark: bool = False
) -> go.Figure:
    """`requests`: rows of analysis' request table of one cell; `engine`: its EngineSample rows. x in s of the cell.

    At most 300 requests (the first by arrival), 4000 ticks and 600 samples are drawn, so that a phone keeps up.
    The server does not tell when a single request left its queue: waiting and prefill are one bar.
    """
    fig = make_subplots(rows=3, cols=1, shared_xaxes=True, vertical_spacing=0.04, row_heights=[0.6, 0.22, 0.18])
    theme.dress(fig, dark=dark, height=720)
    shown = requests.sort_values("scheduled_ns", kind="stable").head(MAX_REQUESTS).reset_index(drop=True)
    if len(shown):
        _add_bars(fig, shown, words)
        _add_ticks(fig, shown, words)
    _add_engine(fig, engine, words)
    fig.update_yaxes(title_text=words.text("request, by arrival"), autorange="reversed", row=1, col=1)
    fig.update_yaxes(title_text=words.text("requests"), rangemode="tozero", row=2, col=1)
    fig.update_yaxes(title_text=words.text("KV (%)"), range=[0, 102], row=3, col=1)
    fig.update_xaxes(title_text=words.text("time in the cell (s)"), row=3, col=1)
    fig.update_layout(hovermode="closest", hoversubplots="axis")
    return fig


def _seconds(column: pd.Series) -> np.ndarray:
    return np.asarray(pd.to_numeric(column, errors="coerce").to_numpy(dtype=float, na_value=np.nan) / 1e9)


def _ends(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scheduled, sent, first chunk and end in s; where a stage was not reached, the stage before ends at the end."""
    scheduled, sent = _seconds(rows["scheduled_ns"]), _seconds(rows["sent_ns"])
    end = _seconds(rows["end_ns"])
    end = np.where(np.isnan(end), scheduled, end)
    sent = np.where(np.isnan(sent), end, sent)
    first = _seconds(rows["first_chunk_ns"])
    return scheduled, sent, np.where(np.isnan(first), end, first), end


def _add_bars(fig: go.Figure, rows: pd.DataFrame, words: Words) -> None:
    scheduled, sent, first, end = _ends(rows)
    ok = (rows["outcome"] == "ok").to_numpy()
    stages = (
        (words.text("not sent yet"), scheduled, sent, theme.OKABE_ITO[5], np.ones(len(rows), bool)),
        (words.text("queue + prefill"), sent, first, theme.OKABE_ITO[1], np.ones(len(rows), bool)),
        (words.text("decode"), first, end, theme.OKABE_ITO[0], ok),
        (words.text("decode, then failed or cut"), first, end, theme.GREY, ~ok),
    )
    width = _width(rows)
    for name, start, stop, colour, which in stages:
        index = np.flatnonzero(which & (stop > start))
        if len(index) == 0:
            continue
        x = np.column_stack([start[index], stop[index], np.full(len(index), np.nan)]).ravel()
        y = np.repeat(index.astype(float), 3)
        hover = [_hover(rows.iloc[i], name, stop[i] - start[i], words) for i in index]
        fig.add_scatter(
            x=[None if np.isnan(v) else round(float(v), 4) for v in x],
            y=y.tolist(),
            mode="lines",
            line={"color": colour, "width": width},
            text=np.repeat(hover, 3).tolist(),
            hovertemplate="%{text}<extra></extra>",
            name=name,
            connectgaps=False,
            row=1,
            col=1,
        )


def _width(rows: pd.DataFrame) -> int:
    """Thickness of a request's bar in px, and height of the ticks on it."""
    return 8 if len(rows) <= 40 else 5 if len(rows) <= 120 else 3


def _hover(row: pd.Series, stage: str, seconds: float, words: Words) -> str:
    what = theme.plain(f"{row['class_name']} #{row['request']}")
    return f"{what}<br>{stage}: {words.ms(1000 * seconds)}"


def _add_ticks(fig: go.Figure, rows: pd.DataFrame, words: Words) -> None:
    first = _seconds(rows["first_chunk_ns"])
    xs: list[np.ndarray] = []
    ys: list[np.ndarray] = []
    for i, deltas in enumerate(rows["chunk_deltas_us"]):
        if not np.isnan(first[i]):
            at = first[i] + np.concatenate([[0.0], np.cumsum(np.asarray(deltas, dtype=float)) / 1e6])
            xs.append(at)
            ys.append(np.full(len(at), float(i)))
    if not xs:
        return
    x, y = np.concatenate(xs), np.concatenate(ys)
    gaps = np.concatenate([np.diff(row) for row in xs])
    dense = len(gaps) > 0 and float(np.median(gaps)) * TELLABLE < float(np.ptp(x))
    step = -(-len(x) // MAX_TICKS)
    name = words.text("chunk") if step == 1 else words.text("one chunk in {n}", n=step)
    fig.add_scatter(
        x=np.round(x[::step], 4).tolist(),
        y=y[::step].tolist(),
        mode="markers",
        marker={
            "symbol": "line-ns-open",
            "size": _width(rows),
            "color": "#FFFFFF",
            "opacity": 0.8,
            "line": {"width": 1},
        },
        hoverinfo="skip",
        name=name,
        # in a crowd ticks hide the bars: a click on the legend brings them back for a closer look
        visible=True if len(x) <= CROWDED and not dense else "legendonly",
        row=1,
        col=1,
    )


def _add_engine(fig: go.Figure, engine: pd.DataFrame, words: Words) -> None:
    samples = engine.iloc[:: max(1, -(-len(engine) // MAX_SAMPLES))] if len(engine) else engine
    curves = (
        ("running", words.text("running"), 1.0, 2, 0),
        ("waiting", words.text("waiting"), 1.0, 2, 3),
        ("kv_cache_usage", words.text("KV cache"), 100.0, 3, 4),
    )
    for column, name, factor, row, style_index in curves:
        if column in samples and samples[column].notna().any():
            style = theme.series_style(style_index)
            values = pd.to_numeric(samples[column]).to_numpy(dtype=float, na_value=np.nan) * factor
            fig.add_scatter(
                x=(_seconds(samples["at_ns"])).round(3).tolist(),
                y=[None if np.isnan(v) else float(v) for v in values],
                mode="lines",
                line={
                    "shape": "hv",
                    "color": style["colour"],
                    "dash": "solid" if row == 3 else style["dash"],
                    "width": 1.5,
                },
                name=name,
                hovertemplate=name + ": %{y:.3~g}<extra></extra>",
                row=row,
                col=1,
            )
