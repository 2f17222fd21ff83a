"""Cumulative shares of first-token times and gaps. PURE."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from app.views import theme
from app.words import ENGLISH, Words

MAX_POINTS = 200
LABEL_STEP = 9  # percent points between the labels of two targets


def ecdf_points(values_ms: ArrayLike, most: int = MAX_POINTS) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(value in ms, share of values ≤ it), at most `most` steps; each kept step is exact. NaN are left out."""
    values = np.sort(np.asarray(values_ms, dtype=np.float64))
    values = values[~np.isnan(values)]
    n = len(values)
    if n == 0:
        return values, values
    rank = np.unique(np.linspace(1, n, min(n, most)).round().astype(int))
    kept = values[rank - 1]
    return kept, np.searchsorted(values, kept, side="right") / n


def ecdf_figure(
    series: Mapping[str, ArrayLike],
    x_title: str,
    words: Words = ENGLISH,
    *,
    targets_ms: Sequence[float] = (),
    styles: Mapping[str, int] | None = None,
    dark: bool = False,
    height: int = 380,
) -> go.Figure:
    """A step line for each named series of values in ms; targets as dashed verticals.

    `styles`: place of a series in the order of colours, where it is not its own.
    """
    traces: list[theme.Trace] = []
    everything: list[float] = []
    unseen = {"marker": {"opacity": 0}}  # marks that are never seen: a box can only be drawn around marks
    for index, (name, values) in enumerate(series.items()):
        x, share = ecdf_points(values)
        everything += [float(v) for v in x]
        style = theme.series_style((styles or {}).get(name, index))
        n = int(np.count_nonzero(~np.isnan(np.asarray(values, dtype=np.float64))))
        traces.append(
            {
                "hovertemplate": theme.plain(name) + "<br>%{y:.1f} % ≤ %{x:.3~s} ms<extra></extra>",
                "line": {"color": style["colour"], "dash": style["dash"], "shape": "hv", "width": 2},
                "marker": {"opacity": 0, "size": 4},
                "mode": "lines+markers",
                "name": theme.plain(f"{name} (n = {words.count(n)})"),
                "selected": unseen,
                "unselected": unseen,
                "x": x.tolist(),
                "y": (100 * share).tolist(),
            }
        )
    for index, target in enumerate(targets_ms):
        text = words.text("target {value}", value=words.ms(target))
        told_at = 100 - LABEL_STEP * index  # each below the one before, or two near targets would be written as one
        traces.append(
            {
                "hoverinfo": "skip",
                "line": {"color": theme.TARGET, "dash": "dash", "width": 2},
                "mode": "lines+text",
                "showlegend": False,
                "text": ["", text, ""],
                "textposition": "top left",
                "x": [target] * 3,
                "y": [0, told_at, 100],
            }
        )
    axes = {
        "xaxis": {"title": {"text": x_title}, **theme.axis([v for v in everything if v > 0])},
        "yaxis": {"title": {"text": words.text("share at or below (%)")}, "range": [0, 108]},
    }
    return theme.drawn(traces, axes, None, dark=dark, height=height)
