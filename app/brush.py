"""Figures in which a box can be drawn: what lies in it narrows what is shown elsewhere."""

import re
import time
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import ui
from app.views import theme
from app.views.sketch import sketch_svg

HEAD_START_S = 0.3
# always there: the box tool stands in the bar
CONFIG: dict[str, Any] = {**ui.PLOTLY, "modeBarButtonsToRemove": ["lasso2d", "autoScale2d"], "displayModeBar": True}


def place(fig: go.Figure, key: str) -> DeltaGenerator:
    """Where `chart` will draw this figure: until the browser has started Plotly it holds a still picture of it."""
    name = f"{key}-place"
    if picture := sketch_svg(fig, dark=ui.dark()):
        at = f".st-key-{re.sub('[^a-zA-Z0-9_-]', '-', name)}:not(:has(.main-svg))"
        source = f"url(data:image/svg+xml;base64,{b64encode(picture.encode()).decode()})"
        st.html(f"<style>{at} {{background: {source}}} {at} > * {{opacity: 0}}</style>")
    return st.container(key=name)


def words_first() -> None:
    """Before the first figures of a visit: a browser starts Plotly as soon as it hears of a figure, and for a second or
    two shows nothing else that comes."""
    if not st.session_state.get("words-shown"):
        st.session_state["words-shown"] = True
        time.sleep(HEAD_START_S)


def chart(fig: go.Figure, key: str, alt: str, on_select: Callable[[], None], *, points: bool = True) -> None:
    """A figure in our own dress; `on_select` is called when a box was drawn or taken away, or a point was clicked.

    With `points` a click is the first thing the figure waits for, and the box is a tool in its bar: Streamlit takes
    no clicks while boxes are drawn.
    """
    theme.speak(fig, ui.words())
    modes = ["points", "box"] if points else ["box"]
    if not points:
        fig.update_layout(selectdirection="h")
    st.plotly_chart(
        fig,
        theme=None,
        key=key,
        config=CONFIG if points else {**CONFIG, "displayModeBar": "hover"},
        alt=alt,
        on_select=on_select,
        selection_mode=modes,  # type: ignore[arg-type]
    )


def cells(key: str) -> list[int]:
    """The cells of the points that are selected in the chart `key`, each once, in their order."""
    told = [p.get("customdata") for p in _selection(key).get("points") or []]
    first = [t[0] if isinstance(t, list | tuple) and t else t for t in told]
    return list(dict.fromkeys(int(n) for n in first if isinstance(n, int | float)))


def boxed(key: str) -> bool:
    """True if what is selected in the chart `key` was selected by a box."""
    return bool(_selection(key).get("box"))


def span(key: str) -> tuple[float, float] | None:
    """The left and right edge of the box in the chart `key`; None without one."""
    boxes = _selection(key).get("box") or []
    edges = [float(x) for x in (boxes[0].get("x") or [])] if boxes else []
    return (min(edges), max(edges)) if edges else None


def _selection(key: str) -> dict[str, Any]:
    state = st.session_state.get(key) or {}
    found: dict[str, Any] = state.get("selection") or {}
    return found


def last(key: str) -> tuple[int, int] | None:
    """Of the point that was clicked in the chart `key`: the first and the last of its custom data; None without one."""
    points = _selection(key).get("points") or []
    told = points[0].get("customdata") if points else None
    if not isinstance(told, list | tuple) or len(told) < 2:
        return None
    return int(told[0]), int(told[-1])
