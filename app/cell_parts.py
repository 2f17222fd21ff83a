"""One cell of the results: its requests over time, how they are spread, a table of them, and one of them in full."""

from typing import Any

import pandas as pd
import streamlit as st

from app import brush, links, ui
from app.data import cell_rows, cell_series, cell_verdicts
from app.views import cells as c
from app.views import requests as view
from app.views.batch import limit_sentence
from app.views.bound import cell_sentences
from app.views.ecdf import ecdf_figure
from app.views.frontier import goodput_line, share_line
from app.views.request import request_figure, request_sentences, row_of
from app.views.timeline import MAX_REQUESTS, timeline_figure
from app.words import Words
from runner.analysis.prepare import Prepared
from runner.config import GapRule, Slo

FORMATS = {"count": "%d", "ms": "%.1f", "rate": "%.2f"}


def one_cell(
    prepared: Prepared, result: c.Result, number: int, targets: dict[str, Slo], rule: GapRule | None, w: Words
) -> None:
    """One cell in words, in time, as distributions, as a table, and one of its requests."""
    cell = next(x for x in c.cells_of(result) if x["cell"] == number)
    reason = c.why_invalid(cell, w)
    if reason:
        st.warning(ui.plain(w.text("This cell can't be chosen: {reason}", reason=reason)))
    if cell.get("status") != "ok":
        return
    told = f"{goodput_line(cell, w)}. {share_line(cell, w)}."
    ui.say(told[:1].upper() + told[1:])
    ui.say(" ".join(cell_sentences(cell, w)) or limit_sentence(cell, w))
    for aside in c.asides(cell, w):
        ui.note(aside)
    requests, engine = cell_rows(prepared, number)
    if not len(requests):
        ui.note(w.text("No request was sent in this cell."))
        return
    promised = {name: t for name, t in (result.get("targets") or {}).items() if t}
    rows = view.request_rows(requests, cell_verdicts(prepared, number, targets, rule), promised, w)
    request = links.follow("request", [int(r) for r in rows["request"]], _longest(rows))
    _over_time(requests, engine, number, request, w)
    _one_request(requests, engine, rows, request, promised, w)
    ui.say(w.text("All requests of this cell"), level=3)
    ui.note(
        w.text(
            "Draw a box in a figure to narrow the table; a box among gaps keeps the requests whose longest gap lies in "
            "it. A double click takes the box away. A click on a row shows its request."
        )
    )
    _distributions(prepared, number, promised, w)
    _table(view.inside(rows, {k: s for k in ("ttft_ms", "gap_max_ms") if (s := _span(k, number))}), len(rows), w)


def _longest(rows: pd.DataFrame) -> int:
    """The request that is shown first: that of the longest gap, else the first."""
    place = rows["gap_max_ms"].fillna(-1.0).argmax()
    return int(rows["request"].iloc[place])


def _over_time(requests: pd.DataFrame, engine: pd.DataFrame, number: int, request: int, w: Words) -> None:
    from_s = 0.0
    if len(requests) > MAX_REQUESTS:
        arrival = requests["scheduled_ns"].to_numpy(dtype=float) / 1e9
        mine = float(arrival[(requests["request"] == request).to_numpy()][0])
        begin = 0.0 if mine < arrival[MAX_REQUESTS - 1] else min(mine, float(arrival[-MAX_REQUESTS]))
        from_s = st.slider(
            w.text("From (s)"), 0.0, max(float(arrival[-MAX_REQUESTS]), 1.0), begin, key=f"from-{number}"
        )
    fig = timeline_figure(requests, engine, w, from_s=from_s, marked=request, dark=ui.dark())
    ui.chart(fig, "timeline", w.text("requests of the cell over time"), lambda: _clicked("timeline"))
    ui.note(w.text("Click a bar to see its request token by token."))


def _clicked(chart: str) -> None:
    """The request of the bar or mark that was clicked becomes the one that is shown."""
    number = ui.clicked_cell(chart)
    if number is not None:
        links.go_on_with(request=number)


def _one_request(
    requests: pd.DataFrame, engine: pd.DataFrame, rows: pd.DataFrame, request: int, told: dict[str, Any], w: Words
) -> None:
    title, picker = st.columns([3, 1], vertical_alignment="bottom")
    row = row_of(requests, request)
    name = str(row["class_name"])
    with title:
        ui.say(w.text("Request {n}, {name}", n=request, name=name), level=3)
    picker.number_input(
        w.text("Request"), int(rows["request"].min()), int(rows["request"].max()), step=1, key="request"
    )
    links.show("request", request)
    shown = rows[rows["request"] == request].iloc[0]
    target = told.get(name)
    sentences = request_sentences(row, target, w)
    ui.say(" ".join([*sentences, w.text("Its promise: {kept}.", kept=shown["kept"])]))
    fig = request_figure(requests, engine, request, target, w, dark=ui.dark())
    alt = w.text("chunks of one request over time, and what else ran")
    ui.chart(fig, "request-timeline", alt, lambda: _clicked("request-timeline"))


def _distributions(prepared: Prepared, number: int, told: dict[str, Any], w: Words) -> None:
    series = cell_series(prepared, number)
    figures = {
        "ttft_ms": ("ttft_ms", w.text("first token (ms)")),
        "gap_max_ms": ("gap_ms", w.text("gap between chunks (ms)")),
    }
    for place, (key, (metric, title)) in zip(st.columns(2), figures.items(), strict=True):
        with place:
            marks = sorted({float(t[metric]) for t in told.values()})
            fig = ecdf_figure(series[metric], title, w, targets_ms=marks, dark=ui.dark())
            alt = w.text("shares of {what}", what=title)
            brush.chart(fig, f"ecdf-{metric}", alt, _box(key, metric, number), points=False)


def _box(key: str, metric: str, number: int) -> Any:  # noqa: ANN401  (a callback)
    def keep() -> None:
        st.session_state[f"span-{key}"] = (number, brush.span(f"ecdf-{metric}"))

    return keep


def _span(key: str, number: int) -> tuple[float, float] | None:
    cell, span = st.session_state.get(f"span-{key}", (None, None))
    return span if cell == number else None


def _table(rows: pd.DataFrame, all_rows: int, w: Words) -> None:
    if len(rows) < all_rows:
        ui.note(w.text("{n} of {total} requests lie in the box.", n=w.count(len(rows)), total=w.count(all_rows)))
    ui.rows_to_click(
        rows,
        view.request_columns(w),
        FORMATS,
        lambda place: links.go_on_with(request=int(rows["request"].iloc[place])),
        key="requests",
        alt=w.text("requests of the cell"),
        height=360,
    )
