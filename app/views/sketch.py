"""A still picture of a figure, for the second or two that a browser takes to start Plotly. PURE.

An SVG document of any width: places along the x axis are shares of it, heights are pixels. Lines and points stand where
Plotly puts them but for a few pixels; numbers on the axes, the legend and what points tell come with Plotly.
"""

from collections.abc import Mapping, Sequence
from html import escape, unescape
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go

from app.views import theme
from app.views.label_places import label_foot, label_offset

LEFT, ACROSS = 9, 88  # the plot's left edge and width, % of the picture: browsers don't reckon with pixels and % in one
TOP, BOTTOM = 28, 124  # pixels around it: the axis title and the legend below
BESIDE = 0.07  # of the width of the data: what Plotly leaves free at both ends of an axis that fits itself


def sketch_svg(fig: go.Figure, *, dark: bool) -> str | None:
    """The scatter traces of a figure with two linear axes, the y axis of a given range; None for any other figure."""
    layout: dict[str, Any] = fig.layout.to_plotly_json()
    axes = [layout.get(name) or {} for name in ("xaxis", "yaxis")]
    scatters = [t.to_plotly_json() for t in fig.data if t.type == "scatter"]
    traces = [t for t in scatters if _points(t)]
    across = [float(x) for t in traces for x, _ in _points(t)]
    if "xaxis2" in layout or any(a.get("type") == "log" for a in axes) or not axes[1].get("range") or not across:
        return None
    span = max(across) - min(across) or abs(max(across)) or 1.0
    low_x, high_x = min(across) - BESIDE * span, max(across) + BESIDE * span
    low_y, high_y = axes[1]["range"]
    tall = int(layout.get("height") or 420) - TOP - BOTTOM
    scale = (low_x, 100 / (high_x - low_x), high_y, tall / (high_y - low_y))
    drawn = "".join(part for t in traces for part in _trace(t, scale))
    ink = theme.ink(dark)
    titles = [_text((a.get("title") or {}).get("text")) for a in axes]
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="100%" height="100%">'
        f'<g fill="{ink}" font-family="system-ui, sans-serif" font-size="13">'
        f'<text x="50%" y="{TOP + tall + 40}" text-anchor="middle">{titles[0]}</text>'
        f'<text transform="translate(14 {TOP + tall // 2}) rotate(-90)" text-anchor="middle">{titles[1]}</text></g>'
        f'<svg x="{LEFT}%" y="{TOP}" width="{ACROSS}%" height="{tall}" overflow="visible">'
        f'<path d="M0 0V{tall}" stroke="{ink}" opacity="0.2"/>'
        f'<line x1="0" x2="100%" y1="{tall}" y2="{tall}" stroke="{ink}" opacity="0.2"/>{drawn}</svg></svg>'
    )


def _points(trace: Mapping[str, Any]) -> list[tuple[float, float]]:
    return [(x, y) for x, y in zip(trace["x"], trace["y"], strict=True) if x is not None and y is not None]


def _trace(trace: Mapping[str, Any], scale: tuple[float, float, float, float]) -> list[str]:
    """Lines first, points above them, text above those."""
    left, per_x, top, per_y = scale
    places = [((x - left) * per_x, (top - y) * per_y) for x, y in _points(trace)]
    mode = str(trace.get("mode") or "")
    parts = _lines(places, trace) if "lines" in mode else []
    return parts + (_marks(places, trace) if "markers" in mode else [])


def _lines(places: Sequence[tuple[float, float]], trace: Mapping[str, Any]) -> list[str]:
    line = trace.get("line") or {}
    style = f'stroke="{line.get("color")}" stroke-width="{line.get("width", 2)}" opacity="{trace.get("opacity", 1)}"'
    if line.get("shape") == "vh":  # down first, then to the right
        corners = [(x1, y2) for (x1, _), (_, y2) in pairwise(places)]
        places = [place for pair in zip(places, corners, strict=False) for place in pair] + list(places[-1:])
    return [
        f'<line x1="{x1:.2f}%" y1="{y1:.1f}" x2="{x2:.2f}%" y2="{y2:.1f}" {style}/>'
        for (x1, y1), (x2, y2) in pairwise(places)
    ]


def _marks(places: Sequence[tuple[float, float]], trace: Mapping[str, Any]) -> list[str]:
    marker = trace.get("marker") or {}
    parts = []
    for i, (x, y) in enumerate(places):
        color, size, symbol = (_at(marker.get(key), i) for key in ("color", "size", "symbol"))
        hollow = "open" in str(symbol)
        fill = f'fill="none" stroke="{color}" stroke-width="2"' if hollow else f'fill="{color}"'
        opacity = _at(marker.get("opacity"), i)
        faint = f' opacity="{opacity}"' if opacity is not None else ""
        parts.append(f'<circle cx="{x:.2f}%" cy="{y:.1f}" r="{(size or 6) / 2:g}" {fill}{faint}/>')
    for (x, y), text in zip(places, trace.get("text") or (), strict=False):
        font = trace.get("textfont") or {}
        style = f'font-family="system-ui, sans-serif" font-size="13" font-weight="{font.get("weight", 400)}"'
        up, aside = str(trace.get("textposition") or "top center").split()
        off = label_offset(marker.get("size") or 6)
        foot, shift = y + label_foot(up, off), {"left": -off, "center": 0, "right": off}[aside]
        anchor = {"left": "end", "center": "middle", "right": "start"}[aside]
        style += f' fill="{_at(marker.get("color"), 0)}" text-anchor="{anchor}" dx="{shift:g}"'
        parts.append(f'<text x="{x:.2f}%" y="{foot:.1f}" {style}>{_text(text)}</text>')
    return parts


def _at(value: Any, place: int) -> Any:  # noqa: ANN401  (a property of one or of all points)
    return value[place] if isinstance(value, list | tuple) else value


def _text(label: object) -> str:
    """What Plotly shows for a label without markup."""
    return escape(unescape(str(label or "")))
