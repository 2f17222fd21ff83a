"""New sweep: server, users, targets, grid; beside it how much that is and what is odd about it."""

import streamlit as st

from app import forms, jobs, trace_upload, ui
from app import new_sweep_parts as parts
from app.what_if import to_toml
from runner.config import parse_sweep
from runner.engines.check import check_control
from runner.saved_backends import saved_backends
from runner.search.course import check_budget
from storage.errors import GoodputError

w = ui.words()
ui.say(w.text("New sweep"), level=1)
form, beside = st.columns([3, 2], gap="large")
try:
    saved = saved_backends(ui.data_dir())
except GoodputError as e:
    st.warning(ui.plain(e))
    saved = {}

with form.container(key="form"):
    name = st.text_input(w.text("Name"), w.text("How many chats fit"), max_chars=200, key="name")
    ui.say(w.text("1. Which server"), level=2)
    chosen = parts.choose_server(saved, w)
    if chosen is None:
        ui.stop()
    backend, settings = chosen
    ui.say(w.text("2. Who uses it, and what they were promised"), level=2)
    found = parts.choose_workload(ui.data_dir(), w)
    if found is None:
        ui.stop()
    key, workload = found
    traces = trace_upload.stored(ui.data_dir())
    classes = parts.edit_classes(key, workload.rows, traces, w)
    ui.say(w.text("3. What to vary"), level=2)
    grid = parts.edit_grid(f"{'-'.join(settings)}-{workload.load[0]}", forms.first_grid(workload.load, settings), w)
    ui.say(w.text("4. How long"), level=2)
    run = parts.choose_run(w)

with beside.container(key="beside"):
    ui.say(w.text("What this is"), level=2)
    if isinstance(backend, dict) and backend.get("url") == "":
        st.info(ui.plain(w.text("Type the address of the server, such as http://127.0.0.1:8080.")))
        ui.stop()
    try:
        raw = forms.sweep_data(name, backend, grid, classes, run, traces)
        config = parse_sweep(raw, w.text("This sweep"), saved)
        check_control(config)
        check_budget(config)
    except GoodputError as e:
        st.error(ui.plain(e))
        ui.stop()
    size = parts.summary(config, parts.speed_of(ui.data_dir(), backend, config), w)
    sure = size.cells <= forms.ASK_FROM_CELLS or st.checkbox(
        w.text("Yes, I mean {cells} cells", cells=w.count(size.cells)), key="sure"
    )
    if st.button(w.text("Start"), type="primary", disabled=not sure, key="start", width="stretch"):
        try:
            started = jobs.start_sweep(ui.data_dir(), config, base=ui.data_dir() / trace_upload.FOLDER)
        except GoodputError as e:
            st.error(ui.plain(e))
            ui.stop()
        ui.go_to(ui.LIVE, started)
    st.download_button(
        w.text("Save as a sweep file"),
        to_toml(raw, "goodput run sweep.toml"),
        "sweep.toml",
        "application/toml",
        key="file",
        on_click="ignore",
        width="stretch",
    )
