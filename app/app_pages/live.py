"""Live: a sweep while it is measured. Everything shown comes from its files, so any browser may come and go."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app import jobs, status, ui
from app.views import live as charts
from app.views.frontier import frontier_figure
from runner.queue import read_config
from storage.errors import GoodputError
from storage.side_files import LIVE, SweepSummary, ask, asked, read_lines, read_state, status_of

w = ui.words()
LOOK_EVERY_S = 2.0  # drawing costs time on the machine that measures
WATCHED = ("queued", *LIVE)
chosen = ui.chosen_sweep(WATCHED)
if chosen is None:
    ui.say(w.text("Nothing is being measured."), level=2)
    st.page_link(ui.START, label=w.text("Start a demo"))
    st.page_link(ui.NEW, label=w.text("Set up a sweep"))
    st.stop()
st.query_params["sweep"] = chosen.sweep_id
try:
    config = read_config(chosen.folder)
except GoodputError as e:
    st.error(ui.plain(e))
    st.stop()


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
    st.warning(ui.plain(str(waiting_for.get("text") or "")))
    st.button(w.text("Continue"), key="continue", type="primary", on_click=ui.attempt, args=(jobs.go_on, sweep.folder))


def numbers(line: status.Line) -> None:
    """Counts of the cell that runs."""
    shown = {
        w.text("sent"): line.get("sent"),
        w.text("completed"): line.get("completed"),
        w.text("failed"): line.get("failed"),
        w.text("rejected"): line.get("rejected"),
        w.text("open now"): line.get("open_streams"),
        w.text("running"): line.get("running"),
        w.text("waiting"): line.get("waiting"),
        w.text("preemptions"): line.get("num_preemptions"),
    }
    with st.container(horizontal=True, gap="medium"):
        for title, value in shown.items():
            st.metric(title, w.count(value), width="content")


def figures(lines: list[dict[str, object]], rows: list[dict[str, object]]) -> None:
    """The frontier so far, and cause beside effect, second by second."""
    dark = ui.dark()
    if any(row.get("status") == "ok" for row in rows):
        ui.say(w.text("Frontier so far"), level=3)
        fig = status.unmarked(frontier_figure(status.growing_result(rows), w, dark=dark, height=380))
        ui.chart(fig, "live-frontier", w.text("goodput against raw output of the cells that ended"))
    ui.say(w.text("Second by second"), level=3)
    small = {
        "ttft": (charts.latency_figure, w.text("first token times")),
        "gaps": (charts.gap_figure, w.text("gaps between chunks")),
        "batch": (charts.batch_figure, w.text("requests running and waiting")),
        "kv": (charts.kv_figure, w.text("fill of the KV cache")),
    }
    for place, (key, (figure, alt)) in zip([*st.columns(2), *st.columns(2)], small.items(), strict=True):
        with place:
            ui.chart(figure(lines, w, dark=dark), f"live-{key}", alt)


def draw(sweep: SweepSummary) -> None:
    """One look at the files."""
    now = status_of(sweep.folder)
    if now not in WATCHED and st.session_state.get("watching") == sweep.sweep_id:
        st.rerun()
    state = read_state(sweep.folder) or {}
    lines = read_lines(sweep.folder, "live.jsonl", last=status.LINES)
    rows = read_lines(sweep.folder, "cells.jsonl")
    line = lines[-1] if lines else {}
    if now == "queued":
        jobs.ensure_worker(ui.data_dir())
        ui.say(w.text("Waiting for the sweep before it to end, or for the worker to start."))
    elif now in LIVE:
        ui.say(status.cell_sentence(line, config, w))
    if now in LIVE and isinstance(state.get("waiting_for"), dict):
        by_hand(sweep, state["waiting_for"])
    done, total = int(state.get("cells_done") or 0), int(state.get("cells_total") or 1)
    left = w.text("about {time} left", time=status.duration(status.seconds_left(lines), w))
    progress = w.text("{done} of {total} cells", done=w.count(done), total=w.count(total))
    text = " · ".join([ui.status_text(now), progress, *([left] if now in LIVE and lines else [])])
    st.progress(status.share_done(lines, done, total) if now in LIVE else status.share_done([], done, total), text)
    if now in WATCHED:
        controls(sweep)
    if not lines:
        return
    numbers(line)
    errors = status.error_rows(line)
    if errors:
        ui.say(w.text("Errors of this cell"), level=3)
        st.dataframe(errors, hide_index=True, column_config={"kind": w.text("kind"), "count": w.text("count")})
    figures(lines, rows)
    well, sentence = status.client_sentence(line, w)
    if well:
        ui.note(sentence)
    else:
        st.warning(ui.plain(sentence))


ui.note(" · ".join(filter(None, [ui.when(chosen.created_unix_ns), ui.simulated(chosen)])))
ui.say(chosen.name, level=2)
if chosen.status in WATCHED:
    st.session_state["watching"] = chosen.sweep_id
    st.fragment(draw, run_every=LOOK_EVERY_S)(chosen)
    st.stop()
if st.session_state.pop("watching", None) == chosen.sweep_id and chosen.status in ("done", "stopped"):
    ui.go_to(ui.RESULTS, chosen.sweep_id)

message = (read_state(chosen.folder) or {}).get("message")
if chosen.status in ("interrupted", "failed", "stopped"):
    ends = {
        "interrupted": w.text("This sweep was interrupted: its worker is gone. Finished cells are kept."),
        "failed": w.text("This sweep ended early: {why}", why=message or w.text("see the log")),
        "stopped": w.text("This sweep ended early: {why}", why=message)
        if message
        else w.text("This sweep was stopped. Finished cells are kept."),
    }
    st.warning(ui.plain(ends[chosen.status]))
    if st.button(w.text("Resume"), type="primary", key="resume"):
        try:
            jobs.resume_sweep(ui.data_dir(), chosen.sweep_id)
        except GoodputError as e:
            st.error(ui.plain(e))
            st.stop()
        st.rerun()
elif chosen.verdict:
    ui.say(chosen.verdict)
if st.button(w.text("See the results"), key="results"):
    ui.go_to(ui.RESULTS, chosen.sweep_id)
draw(chosen)
