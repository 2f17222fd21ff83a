"""Start: a quick check of the server at hand, the demo, and the sweeps there are."""

import math

import streamlit as st

from app import cache, jobs, quick_check, start_parts, ui
from app.data import SAMPLES, imported_sweeps, sample_sweeps
from runner.sweep_file import load_sweep
from storage.errors import GoodputError
from storage.side_files import LIVE, list_sweeps

w = ui.words()
SWEEPS_A_PAGE = 12
ui.say("Goodput Lab", level=1)
with st.container(key="tagline"):
    ui.say(
        w.text(
            "Finds the batch settings at which your own LLM server keeps its promises: first words in time, and no "
            "freezes."
        )
    )
sweeps = list_sweeps(ui.data_dir())
for sweep in [s for s in sweeps if s.status in ("queued", *LIVE)][:3]:
    start_parts.running(sweep, w)

quick, others = st.container(key="cards").columns([3, 2], gap="medium")
with quick.container(border=True, key="quick"):
    ui.say(w.text("How many people can chat with your server at once?"), level=2)
    ui.say(w.text("A quick check of about 90 seconds: one test request, then 1, 2, 4 and 8 people at once."))
    here = st.container(key="servers")  # filled at the end: looking for servers must not hold up the page
    with here:
        looking = st.skeleton(height=68)
    with st.form("typed-form", border=False):
        place, button = st.columns([3, 1], vertical_alignment="bottom")
        url = place.text_input(w.text("Another address"), placeholder="http://192.168.1.20:8080", key="typed")
        asked = button.form_submit_button(w.text("Quick check"), key="check-typed", width="stretch")
    if asked:
        start_parts.check_typed(str(url or "").strip(), w)
    ui.note(quick_check.small_print(w))

with others:
    with st.container(border=True, key="demo-card"):
        ui.say(w.text("See it work"), level=2)
        ui.say(
            w.text("A sweep of about a minute on the built-in engine. Nothing to install, nothing leaves this machine.")
        )
        if st.button(w.text("Demo sweep"), type="secondary" if sweeps else "primary", key="demo", width="stretch"):
            try:
                started = jobs.start_sweep(ui.data_dir(), load_sweep(SAMPLES / "demo.toml"), "demo")
            except GoodputError as e:
                st.error(ui.plain(e))
                ui.stop()
            ui.go_to(ui.LIVE, started)
    with st.container(border=True, key="new-card"):
        ui.say(w.text("Find the best setting"), level=2)
        ui.say(w.text("Say who uses your server and what they were promised; the sweep finds the setting that holds."))
        if st.button(w.text("New sweep"), key="new", width="stretch"):
            st.switch_page(ui.NEW)

ui.say(w.text("Your sweeps"), level=2)
kept = sorted([*sweeps, *imported_sweeps(ui.data_dir())], key=lambda s: -s.created_unix_ns)
found = kept
if len(kept) > SWEEPS_A_PAGE:
    wanted = str(st.text_input(w.text("Find by name"), type="search", key="find", bind="query-params") or "")
    found = [s for s in kept if wanted.casefold() in s.name.casefold()]
pages = max(1, math.ceil(len(found) / SWEEPS_A_PAGE))
listed = st.container(key="sweeps")  # filled when the page of the list is known, which is chosen below it
page = st.pagination(pages, key="part", bind="query-params") if pages > 1 else 1
with listed:
    for sweep in found[(page - 1) * SWEEPS_A_PAGE :][:SWEEPS_A_PAGE]:
        start_parts.row(sweep, w)
if not kept:
    ui.say(w.text("Nothing measured yet. What you measure is kept here, on this machine."))
elif not found:
    ui.say(w.text("No sweep has that in its name."))

samples = sample_sweeps()
if samples:
    ui.say(w.text("A real one to look at"), level=2)
    ui.note(w.text("Recorded on another machine; it came with the program. It says nothing about your server."))
    with st.container(key="samples"):
        for sample in samples:
            start_parts.sample(sample, w)

servers = cache.servers()
looking.empty()
with here:
    start_parts.servers(servers, w)
