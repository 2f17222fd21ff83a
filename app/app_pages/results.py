"""Results: the answer in words, then the picture, then the numbers. Targets move without a new measurement."""

import streamlit as st

from app import (
    brush,
    cache,
    cell_parts,
    closer_parts,
    import_parts,
    isolation_parts,
    jobs,
    links,
    quick_check,
    result_parts,
    ui,
)
from app.data import all_results, is_import, is_sample
from app.views import cells as c
from app.views.frontier import frontier_figure
from app.views.imported import left_out, left_out_sentences
from app.views.verdict import flat_facts, origin_note, verdict
from runner.analysis.result import targets_of
from runner.kept_result import is_kept
from runner.queue import delete_sweep
from runner.quick_check import is_quick_check
from storage.errors import GoodputError
from storage.side_files import LIVE, read_state

w = ui.words()
READABLE = ("done", "stopped", "failed", "interrupted", "sample", "imported")
everything = all_results(ui.data_dir())
chosen = ui.chosen_sweep(READABLE, everything)
if chosen is None:
    with st.container(border=True):
        ui.say(w.text("No results yet."), level=2)
        ui.say(w.text("A sweep that has ended is shown here: what to set, what it gives, and how sure that is."))
        st.page_link(ui.START, label=w.text("Start a demo"))
        st.page_link(ui.NEW, label=w.text("Set up a sweep"))
    ui.stop()
listed = {s.sweep_id: s for s in everything if s.status in READABLE or s is chosen}
listed.setdefault(chosen.sweep_id, chosen)


def other_sweep() -> None:
    """Puts the sweep that was picked from the list into the address."""
    st.query_params["sweep"] = st.session_state["which"]


st.session_state["which"] = chosen.sweep_id
links.show("sweep", chosen.sweep_id)
st.selectbox(
    w.text("Sweep"), list(listed), key="which", format_func=lambda i: ui.label(listed[i]), on_change=other_sweep
)
if chosen.status in ("queued", *LIVE):
    st.info(ui.plain(w.text("This sweep is being measured.")))
    if st.button(w.text("Watch"), key="watch"):
        ui.go_to(ui.LIVE, chosen.sweep_id)
    ui.stop()
if chosen.status in ("stopped", "interrupted", "failed") and chosen.cells_done < chosen.cells_total:
    ended, again = st.columns([5, 1], vertical_alignment="center")
    with ended:
        done, total = w.count(chosen.cells_done), w.count(chosen.cells_total)
        ui.note(w.text("{done} of {total} cells were measured.", done=done, total=total))
        if why := (read_state(chosen.folder) or {}).get("message"):
            ui.note(w.text("This sweep ended early: {why}", why=w.said(why)))
    if again.button(w.text("Resume"), key="resume", width="stretch"):
        try:
            jobs.resume_sweep(ui.data_dir(), chosen.sweep_id)
        except GoodputError as e:
            st.error(ui.plain(e))
            ui.stop()
        ui.go_to(ui.LIVE, chosen.sweep_id)
reading = st.empty()
if not is_kept(chosen.folder):  # a large sweep of an older version takes a second or two to be judged
    reading.skeleton(height=560)
imported = is_import(chosen.folder)
try:
    prepared = cache.requests_of(chosen.folder) if imported else None
    config = None if imported else cache.own_result(chosen.folder)[0]
except GoodputError as e:
    reading.empty()
    st.error(ui.plain(e))
    st.page_link(ui.START, label=w.text("Back to the start page"))
    ui.stop()
reading.empty()

answer = st.container()
picture, promised = st.columns([2, 1], gap="large")
if config is None:
    with promised:
        ui.say(w.text("What was promised"), level=3)
        targets, rule, wanted = import_parts.promises(chosen, prepared, w)
else:  # the answer above the sliders is drawn first, or they would be pushed down by it
    own, alpha = targets_of(config), config.run.share_target
    targets, rule, wanted = result_parts.as_they_stand(own, alpha, chosen.sweep_id)
try:
    result = cache.result(chosen.folder, targets, rule, wanted)
except GoodputError as e:
    st.error(ui.plain(e))
    ui.stop()
said, pick, dark = verdict(result, w), c.chosen_cell(result), ui.dark()

short = quick_check.sentence(c.cells_of(result), w) if config and is_quick_check(config) else None

with answer, import_parts.guarded(imported, w):
    ui.say(short or said.headline, level=2)
    if short:
        ui.note(quick_check.small_print(w))
    if note := origin_note(result, w):
        st.caption(ui.plain(note))
    ui.say(said.detail)
    if pick is not None:
        result_parts.tiles(pick, w)
    if said.paste:
        result_parts.to_paste(said.paste, w)
    if said.against_raw:
        st.info(ui.plain(said.against_raw))
    result_parts.beside_choice(result, w)
    result_parts.doubts(result, w)
    isolation_parts.show(result, w)
    if imported:
        import_parts.origin(result, w)


def picked_in_picture() -> None:
    """One point leads to its cell, a box to the numbers of the cells in it; without cells to look into, both do."""
    key = st.session_state["frontier-key"]
    cells, boxed = brush.cells(key), brush.boxed(key) or "cell" not in sections
    st.session_state["brushed"] = (chosen_id, cells) if boxed else (chosen_id, [])
    if boxed and cells:
        links.go_on_with(section="numbers")
    elif cells:
        links.go_on_with(section="cell", cell=cells[0])


