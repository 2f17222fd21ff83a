"""Colours, shapes, templates: what all figures share. PURE.

Okabe–Ito colours (safe for colour-blind readers), each always with its own marker and dash, so that no meaning hangs
on colour alone; cividis for grids. Backgrounds are transparent: the page decides what is behind.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

from app.words import Words

OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A200", "#7C5CC4")
MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "pentagon", "hexagon2")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "5px,2px", "2px,6px")
MAX_SERIES = len(OKABE_ITO)
GREY = "#8C8C8C"  # dominated points, everything that steps back; readable on white and on black
TARGET = "#D55E00"  # target lines, always dashed and named
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', sans-serif"
# cividis at 0, 1/8, … 1 (matplotlib's published table)
CIVIDIS = ("#00224E", "#123570", "#3B496C", "#575D6D", "#707173", "#8A8678", "#A59C74", "#C3B369", "#FEE838")
# a trace as plain data, a scatter unless it tells its type; the keys of its parts in Plotly's order, by the alphabet
Trace = dict[str, Any]
_INK = {False: "#1F2328", True: "#E6E8EB"}
_SOFT = {False: "rgba(31,35,40,0.12)", True: "rgba(230,232,235,0.16)"}
_PANEL = {False: "#FFFFFF", True: "#22262E"}


def folded(text: str, width: int) -> str:
    """`plain` text in lines of at most `width` characters where its words allow."""
    return "<br>".join(plain(line) for line in wrap(text, width, break_long_words=False)) or plain(text)


def plain(value: object) -> str:
    """Any text for a plotly label: its pseudo-HTML (`<b>`, `<a href>`, entities) is shown, never interpreted."""
    return str(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def ink(dark: bool) -> str:
    """The text colour of a mode, for marks that must stand out."""
    return _INK[dark]


@lru_cache
def template(dark: bool = False) -> go.layout.Template:
    """The layout all figures share in light or dark mode. A figure takes a copy of it."""
    axis = {
        "automargin": True,
        "gridcolor": _SOFT[dark],
        "linecolor": _SOFT[dark],
        "zeroline": False,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": _SOFT[dark],
        "title": {"standoff": 8, "font": {"size": 13}},
    }
    return go.layout.Template(
        layout={
            "font": {"family": FONT, "size": 13, "color": _INK[dark]},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "colorway": list(OKABE_ITO),
            "xaxis": axis,
            "yaxis": axis,
            "hoverlabel": {
                "bgcolor": _PANEL[dark],
                "bordercolor": _SOFT[dark],
                "font": {"family": FONT, "size": 13, "color": _INK[dark]},
                "align": "left",
            },
            "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": GREY, "activecolor": _INK[dark]},
            "legend": {"font": {"size": 12}, "bgcolor": "rgba(0,0,0,0)"},
            "annotationdefaults": {"font": {"size": 12, "color": _INK[dark]}, "arrowcolor": _INK[dark]},
        }
    )


def figure(x_title: str, y_title: str, *, dark: bool = False, height: int = 420) -> go.Figure:
    """An empty figure in our dress: legend below, small margins, both axes named with their units."""
    titles = {"xaxis": {"title": {"text": x_title}}, "yaxis": {"title": {"text": y_title}}}
    return go.Figure(layout={**_layout(dark, height), **titles})


def dress(fig: go.Figure, *, dark: bool = False, height: int = 420) -> None:
    """Template, margins and the legend at the bottom edge, for figures with one or several plots."""
    fig.update_layout(_layout(dark, height))


def _layout(dark: bool, height: int) -> dict[str, Any]:
    return {
        "template": template(dark),
        "height": height,
        "margin": {"l": 8, "r": 12, "t": 28, "b": 8},
        "hovermode": "closest",
        "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0, "xanchor": "left"},
    }


def drawn(traces: list[Trace], axes: Mapping[str, Any], legend: str | None, *, dark: bool, height: int) -> go.Figure:
    """A figure in our dress from traces, axes and the title of its legend, all taken as they are: Plotly's own look at
    every property, twice, is most of the time in which the page of a large sweep is made."""
    layout = {**_layout(dark, height), **axes, "template": _plain_template(dark)}
    if legend is not None:
        layout["legend"]["title"] = _legend_title(legend)
    return go.Figure(data=traces, layout=layout, _validate=False)


@lru_cache
def _plain_template(dark: bool) -> dict[str, Any]:
    plain_template: dict[str, Any] = template(dark).to_plotly_json()
    return plain_template


def speak(fig: go.Figure, words: Words) -> None:
    """Numbers on axes and hovers with the marks of the language: "2,000" is two to a reader of Polish."""
    fig.update_layout(separators="".join(words.marks))
    for axis in (*fig.select_xaxes(), *fig.select_yaxes()):
        if axis.type == "log" and axis.ticktext:
            axis.ticktext = [words.marked(str(text)) for text in axis.ticktext]


def name_legend(fig: go.Figure, title: str) -> None:
    """Says above the legend what its entries are, so that the entries can be short."""
    fig.update_layout(legend_title=_legend_title(title))


def _legend_title(title: str) -> dict[str, Any]:
    return {"font": {"size": 12}, "side": "top", "text": plain(title)}


def series_style(index: int) -> dict[str, Any]:
    """Colour, marker and dash of the index-th series; all three change together."""
    i = index % MAX_SERIES
    return {"colour": OKABE_ITO[i], "symbol": MARKERS[i], "dash": DASHES[i]}


def cividis(position: float) -> str:
    """The cividis colour at 0–1, as #rrggbb, between the table's stops."""
    at = min(max(position, 0.0), 1.0) * (len(CIVIDIS) - 1)
    low = min(int(at), len(CIVIDIS) - 2)
    pair = [[int(CIVIDIS[low + k][i : i + 2], 16) for i in (1, 3, 5)] for k in (0, 1)]
    mixed = [round(a + (b - a) * (at - low)) for a, b in zip(*pair, strict=True)]
    return "#" + "".join(f"{v:02x}" for v in mixed)


def ink_on(colour: str) -> str:
    """Black or white, whichever reads better on a #rrggbb ground (relative luminance, WCAG 2)."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if luminance > 0.179 else "#ffffff"


def wants_log(values: Sequence[float | None]) -> bool:
    """True when positive values span more than a factor of 20, so that a linear axis would hide the small ones."""
    known = [v for v in values if v is not None and v > 0 and math.isfinite(v)]
    return len(known) > 1 and len(known) == sum(v is not None for v in values) and max(known) / min(known) > 20


def axis(values: Sequence[float | None]) -> dict[str, Any]:
    """Axis settings for these values: linear, or log with ticks at 1, 2, 5 of each decade, written in full.

    Over more than two decades at 1 and 3, over more than four at 1 only. plotly's own log ticks write a lone 2 for 20.
    """
    if not wants_log(values):
        return {"type": "linear"}
    known = [v for v in values if v is not None]
    low, high = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
    span = math.log10(max(known) / min(known))
    steps = (1, 2, 5) if span <= 2 else (1, 3) if span <= 4 else (1,)
    ticks = [step * 10.0**decade for decade in range(low, high + 1) for step in steps]
    return {
        "type": "log",
        "tickvals": ticks,
        "ticktext": [f"{t:,.6g}" if t < 1e4 else f"{t / 1000:,.6g}k" for t in ticks],
    }
