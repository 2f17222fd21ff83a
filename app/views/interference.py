"""Who freezes the chats: their long gaps above, everybody's prefills below, on one time axis. PURE."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.views import theme
from app.words import ENGLISH, Words
from runner.analysis.interference import Cause, Interference

MOST_GAPS = 400
MOST_PREFILLS = 600
TELLING = 1.5  # times what chance would explain, and
TELLING_SHARE = 0.2  # this much of the stalled time: then a class is named as the cause


def interference_sentence(found: Interference, words: Words = ENGLISH) -> str:
    """What the long gaps lie beside, against what chance would give."""
    if not found.long_gaps:
        return words.text("No gap of a class with targets was longer than its target here.")
    told = words.plural(
        "{n} gap was over its target, for {stalled}:",
        "{n} gaps were over their target, for {stalled} in all:",
        found.long_gaps,
        stalled=words.ms(found.stalled_ms),
    )
    cause = _culprit(found.by_class)
    if cause is None:
        return f"{told} " + words.text("no class's prefills lie beside that more than by chance.")
    return f"{told} " + words.text(
        "{share} of that time lies inside prefills of {name} requests, by chance it would be {expected}.",
        share=words.share(cause.explained),
        name=cause.class_name,
        expected=words.share(cause.expected),
    )


def _culprit(causes: Sequence[Cause]) -> Cause | None:
    telling = [c for c in causes if c.explained >= max(TELLING_SHARE, TELLING * c.expected)]
    return max(telling, key=lambda c: c.explained - c.expected, default=None)


def cause_rows(found: Interference, words: Words = ENGLISH) -> list[dict[str, str]]:
    """A row a class: class_name, prefills, explained, expected as text."""
    return [
        {
            "class_name": c.class_name,
            "prefills": words.count(c.prefills),
            "explained": words.share(c.explained),
            "expected": words.share(c.expected),
        }
        for c in found.by_class
    ]


def interference_figure(found: Interference, words: Words = ENGLISH, *, dark: bool = False) -> go.Figure:
    """The longest gaps (at most 400) as bars from start to end at their length, prefills (the 600 longest) below."""
    fig = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.06, row_heights=[0.6, 0.4])
    theme.dress(fig, dark=dark, height=480)
    gaps = found.gaps.head(MOST_GAPS)
    names = list(dict.fromkeys([*gaps["class_name"], *found.prefills["class_name"]]))
    for index, name in enumerate(names):
        style = theme.series_style(index)
        mine = gaps[gaps["class_name"] == name]
        if len(mine):
            _add_gaps(fig, mine, name, style, words)
    lanes = [n for n in names if (found.prefills["class_name"] == n).any()]
    shown = found.prefills.assign(length=found.prefills["to_s"] - found.prefills["from_s"]).nlargest(
        MOST_PREFILLS, "length"
    )
    for lane, name in enumerate(lanes):
        _add_prefills(fig, shown[shown["class_name"] == name], lane, name, theme.series_style(names.index(name)), words)
    fig.update_yaxes(title_text=words.text("gap over target (ms)"), row=1, col=1, **theme.axis(list(gaps["gap_ms"])))
    fig.update_yaxes(
        title_text=words.text("prefills"), row=2, col=1, range=[len(lanes) - 0.5, -0.5],
        tickvals=list(range(len(lanes))), ticktext=[theme.plain(n) for n in lanes],
    )  # fmt: skip
    fig.update_xaxes(title_text=words.text("time in the cell (s)"), row=2, col=1)
    fig.update_layout(hovermode="closest", hoversubplots="axis")
    return fig


def _add_gaps(fig: go.Figure, mine: pd.DataFrame, name: str, style: dict[str, Any], words: Words) -> None:
    middle = mine["at_s"] + mine["gap_ms"] / 2000
    hover = [
        theme.plain(
            words.text("{name} #{request} waited {gap}", name=name, request=r["request"], gap=words.ms(r["gap_ms"]))
        )
        + ("" if r["by_request"] is None else "<br>" + theme.plain(_beside(r, words)))
        for r in mine.to_dict("records")
    ]
    fig.add_scatter(
        x=middle.round(4).tolist(),
        y=mine["gap_ms"].round(2).tolist(),
        error_x={"type": "data", "array": (mine["gap_ms"] / 2000).round(4).tolist(), "width": 0, "thickness": 3},
        mode="markers",
        marker={"color": style["colour"], "symbol": style["symbol"], "size": 7},
        customdata=[[int(r)] for r in mine["request"]],
        text=hover,
        hovertemplate="%{text}<extra></extra>",
        name=theme.plain(words.text("gap of {name}", name=name)),
        row=1,
        col=1,
    )


def _beside(row: Mapping[Any, Any], words: Words) -> str:
    return words.text(
        "while {name} #{request} was read ({tokens} tokens)",
        name=row["by_class"],
        request=row["by_request"],
        tokens=words.count(row["prompt_tokens"]),
    )


def _add_prefills(
    fig: go.Figure, mine: pd.DataFrame, lane: int, name: str, style: dict[str, Any], words: Words
) -> None:
    """Each from sending to first token, spread over the lane by request so that overlaps stay visible."""
    place = lane + 0.7 * ((mine["request"].to_numpy() % 5) / 4 - 0.5)
    x = np.column_stack([mine["from_s"], mine["to_s"], np.full(len(mine), np.nan)]).ravel()
    text = [
        theme.plain(
            words.text(
                "{name} #{request}: {tokens} tokens, {time} to the first one",
                name=name,
                request=r["request"],
                tokens=words.count(r["prompt_tokens"]),
                time=words.ms(1000 * r["length"]),
            )
        )
        for r in mine.to_dict("records")
    ]
    fig.add_scatter(
        x=[None if np.isnan(v) else round(float(v), 4) for v in x],
        y=np.repeat(place, 3).tolist(),
        mode="lines",
        line={"color": style["colour"], "width": 5},
        customdata=[[int(r)] for r in np.repeat(mine["request"].to_numpy(), 3)],
        text=np.repeat(np.array(text, dtype=object), 3).tolist(),
        hovertemplate="%{text}<extra></extra>",
        name=theme.plain(words.text("prefill of {name}", name=name)),
        connectgaps=False,
        row=2,
        col=1,
    )
