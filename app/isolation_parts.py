"""The isolation section of a result, and the button that starts such an experiment."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app import jobs, ui
from app.isolate import isolation_config
from app.views.isolation import gap_sentences, has_isolation, isolation_figure, isolation_rows, verdict_sentence
from app.words import Words
from runner.estimate import sweep_seconds
from runner.isolation_plan import Wishes
from runner.plan import plan_cells
from storage.errors import GoodputError


def show(result: Mapping[str, Any], w: Words) -> None:
    """Verdict, figure and table; nothing for a sweep that held nothing back."""
    if not has_isolation(result):
        return
    isolation = result["isolation"]
    ui.say(w.text("Keeping the background apart"), level=3)
    ui.say(verdict_sentence(isolation, w))
    for sentence in gap_sentences(isolation, w):
        ui.note(sentence)
    figure = isolation_figure(isolation, w, dark=ui.dark())
    ui.chart(figure, "isolation", w.text("share of chats inside targets and time of the background, by way"))
    ui.note(
        w.text(
            "Every way had the same arrivals and lengths. A star marks the way that the sentence speaks of; ~ and "
            "hatching mean that some jobs were left and their time is projected."
        )
    )
    st.dataframe(isolation_rows(isolation, w), hide_index=True)


def start_button(named: str, w: Words, *, key: str, disabled: bool = False) -> None:
    """One click: looks at the server's pace, queues the experiment, and leaves for the live page. `named`: a saved
    backend or a URL."""
    says = w.text(
        "Chats beside a pile of documents: alone, as it is, with caps, with the server's priorities, one after another."
    )
    if not st.button(w.text("Isolation experiment"), key=key, help=says, disabled=disabled):
        return
    try:
        with st.spinner(w.text("Looking at the server's pace…")):
            config = isolation_config(ui.data_dir(), named, Wishes())
        started = jobs.start_sweep(ui.data_dir(), config, "isolation experiment")
    except GoodputError as e:
        st.error(ui.plain(e))
        return
    minutes = sweep_seconds(config, plan_cells(config)) / 60
    st.toast(ui.plain(w.text("It takes about {minutes} min.", minutes=w.count(minutes))))
    ui.go_to(ui.LIVE, started)