def show_all() -> None:
    """Takes the box away: a figure of another name is drawn anew."""
    st.session_state["brushed"] = (chosen_id, [])
    st.session_state["frontier-key"] += "+"


def look_closer(section: str) -> None:
    """The section that is looked at."""
    if section == "latency":
        closer_parts.latency(result, w)
    elif section in ("spread", "time", "stalls", "cell"):
        look_at_requests(section)
    elif section == "grid":
        closer_parts.grid(result, w)
    elif section == "share":
        closer_parts.by_class(result, w)
    elif section == "rules":
        closer_parts.by_rule(result, w)
    elif section == "batch":
        closer_parts.batch(result, w)
    elif section == "rates":
        closer_parts.largest_rates(result, w)
    elif section == "numbers":
        numbers()
    else:
        result_parts.facts(flat_facts(result), w)


def look_at_requests(section: str) -> None:
    """A section of single requests, which are read when it is asked for."""
    try:
        whole = prepared or cache.prepared(chosen_folder)
    except GoodputError as e:
        st.error(ui.plain(e))
        return
    if section == "spread":
        closer_parts.spread(whole, result, w)
    elif section == "time":
        closer_parts.where_time_goes(whole, result, w)
    elif section == "stalls":
        closer_parts.stalls(whole, result, targets or targets_of(whole.config), w)
    else:
        number = result_parts.cell_picker(result, w)
        cell_parts.one_cell(whole, result, number, targets or targets_of(whole.config), rule, w)


def numbers() -> None:
    """Every number, of the cells in the box alone while there is one."""
    of_sweep, brushed = st.session_state.get("brushed", (chosen_id, []))
    only = brushed if of_sweep == chosen_id else []
    if only:
        told, button = st.columns([4, 1], vertical_alignment="center")
        with told:
            ui.note(w.plural("{n} cell lies in the box.", "{n} cells lie in the box.", len(only)))
        button.button(w.text("Show all"), key="show-all", on_click=show_all, width="stretch")
    result_parts.every_number(result, only, w, to_cell="cell" in sections)


chosen_id, chosen_folder = chosen.sweep_id, chosen.folder
every_section = {
    "latency": w.text("First token and gaps"),
    "spread": w.text("Distributions"),
    "time": w.text("Where the time goes"),
    "grid": w.text("Setting by setting"),
    "share": w.text("By class"),
    "rules": w.text("By rule"),
    "stalls": w.text("Stalls"),
    "batch": w.text("Limit and batch"),
    **({"rates": w.text("Largest load")} if result.get("max_rates") else {}),
    "cell": w.text("One cell"),
    "numbers": w.text("Every number"),
    "facts": w.text("Measured on"),
}
lacking = left_out(result, w, requests=not imported or prepared is not None)
sections = {name: title for name, title in every_section.items() if name not in lacking}
st.session_state.setdefault("frontier-key", "frontier-plot")
times_only, frontier = imported and not c.measured(result), None
with picture, st.container(key="frontier"):
    title, frontier_place = st.container(), st.container()
    with import_parts.guarded(imported, w):
        if not times_only:
            with title:
                ui.say(w.text("Goodput frontier"), level=3)
            frontier = frontier_figure(result, w, dark=dark)
            with frontier_place:
                frontier_place = brush.place(frontier, st.session_state["frontier-key"])
    if "cell" in sections:
        ui.note(
            w.text(
                "Click a point to look into its cell. The box tool above the figure shows the numbers of several cells."
            )
        )

if config is not None:
    with promised:
        ui.say(w.text("What was promised"), level=3)
        result_parts.sliders(own, alpha, chosen.sweep_id, w)
links.follow("section", list(sections), next(iter(sections)))
section = st.segmented_control(
    w.text("Look closer"), list(sections), format_func=lambda k: sections[k], key="section", required=True
)
links.show("section", section)
if section != "cell":
    links.show("cell", None)
    links.show("request", None)
closer = st.container(key="closer")
for sentence in left_out_sentences(every_section, lacking, w):
    ui.note(sentence)
st.page_link(ui.METHOD, label=w.text("What these numbers mean, and how the choice is made"))

st.divider()
ui.say(w.text("Take it with you"), level=3)
result_parts.take_away(chosen.folder, chosen.sweep_id, w)
if imported:
    import_parts.delete(chosen, w)
elif not is_sample(chosen.folder):
    with st.popover(w.text("Delete this sweep")):
        ui.say(w.text("Its measurements are gone for good."))
        if st.button(w.text("Delete for good"), key="delete", type="primary"):
            try:
                delete_sweep(ui.data_dir(), chosen.sweep_id)
            except GoodputError as e:
                st.error(ui.plain(e))
                ui.stop()
            st.switch_page(ui.START)
if not imported and not any(s.status in LIVE for s in everything):  # what is measured goes first
    cache.prepare_soon(chosen.folder)
brush.words_first()
with frontier_place, import_parts.guarded(imported, w):
    if times_only:
        import_parts.picture_of_times(result, w)
    elif frontier is not None:
        alt = w.text("goodput against raw output of every cell")
        brush.chart(frontier, st.session_state["frontier-key"], alt, picked_in_picture)
with closer, import_parts.guarded(imported, w):
    look_closer(section or next(iter(sections)))
