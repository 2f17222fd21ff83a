"""Parts of the start page: a sweep in the list, one that runs, servers that were found, a typed address."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from app import backends, cache, quick_check, ui
from app.thumbnail import alt_text, frontier_svg
from app.views.badges import TOOLS
from app.views.verdict import verdict
from app.words import Words
from storage.errors import GoodputError
from storage.side_files import LIVE, SWEEP, SweepSummary, read_lines, read_state


def running(sweep: SweepSummary, w: Words) -> None:
    """A sweep that waits or is being measured, before everything else on the page."""
    with st.container(border=True, key=f"now-{sweep.sweep_id}"):
        words_of_it, button = st.columns([5, 1], vertical_alignment="center")
        with words_of_it:
            done = w.text("{done} of {total} cells", done=w.count(sweep.cells_done), total=w.count(sweep.cells_total))
            ui.say(w.text("Now: {name}", name=sweep.name))
            st.progress(
                min(1.0, sweep.cells_done / max(sweep.cells_total, 1)),
                ui.plain(" · ".join([ui.status_text(sweep.status), done])),
            )
        if button.button(w.text("Watch"), type="primary", key=f"watch-{sweep.sweep_id}", width="stretch"):
            ui.go_to(ui.LIVE, sweep.sweep_id)


def row(sweep: SweepSummary, w: Words) -> None:
    """A sweep in the list: its name leads to it; below what it found, or why there is nothing."""
    live = sweep.status in ("queued", *LIVE)
    page = ui.LIVE if live or sweep.status == "interrupted" else ui.RESULTS
    with st.container(border=True, key=f"sweep-{sweep.sweep_id}", gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.page_link(page, label=ui.plain(sweep.name), query_params={"sweep": sweep.sweep_id})
            ui.status_badge(sweep.status)
        said = quick_check.told(sweep, w) or verdict_line(sweep, w) or _why_nothing(sweep, w)
        if said:
            ui.say(said)
        progress = w.text("{done} of {total} cells", done=w.count(sweep.cells_done), total=w.count(sweep.cells_total))
        tool = w.text("from {tool}", tool=TOOLS.get(sweep.source, "?")) if sweep.status == "imported" else None
        ui.note(" · ".join(filter(None, [tool, ui.simulated(sweep), progress, ui.when(sweep.created_unix_ns)])))


def verdict_line(sweep: SweepSummary, w: Words) -> str | None:
    """What the sweep found, in the visitor's language; as it was written down where nothing else is there."""
    try:
        found = verdict(sweep.brief or {}, w) if sweep.brief else None
    except (KeyError, TypeError, ValueError, AttributeError):  # of another version, or damaged
        found = None
    if found is None:
        return w.said(sweep.verdict) if sweep.verdict else None
    return " ".join(filter(None, [found.headline, found.detail, found.against_raw]))


def sample(sweep: SweepSummary, w: Words) -> None:
    """A recorded sweep, with a small picture of what it found."""
    words_of_it, picture = st.columns([5, 2], gap="medium", vertical_alignment="center")
    with words_of_it:
        row(sweep, w)
    drawn = frontier_svg(read_lines(sweep.folder, "cells.jsonl"), w, dark=ui.dark())
    if drawn:
        picture.image(drawn, caption=ui.plain(alt_text(w)))


def _why_nothing(sweep: SweepSummary, w: Words) -> str | None:
    if sweep.status == "damaged" and not _may_look(sweep):
        return w.text("The user that runs Goodput Lab may not look into the folder {id}; give it read access.",
                      id=sweep.sweep_id)  # fmt: skip
    if sweep.status == "damaged":
        return w.text("Its files are damaged or only half copied; copy the folder {id} again, or delete it.",
                      id=sweep.sweep_id)  # fmt: skip
    if sweep.status == "interrupted":
        return w.text("It was cut short; what is finished is kept, and it can go on.")
    if sweep.status == "failed":
        return w.said((read_state(sweep.folder) or {}).get("message") or "") or None
    return None


def _may_look(sweep: SweepSummary) -> bool:
    try:
        (sweep.folder / SWEEP).stat()
    except PermissionError:
        return False
    except OSError:
        return True
    return True


def servers(rows: Sequence[Mapping[str, Any]], w: Words) -> None:
    """Servers that were found, each with its quick check."""
    words_of_it, button = st.columns([5, 2], vertical_alignment="center")
    with words_of_it:
        none = w.text("No server answers on the usual ports of this host.")
        ui.say(w.text("Found on this host:") if rows else none)
    if button.button(w.text("Look again"), key="look", width="stretch"):
        cache.servers.clear()
        st.rerun()
    for number, found in enumerate(rows):
        _server(number, found, w)


def _server(number: int, found: Mapping[str, Any], w: Words) -> None:
    with st.container(border=True, key=f"server-{number}", gap="xsmall"):
        first, *more = backends.server_sentences(found, None, w)
        ui.say(first)
        ui.note(" · ".join([str(found["url"]), *more]))
        check, measure = st.columns(2)
        if check.button(
            w.text("Quick check"),
            key=f"check-{number}",
            type="primary",
            width="stretch",
            disabled=bool(found["needs_key"]),
        ):
            _check({"kind": backends.sweep_kind(found), "url": found["url"]}, str(found["title"]), w)
        if measure.button(w.text("New sweep"), key=f"measure-{number}", width="stretch"):
            st.switch_page(ui.NEW, query_params={"url": str(found["url"]), "kind": backends.sweep_kind(found)})


def check_typed(url: str, w: Words) -> None:
    """Starts the quick check of a typed address, or says in one sentence why it can't be done."""
    if url:
        with st.spinner(w.text("Looking at the server…")):
            found, problem = backends.look_at(url, w)
        if problem:
            st.error(ui.plain(problem))
            return
        kind = backends.sweep_kind(found) if found else "openai"
        _check({"kind": kind, "url": url}, str(found["title"]) if found else w.text("a server"), w)
    else:
        _check({"kind": "openai", "url": url}, "", w)


def _check(backend: Mapping[str, Any], title: str, w: Words) -> None:
    try:
        started = quick_check.start(ui.data_dir(), backend, title, w)
    except GoodputError as e:
        st.error(ui.plain(e))
        return
    ui.go_to(ui.LIVE, started)
