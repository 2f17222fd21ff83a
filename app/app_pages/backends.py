"""Backends: saved servers, whether they answer, how their settings are applied. Commands are shown, never typed."""

import streamlit as st

from app import backend_parts, ui
from runner.saved_backends import FILE, saved_backends
from storage.errors import GoodputError

w = ui.words()
ui.say(w.text("Backends"), level=1)
ui.say(w.text("Servers that you measure more than once, under a name of yours."))
try:
    saved = saved_backends(ui.data_dir())
except GoodputError as e:
    st.error(ui.plain(e))
    ui.note(w.text("Nothing was changed. Mend the file, then open this page again."))
    ui.stop()

listed, form = st.columns([3, 2], gap="large")
with listed.container(key="saved-ones"):
    if not saved:
        with st.container(border=True, key="no-backend"):
            ui.say(w.text("None is saved yet."), level=2)
            ui.say(
                w.text("Save one with the form. A server that runs on this host is found on the start page without it.")
            )
    for number, name in enumerate(saved):
        backend_parts.card(number, name, saved[name], w)
with form.container(key="form"):
    backend_parts.edit(saved, w)
    ui.say(w.text("Have its settings changed by itself"), level=2)
    ui.say(
        w.text(
            "A command that starts your server is only read from {file} on the machine that runs Goodput Lab, never "
            "typed in a browser. Add this below the server's lines, with your own start line:",
            file=str(ui.data_dir() / FILE),
        )
    )
    backend_parts.example(saved, w)
