"""What all pages share: words of the visitor's language, text that stays text, figures, the sweep that is looked at."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NoReturn
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.data import all_results, find_folder, is_import
from app.views import theme
from app.views.table import Column
from app.words import LANGUAGES, Words, load_words
from runner.errors import ConfigError
from storage.data_folder import default_data_folder
from storage.errors import GoodputError
from storage.side_files import SweepSummary

START, NEW, LIVE, RESULTS, COMPARE, WHAT_IF, BACKENDS, METHOD = (
    f"app_pages/{name}.py"
    for name in ("start", "new_sweep", "live", "results", "compare", "what_if", "backends", "method")
)
PLOTLY: dict[str, Any] = {
    "displaylogo": False,
    "showSendToCloud": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
}
_JOINER = "\u2060"  # invisible; parts what Markdown would read as an icon, a colour or a link


def data_dir() -> Path:
    """The data folder of this dashboard."""
    return default_data_folder()


def words() -> Words:
    """The words of the language that was chosen on the page, else by `?lang=`, else by the browser; else English."""
    asked = st.session_state.get("lang") or st.query_params.get("lang") or st.context.locale or "en"
    lang = str(asked).split("-")[0].lower()
    return _words(lang if lang in LANGUAGES else "en")


class PageEnd(Exception):
    """The page has said all it has to say; its foot still follows."""


def stop() -> NoReturn:
    """Ends the page. Not Streamlit's own: below that nothing more is drawn, the language switch neither."""
    raise PageEnd


def language_switch() -> None:
    """The last line of every page."""
    w = words()
    st.session_state.setdefault("lang", w.lang)
    with st.container(horizontal=True, horizontal_alignment="right"):
        st.selectbox(w.text("Language"), list(LANGUAGES), format_func=LANGUAGES.__getitem__, key="lang", width=160)


@lru_cache
def _words(lang: str) -> Words:
    return load_words(lang)


def dark() -> bool:
    """True if the visitor looks at the dark theme."""
    return bool(st.context.theme.type == "dark")


def plain(text: object) -> str:
    """Any text so that Streamlit's Markdown shows it as it is: no HTML, links, images, icons, colours or formulas.

    An error is said in the visitor's language."""
    said = words().said(text) if isinstance(text, Exception) else str(text)
    line = " ".join(said.split())
    parted = re.sub(r"[:@]|www(?=\.)", lambda found: found[0] + _JOINER, line)
    return re.sub(r"([!-/;-?\[-`{-~])", r"\\\1", parted)


def say(text: str, *, level: int = 0) -> None:
    """A sentence; with `level` a heading."""
    st.markdown(f"{'#' * level} {plain(text)}" if level else plain(text))


def note(text: str) -> None:
    """A sentence in small print."""
    st.caption(plain(text))


def define(term: str, meaning: str) -> None:
    """A term in bold and what it means."""
    st.markdown(f"**{plain(term)}**  \n{plain(meaning)}")


def chart(fig: go.Figure, key: str, alt: str, on_select: Callable[[], None] | None = None) -> None:
    """A figure in our own dress. `on_select` is called when a point was clicked."""
    theme.speak(fig, words())
    if on_select is None:
        st.plotly_chart(fig, theme=None, key=key, config=PLOTLY, alt=alt)
    else:
        st.plotly_chart(fig, theme=None, key=key, config=PLOTLY, alt=alt, on_select=on_select, selection_mode="points")


def clicked_cell(key: str) -> int | None:
    """The cell of the point that was clicked in the chart `key`; None when the click took the choice away."""
    points = st.session_state[key]["selection"]["points"]
    told = points[0].get("customdata") if points else None
    first = told[0] if isinstance(told, list | tuple) and told else told
    return int(first) if isinstance(first, int | float) else None


