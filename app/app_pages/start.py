"""Start: what this is, the demo, and the sweeps there are."""

import streamlit as st

from app import backends, cache, jobs, ui
from app.data import SAMPLES, all_sweeps
from runner.sweep_file import load_sweep
from storage.errors import GoodputError
from storage.side_files import LIVE

w = ui.words()
ui.say("Goodput Lab", level=1)
ui.say(
    w.text(
        "Finds the batch settings at which your own LLM server keeps its promises: first words in time, and no freezes."
    )
)
demo, new = st.columns(2, border=True)
with demo:
    ui.say(w.text("See it work"), level=3)
    ui.say(w.text("A sweep of about a minute on the built-in engine. Nothing to install, nothing leaves this machine."))
    if st.button(w.text("Demo sweep"), type="primary", key="demo", width="stretch"):
        try:
            started = jobs.start_sweep(ui.data_dir(), load_sweep(SAMPLES / "demo.toml"), "demo")
        except GoodputError as e:
            st.error(ui.plain(e))
            st.stop()
        ui.go_to(ui.LIVE, started)
with new:
    ui.say(w.text("Measure your server"), level=3)
    ui.say(w.text("Say who uses it and what they were promised; the sweep finds the setting that holds."))
    if st.button(w.text("New sweep"), key="new", width="stretch"):
        st.switch_page(ui.NEW)

here = st.container()  # filled at the end: looking for servers must not hold up the page

ui.say(w.text("Sweeps"), level=2)
sweeps = all_sweeps(ui.data_dir())
if not sweeps:
    ui.note(w.text("None yet. The demo makes the first one."))
for sweep in sweeps[:30]:
    with st.container(border=True, key=f"sweep-{sweep.sweep_id}"):
        words_of_it, button = st.columns([5, 1], vertical_alignment="center")
        with words_of_it:
            ui.say(sweep.name, level=4)
            if sweep.verdict:
                ui.say(sweep.verdict)
            progress = w.text(
                "{done} of {total} cells", done=w.count(sweep.cells_done), total=w.count(sweep.cells_total)
            )
            facts = [ui.status_text(sweep.status), ui.simulated(sweep), progress, ui.when(sweep.created_unix_ns)]
            ui.note(" · ".join(filter(None, facts)))
        live = sweep.status in ("queued", *LIVE)
        if button.button(w.text("Watch") if live else w.text("Open"), key=f"open-{sweep.sweep_id}", width="stretch"):
            ui.go_to(ui.LIVE if live or sweep.status == "interrupted" else ui.RESULTS, sweep.sweep_id)

servers = cache.servers()
with here:
    title, again = st.columns([5, 1], vertical_alignment="center")
    with title:
        ui.say(w.text("Servers on this host"), level=2)
    if again.button(w.text("Look again"), key="look", width="stretch"):
        cache.servers.clear()
        st.rerun()
    if not servers:
        ui.note(w.text("None answers on the usual ports. One elsewhere is measured by its address: New sweep."))
    for number, row in enumerate(servers):
        with st.container(border=True, key=f"server-{number}"):
            words_of_it, button = st.columns([5, 1], vertical_alignment="center")
            first, *more = backends.server_sentences(row, None, w)
            with words_of_it:
                ui.say(first)
                ui.note(" · ".join([row["url"], *more]))
            if button.button(w.text("Measure"), key=f"measure-{number}", width="stretch"):
                st.switch_page(ui.NEW, query_params={"url": row["url"], "kind": backends.sweep_kind(row)})
