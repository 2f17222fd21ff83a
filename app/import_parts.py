"""An import on the results page: whose numbers these are, which targets can be moved, its picture, its deletion."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from app import cache, imports, result_parts, ui
from app.export.rescore import sound_tallies
from app.views import cells as c
from app.views.badges import badge_line, badges, rescoring_note
from app.views.overlay import measure_titles, overlay_figure, stated_percentile
from app.views.verdict import target_sentences
from app.words import Words
from runner.analysis.prepare import Prepared
from runner.config import GapRule, Slo
from storage.errors import GoodputError
from storage.side_files import SweepSummary

Asked = tuple[dict[str, Slo] | None, GapRule | None, float | None]
# what a part of a result raises that somebody changed, or that another version made
_STRANGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@contextlib.contextmanager
def guarded(imported: bool, w: Words) -> Iterator[None]:
    """A part of the page: of an import whose data it can't use it says so, and the rest of the page stands."""
    try:
        yield
    except _STRANGE:
        if not imported:
            raise
        ui.note(w.text("This part can't be shown: what the file holds of it is damaged or of another version."))


def promises(chosen: SweepSummary, prepared: Prepared | None, w: Words) -> Asked:
    """Draws the sliders that its data allow; returns targets, rule and share wanted as they stand, all null while
    nothing was moved: then the result is the one that was imported. Raises StorageError."""
    document = cache.imported(chosen.folder)
    kept = document.get("rescoring")
    if prepared is not None:
        asked = result_parts.promises(prepared, chosen.sweep_id, w, rules=kept == "full")
        unmoved = result_parts.own_promises(prepared)
    elif (page := page_promises(chosen.folder)) is not None:
        asked, unmoved = page_sliders(chosen.folder, chosen.sweep_id, w), page
    else:
        for sentence in target_sentences(document["result"], w):
            ui.say(sentence)
        ui.note(w.text("The file tells nothing of single requests, so other targets can't be tried."))
        return None, None, None
    if note := rescoring_note({"imported": {"rescoring": kept}}, w):
        ui.note(note)
    return (None, None, None) if asked == unmoved else asked


def page_promises(folder: Path) -> result_parts.Promises | None:
    """What the sliders of a shared page stand at before anybody moves one; null for all else. Raises StorageError."""
    document = cache.imported(folder)
    tallies = sound_tallies(document.get("tallies")) if document.get("rescoring") == "steps" else None
    own = _page_targets(document["result"], tallies)
    return (own, None, float(document["result"].get("share_target") or 0.9)) if own else None


def page_sliders(folder: Path, key: str, w: Words) -> result_parts.Promises:
    """Draws the sliders of a shared page, in its own steps. For one that has `page_promises`."""
    document = cache.imported(folder)
    classes = (sound_tallies(document.get("tallies")) or {"classes": []})["classes"]
    own, _, alpha = page_promises(folder) or ({}, None, 0.9)
    steps = {k["name"]: (k["ttft_steps_ms"], k["gap_steps_ms"]) for k in classes}
    return result_parts.sliders(own, alpha, key, w, rules=False, steps=steps)


def _page_targets(result: Mapping[str, Any], tallies: Mapping[str, Any] | None) -> dict[str, Slo]:
    """Of the classes whose sliders a shared page has."""
    told = result.get("targets") or {}
    names = [k["name"] for k in tallies["classes"] if told.get(k["name"])] if tallies else []
    usual = result.get("rule") or "p99_gap"
    return {
        name: Slo(ttft_ms=told[name]["ttft_ms"], gap_ms=told[name]["gap_ms"], rule=told[name].get("rule") or usual)
        for name in names
    }


def origin(result: c.Result, w: Words) -> None:
    """Which tool measured it, and how its definitions differ from ours."""
    told = result["imported"]
    files = ", ".join(str(f) for f in told.get("files") or [])
    with st.container(border=True):
        ui.say(w.text("Imported from {tool}", tool=badge_line(result, w)))
        if files:
            ui.note(w.text("Files: {files}", files=files))
        if marks := badges(result, w):
            with st.expander(w.text("What other tools mean by the same words")):
                for badge in marks:
                    ui.define(badge.title, badge.help)


def picture_of_times(result: c.Result, w: Words) -> None:
    """Instead of a goodput frontier: the percentiles that the tool states, against raw output."""
    ui.say(w.text("Times against raw output"), level=3)
    ui.note(w.text("The file holds summaries: which requests kept their promises can't be worked out from it."))
    at = stated_percentile(result)
    titles = {key: title for key, title in measure_titles(w, at).items() if key != "goodput"}
    first = next(iter(titles))
    shown = st.segmented_control(
        w.text("Against raw output"), list(titles), default=first, format_func=lambda k: titles[k], key="times",
        required=True,
    ) or first  # fmt: skip
    name = str(result.get("name") or "")
    figure = overlay_figure([result], [name], w, measure=shown, percentile=at, dark=ui.dark())
    ui.chart(figure, "times-plot", titles[shown])


def delete(chosen: SweepSummary, w: Words) -> None:
    """Takes the import away; the file it came from stays where it is."""
    with st.popover(w.text("Delete this import")):
        ui.say(w.text("The file that it was made from is not touched."))
        if st.button(w.text("Delete for good"), key="delete", type="primary"):
            try:
                imports.delete_import(ui.data_dir(), chosen.sweep_id)
            except GoodputError as e:
                st.error(ui.plain(e))
                ui.stop()
            st.switch_page(ui.START)