def rows_to_click(
    frame: pd.DataFrame,
    columns: Sequence[Column],
    formats: Mapping[str, str],
    opened: Callable[[int], None],
    *,
    key: str,
    alt: str,
    height: int | Literal["auto"] = "auto",
    helps: Mapping[str, str] | None = None,
) -> None:
    """A table; a click on a row calls `opened` with its place. `formats` and `helps`: by the kind of a column."""

    def clicked() -> None:
        if rows := st.session_state[key]["selection"]["rows"]:
            opened(rows[0])

    st.dataframe(
        frame,
        hide_index=True,
        height=height,
        key=key,
        on_select=clicked,
        selection_mode="single-row",
        alt=alt,
        column_config={
            x.key: x.title
            if x.kind == "text"
            else st.column_config.NumberColumn(
                f"{x.title} (ms)" if x.kind == "ms" else x.title, format=formats[x.kind], help=(helps or {}).get(x.kind)
            )
            for x in columns
        },
    )


def when(unix_ns: int) -> str:
    """A moment in the visitor's time zone, to the minute."""
    if not unix_ns:
        return ""
    try:
        zone = ZoneInfo(st.context.timezone or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        zone = UTC  # type: ignore[assignment]
    return datetime.fromtimestamp(unix_ns / 1e9, zone).strftime("%Y-%m-%d %H:%M")


def status_text(status: str) -> str:
    """A status in the visitor's language."""
    return _status_texts(words().lang).get(status, status)


@lru_cache
def _status_texts(lang: str) -> dict[str, str]:
    w = _words(lang)
    return {
        "queued": w.text("waiting"),
        "starting": w.text("starting"),
        "running": w.text("running"),
        "paused": w.text("paused"),
        "done": w.text("done"),
        "failed": w.text("failed"),
        "stopped": w.text("stopped"),
        "interrupted": w.text("interrupted"),
        "damaged": w.text("damaged"),
        "sample": w.text("sample"),
        "imported": w.text("imported"),
    }


def status_badge(status: str) -> None:
    """A status as a small label; its colour only repeats what its word says."""
    colors: dict[str, Literal["blue", "orange", "green", "red", "violet"]] = {
        "starting": "blue",
        "running": "blue",
        "paused": "orange",
        "interrupted": "orange",
        "done": "green",
        "failed": "red",
        "damaged": "red",
        "sample": "violet",
    }
    st.badge(plain(status_text(status)), color=colors.get(status, "gray"))


def label(sweep: SweepSummary) -> str:
    """A sweep in a list: name, state, moment."""
    return " · ".join(
        filter(None, [sweep.name, status_text(sweep.status), simulated(sweep), when(sweep.created_unix_ns)])
    )


def simulated(sweep: SweepSummary) -> str | None:
    """The word that marks a sweep of virtual time wherever it is named."""
    return words().text("simulated") if sweep.simulated else None


def chosen_sweep(usable: Sequence[str], listed: Sequence[SweepSummary] | None = None) -> SweepSummary | None:
    """The sweep of the address (`?sweep=<id>`), else the newest with one of the states `usable`. None: there is none.

    `listed`: `all_results`, where the page has it already. A wrong id in the address ends the page with one sentence,
    and so does an import where no page of it is.
    """
    sweeps = {s.sweep_id: s for s in (all_results(data_dir()) if listed is None else listed)}
    wanted = st.query_params.get("sweep")
    if wanted is None:
        return next((s for s in sweeps.values() if s.status in usable), None)
    w = words()
    try:
        found = sweeps[find_folder(data_dir(), wanted).name]
    except (ConfigError, KeyError):
        st.error(plain(w.text("There is no sweep {id} here; it may have been deleted.", id=wanted)))
        st.page_link(START, label=w.text("Back to the start page"))
        stop()
    if is_import(found.folder) and "imported" not in usable:
        st.info(plain(w.text("This was imported from a file; the page Results shows it.")))
        st.page_link(RESULTS, label=w.text("Results"), query_params={"sweep": wanted})
        stop()
    return found


def attempt(do: Callable[..., object], *args: object) -> None:
    """For buttons: does it, and tells in a sentence if it can't be done."""
    try:
        do(*args)
    except GoodputError as e:
        st.toast(plain(e))


def go_to(page: str, sweep_id: str) -> None:
    """Leaves for another page with that sweep."""
    st.switch_page(page, query_params={"sweep": sweep_id})
