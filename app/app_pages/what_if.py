"""What if: other schedulers, another machine, on one's own load, calculated in virtual time while one waits."""

from dataclasses import asdict

import streamlit as st

from app import cache, jobs, links, result_parts, ui, what_if, what_if_backend, what_if_parts
from app.views import cells as c
from app.views.schedulers import budget_sentences, goodput_by_load_figure, reason_rows, winner_sentences
from runner.analysis.result import score
from runner.config import parse_sweep
from runner.simulated_sweep import check_virtual
from runner.simulator.capacity import capacity_per_s
from runner.simulator.virtual_server import for_virtual_time
from runner.what_if import misses_by_cell
from storage.errors import GoodputError

w = ui.words()
ui.say(w.text("What if"), level=2)
halves = {"schedulers": w.text("Schedulers side by side"), "server": w.text("My server, predicted")}
links.follow("half", list(halves), "schedulers")
half = st.segmented_control(
    w.text("What to look at"), list(halves), format_func=halves.__getitem__, key="half", required=True,
    label_visibility="collapsed",
)  # fmt: skip
links.show("half", str(half))
if half == "server":
    what_if_backend.show(w)
    ui.stop()
ui.say(w.text("Schedulers side by side on one load. Nothing is measured: a model of the machine is calculated."))
with st.container(border=True):
    machine, load = st.columns(2, gap="large")
    with machine:
        try:
            speed = what_if_parts.speed(w)
        except GoodputError as e:
            st.error(ui.plain(e))
            ui.stop()
        seqs, budget = what_if_parts.limits(speed, w)
    with load:
        found = what_if_parts.own_workload(w)
        if found is None:
            ui.stop()
        workload, tables = found
        axis = what_if.load_axis(tables)
        try:
            classes = what_if.classes_of(tables)
        except GoodputError as e:
            st.error(ui.plain(e))
            ui.stop()
        capacity = capacity_per_s(speed.profile, classes, seqs)
        loads_place, requests_place = st.columns(2)
        loads = loads_place.text_input(
            w.text("Requests a second") if axis == "request_rate" else w.text("Requests at once"),
            what_if.usual_loads(axis, capacity, seqs),
            help=w.text("Several with commas between. What is there at first is up to near the machine's limit."),
            key=f"rates-{workload}-{speed.name}-{seqs}",
        )
        requests = requests_place.select_slider(
            w.text("Requests of the middle one"), what_if_parts.REQUESTS, value=400, format_func=w.count, key="requests"
        )
    picked = what_if_parts.schedulers(w)
if not picked:
    st.info(ui.plain(w.text("Pick a scheduler above, better two: then there is something to compare.")))
    ui.stop()

raw = what_if.sweep_raw(
    w.text("What if: {machine}", machine=speed.name),
    speed.keys,
    tables,
    picked,
    loads,
    what_if.duration_s(axis, loads, capacity, requests),
    (seqs, budget),
    speed.profile.kv_tokens,
)
try:
    config = for_virtual_time(parse_sweep(raw, w.text("This comparison")))
    check_virtual(config, speed.given)
except GoodputError as e:
    st.error(ui.plain(e))
    ui.stop()
cells, tokens = what_if.size_of(config, speed.profile)
if what_if.too_large(cells, tokens):
    st.error(
        ui.plain(
            w.text(
                "{cells} cells with {tokens} tokens are more than this page calculates at once: take fewer loads, "
                "schedulers or requests.",
                cells=w.count(cells),
                tokens=w.count(tokens),
            )
        )
    )
    ui.stop()
try:
    with st.spinner(w.text("Calculating {cells} cells…", cells=w.count(cells))):
        prepared = cache.what_if(config, speed.given)
except GoodputError as e:
    st.error(ui.plain(e))
    ui.stop()

answer = st.container()
picture, promised = st.columns([2, 1], gap="large")
with promised:
    ui.say(w.text("What was promised"), level=3)
    targets, rule, wanted = result_parts.promises(prepared, f"what-if-{workload}", w)
result, dark = score(prepared, targets=targets, rule=rule, share_target=wanted), ui.dark()
with answer:
    first, *more = winner_sentences(result, w)
    ui.say(first, level=3)
    if more:
        ui.say(" ".join(more))
    if targets:
        gap_ms = min(t.gap_ms for t in targets.values())
        context = what_if.context_tokens(config.classes)
        for sentence in budget_sentences(speed.profile, gap_ms, budget, seqs, context, w):
            ui.note(sentence)
    for sentence in what_if_parts.asides(picked, config.classes, speed.profile.kv_tokens, w):
        ui.note(sentence)
with picture:
    ui.say(w.text("Goodput over the load"), level=3)
    figure = goodput_by_load_figure(result, w, dark=dark, height=480 if len(targets) < 2 else 640)
    ui.chart(figure, "goodput", w.text("goodput of each scheduler over the load"))
    ui.note(w.text("Hollow: in doubt or not sustainable, as the remark in the table says."))

levels = {c.load_name(x, w): x["load"] for x in c.cells_of(result)}
pick = c.chosen_cell(result)
if st.session_state.get("level") not in levels:
    st.session_state["level"] = c.load_name(pick, w) if pick is not None else next(iter(levels))
level = str(st.segmented_control(w.text("Look closer at"), list(levels), key="level", required=True))
ui.say(w.text("What each one misses"), level=3)
misses = misses_by_cell(prepared, targets, rule)
st.dataframe(reason_rows(result, misses, levels[level], w), hide_index=True)
at_level = [x for x in c.measured(result) if x["load"] == levels[level]]
if at_level:
    names = c.interactive_classes(result)
    ui.say(w.text("First token and gaps"), level=3)
    if len(names) > 1:
        names = [str(st.segmented_control(w.text("class"), names, default=names[0], key="class", required=True))]
    what_if_parts.distributions(prepared, at_level, names, targets, w)
    ui.say(w.text("Iteration by iteration"), level=3)
    what_if_parts.iterations(prepared, config, speed.given, at_level, w)

st.divider()
ui.say(w.text("Take it with you"), level=3)
ui.note(w.text("As a sweep it is kept in the list, with all its pages, as `goodput simulate` would make it."))
with st.container(horizontal=True):
    if st.button(w.text("Run this as a sweep in virtual time"), key="sweep", type="primary"):
        try:
            profile = asdict(speed.given) if speed.given else None
            started = jobs.start_sweep(ui.data_dir(), config, "what-if", simulated=True, profile=profile)
        except GoodputError as e:
            st.error(ui.plain(e))
            ui.stop()
        ui.go_to(ui.LIVE, started)
    st.download_button(
        w.text("Save as a sweep file"),
        what_if.to_toml(raw, what_if.how_to_run(speed.keys, w)),
        "what-if.toml",
        "application/toml",
        key="file",
        on_click="ignore",
    )
