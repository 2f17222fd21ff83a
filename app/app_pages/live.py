"""Live: a sweep while it is measured. Everything shown comes from its files, so any browser may come and go."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app import jobs, status, ui
from app.live_lines import known_lines, known_rows, number
from app.start_parts import verdict_line
from app.views import live as charts
from app.views.frontier import frontier_figure
from runner.plan import is_search
from runner.queue import read_config
from storage.errors import GoodputError
from storage.side_files import LIVE, SweepSummary, ask, asked, read_lines, read_state, status_of

w = ui.words()
LOOK_EVERY_S = 2.0  # drawing costs time on the machine that measures
# fixed: Streamlit sizes columns by what they hold at first, which is nothing
WIDTHS_PX = {"cell": 50, "setting": 85, "load": 80, "goodput": 95, "share": 105, "ttft": 85}
WATCHED = ("queued", *LIVE)
chosen = ui.chosen_sweep(WATCHED)
if chosen is None:
    with st.container(border=True):
        ui.say(w.text("Nothing is being measured."), level=2)
        ui.say(w.text("A sweep that runs is watched here, from any browser; it goes on when the browser is closed."))
        st.page_link(ui.START, label=w.text("Start a demo"))
        st.page_link(ui.NEW, label=w.text("Set up a sweep"))
        st.page_link(ui.RESULTS, label=w.text("Look at results"))
    ui.stop()
st.query_params["sweep"] = chosen.sweep_id
try:
    config = read_config(chosen.folder)
except GoodputError as e:
    st.error(ui.plain(e))
    ui.stop()


def controls(sweep: SweepSummary) -> None:
    """Pause or go on, skip, stop. Each only leaves a wish; the worker answers within a second.

    In virtual time a cell is over in a second: only a stop is of use.
    """
    paused = asked(sweep.folder, "pause")
    pause, skip, stop = st.columns(3)
    pause.button(
        w.text("Go on") if paused else w.text("Pause"),
        key="pause",
        width="stretch",
        help=w.text("A simulated sweep cannot be paused: stop it, and go on with it later.")
        if sweep.simulated
        else w.text("Pauses when the cell that runs has ended."),
        disabled=sweep.simulated,
        on_click=ui.attempt,
        args=(jobs.toggle_pause, sweep.folder),
    )
    skip.button(
        w.text("Skip this cell"),
        key="skip",
        width="stretch",
        disabled=sweep.simulated,
        on_click=ui.attempt,
        args=(ask, sweep.folder, "skip"),
    )
    stop.button(
        w.text("Stop"),
        key="stop",
        width="stretch",
        on_click=ui.attempt,
        args=(jobs.stop_sweep, ui.data_dir(), sweep.folder),
    )


def by_hand(sweep: SweepSummary, waiting_for: Mapping[str, Any]) -> None:
    """What the person at the server has to change before the sweep goes on."""
    st.warning(ui.plain(w.said(waiting_for.get("text") or "")))
    st.button(w.text("Continue"), key="continue", type="primary", on_click=ui.attempt, args=(jobs.go_on, sweep.folder))


def numbers(lines: list[dict[str, Any]]) -> None:
    """Counts of the cell that runs."""
    line = lines[-1] if lines else {}
    shown = {
        w.text("sent"): w.count(line.get("sent")),
        w.text("completed"): w.count(line.get("completed")),
        w.text("failed"): w.count(line.get("failed")),
        w.text("rejected"): w.count(line.get("rejected")),
        w.text("open now"): w.count(line.get("open_streams")),
        w.text("running"): w.count(line.get("running")),
        w.text("waiting"): w.count(line.get("waiting")),
        w.text("KV cache"): w.share(line.get("kv_cache_usage")),
        w.text("preemptions"): w.count(status.preemptions(lines)),
    }
    with st.container(horizontal=True, gap="medium", key="live-numbers"):
        for title, value in shown.items():
            st.metric(title, value, width="content")


def steady(fig: go.Figure) -> go.Figure:
    """The same figure, in which a zoom outlives the next look."""
    return fig.update_layout(uirevision="live")


def so_far(rows: list[dict[str, Any]]) -> None:
    """The frontier as it grows beside the cells that ended."""
    picture, table = st.columns([3, 2], gap="large")
    with picture:
        ui.say(w.text("Frontier so far"), level=3)
        fig = status.unmarked(frontier_figure(status.growing_result(rows), w, dark=ui.dark(), height=380))
        ui.chart(steady(fig), "live-frontier", w.text("goodput against raw output of the cells that ended"))
    with table:
        ui.say(w.text("Cells that ended"), level=3)
        titles = status.ended_titles(w)
        st.dataframe(
            pd.DataFrame(status.ended_rows(rows, w), columns=list(titles)),
            hide_index=True, height=360, key="live-cells", alt=w.text("cells that ended"),
            column_config={key: st.column_config.Column(title, width=WIDTHS_PX[key]) for key, title in titles.items()},
        )  # fmt: skip


def second_by_second(lines: list[dict[str, Any]]) -> None:
    """Cause beside effect: what people feel, and what the server has in hand."""
    ui.say(w.text("Second by second"), level=3)
    small = {
        "ttft": (charts.latency_figure, w.text("first token times")),
        "gaps": (charts.gap_figure, w.text("gaps between chunks")),
        "batch": (charts.batch_figure, w.text("requests running and waiting")),
        "kv": (charts.kv_figure, w.text("fill of the KV cache")),
    }
    for place, (key, (figure, alt)) in zip([*st.columns(2), *st.columns(2)], small.items(), strict=True):
        with place:
            ui.chart(steady(figure(lines, w, dark=ui.dark())), f"live-{key}", alt)


def health(lines: list[dict[str, Any]]) -> None:
    """Is it the server or are we the limit; and what went wrong, a row a kind of error. Both have their fixed place."""
    line = lines[-1] if lines else {}
    own, wrong = st.columns(2, gap="large")
    with own:
        ui.say(w.text("The load generator"), level=3)
        well, sentence = status.client_sentence(line, w)
        with st.container(key="live-health"):
            (st.success if well and lines else st.warning if lines else st.info)(ui.plain(sentence))
        ui.chart(steady(charts.client_figure(lines, w, dark=ui.dark())), "live-client", w.text("lateness of our own"))
    with wrong:
        ui.say(w.text("Errors of this cell"), level=3)
        errors = status.error_rows(line, w)
        with st.container(height=300, border=False):
            if errors:
                titles = {"kind": w.text("kind"), "count": w.text("count")}
                st.dataframe(errors, hide_index=True, column_config=titles, alt=w.text("errors by kind"))
            else:
                ui.note(w.text("None."))


def draw(sweep: SweepSummary) -> None:
    """One look at the files. Every part has its place and height from the first look on: nothing jumps."""
    now = status_of(sweep.folder)
    if now not in WATCHED and st.session_state.get("watching") == sweep.sweep_id:
        st.rerun()
    state = read_state(sweep.folder) or {}
    lines = known_lines(read_lines(sweep.folder, "live.jsonl", last=status.LINES))
    rows = known_rows(read_lines(sweep.folder, "cells.jsonl"))
    if now in LIVE and isinstance(state.get("waiting_for"), dict):
        by_hand(sweep, state["waiting_for"])
    done, total = (int(number(state.get(key)) or least) for key, least in (("cells_done", 0), ("cells_total", 1)))
    left = w.text("about {time} left", time=status.duration(status.seconds_left(lines), w))
    progress = w.text("{done} of {total} cells", done=w.count(done), total=w.count(total))
    text = " · ".join([ui.status_text(now), progress, *([left] if now in LIVE and lines else [])])
    st.progress(status.share_done(lines, done, total) if now in LIVE else status.share_done([], done, total), text)
    if now in WATCHED:
        with st.container(key="live-sentence"):
            ui.say(now_sentence(now, lines, rows))
        controls(sweep)
    numbers(lines)
    so_far(rows)
    second_by_second(lines)
    health(lines)


def now_sentence(now: str, lines: list[dict[str, Any]], rows: list[dict[str, Any]]) -> str:
    """What happens right now."""
    if now == "queued":
        jobs.ensure_worker(ui.data_dir())
        return w.text("Waiting for the sweep before it to end, or for the worker to start.")
    told = status.cell_sentence(lines[-1] if lines else {"phase": "starting"}, config, w, rows)
    return f"{told} {w.text('The number of cells changes as the search goes.')}" if is_search(config) else told


ui.note(" · ".join(filter(None, [ui.when(chosen.created_unix_ns), ui.simulated(chosen)])))
ui.say(chosen.name, level=2)
if chosen.status in WATCHED:
    st.session_state["watching"] = chosen.sweep_id
    st.fragment(draw, run_every=LOOK_EVERY_S)(chosen)
    ui.stop()
if st.session_state.pop("watching", None) == chosen.sweep_id and chosen.status in ("done", "stopped"):
    ui.go_to(ui.RESULTS, chosen.sweep_id)

message = (read_state(chosen.folder) or {}).get("message")
if chosen.status in ("interrupted", "failed", "stopped"):
    ends = {
        "interrupted": w.text("This sweep was interrupted: its worker is gone. Finished cells are kept."),
        "failed": w.text("This sweep ended early: {why}", why=w.said(message) if message else w.text("see the log")),
        "stopped": w.text("This sweep ended early: {why}", why=w.said(message))
        if message
        else w.text("This sweep was stopped. Finished cells are kept."),
    }
    st.warning(ui.plain(ends[chosen.status]))
    if st.button(w.text("Resume"), type="primary", key="resume"):
        try:
            jobs.resume_sweep(ui.data_dir(), chosen.sweep_id)
        except GoodputError as e:
            st.error(ui.plain(e))
            ui.stop()
        st.rerun()
elif chosen.verdict:
    ui.say(verdict_line(chosen, w) or "")
if st.button(w.text("See the results"), key="results"):
    ui.go_to(ui.RESULTS, chosen.sweep_id)
draw(chosen)
