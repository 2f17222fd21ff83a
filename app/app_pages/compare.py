"""Compare: sweeps, other people's pages and other tools' files; frontier over frontier, then two of them in pairs."""

import streamlit as st

from app import brush, cache, compare_parts, import_parts, result_parts, ui
from app.data import is_import
from app.views.overlay import alike, drawn, measure_titles, overlay_figure, pick_rows, pick_titles
from storage.errors import GoodputError

w = ui.words()
MOST = 8  # as many colours as can be told apart
ui.say(w.text("Compare"), level=2)
known = compare_parts.sides()
told = st.query_params.get("sweeps")
if told is not None and told != st.session_state.get("sweeps-in-address"):
    st.session_state["chosen"] = told.split(",")
first = st.session_state.get("chosen", list(known)[:2])
st.session_state["chosen"] = [i for i in first if i in known][:MOST]
choice, drop = st.columns([3, 2], gap="large")
with choice:
    picked = st.multiselect(
        w.text("Sweeps and files"),
        list(known),
        key="chosen",
        format_func=lambda i: known[i].told,
        max_selections=MOST,
        placeholder=w.text("Choose two or more"),
    )
    if gone := [i for i in first if i not in known]:
        st.warning(ui.plain(w.text("Not here any more: {names}", names=", ".join(gone))))
    compare_parts.delete_imports(w)
with drop:
    compare_parts.take_files(w)
st.session_state["sweeps-in-address"] = ",".join(picked)
if picked:
    st.query_params["sweeps"] = ",".join(picked)
elif "sweeps" in st.query_params:
    del st.query_params["sweeps"]
if not picked:
    with st.container(border=True):
        ui.say(w.text("Nothing is chosen yet."), level=3)
        ui.say(
            w.text(
                "Choose two sweeps to see which settings differ and whether the difference is more than noise: before "
                "and after a new model, a quantization, a driver. Files of others can be dropped beside your own."
            )
        )
        st.page_link(ui.START, label=w.text("Start a demo"))
    ui.stop()

picture, promised = st.columns([2, 1], gap="large")
one_side = known[picked[0]]
targets, rule, wanted = None, None, None
with promised:
    ui.say(w.text("Judged by"), level=3)
    try:
        requests = cache.requests_of(one_side.folder)
        page = import_parts.page_promises(one_side.folder) if is_import(one_side.folder) else None
    except GoodputError:
        requests, page = None, None  # said below, where it is read
    if requests is None and page is None:
        ui.note(w.text("Each by its own targets: the first of them can't be judged again."))
    else:
        ui.note(w.text("The same targets for all; at first those of {name}.", name=one_side.name))
    if requests is not None:
        targets, rule, wanted = result_parts.promises(requests, f"compare-{one_side.id}", w)
    elif page is not None:
        targets, rule, wanted = import_parts.page_sliders(one_side.folder, f"compare-{one_side.id}", w)
read, results = compare_parts.results([known[i] for i in picked], targets, rule, wanted)
if targets is not None and any((r.get("imported") or {}).get("rescoring") == "mean_only" for r in results):
    rule = "mean_tpot"
    with promised:
        ui.note(w.text("All by the mean time per token: one of the files keeps no single gaps."))
    read, results = compare_parts.results([known[i] for i in picked], targets, rule, wanted)
if not results:
    ui.stop()
names = alike([side.name for side in read])


def open_point() -> None:
    """Shows the cell behind a point on the results page of its own sweep."""
    place = brush.last("overlay")
    if place is not None:
        st.session_state["open"] = (read[place[1]].id, place[0])


if (wish := st.session_state.pop("open", None)) is not None:
    st.switch_page(ui.RESULTS, query_params={"sweep": wish[0], "section": "cell", "cell": str(wish[1])})
with picture:
    titles = measure_titles(w)
    measure = st.segmented_control(
        w.text("Against raw output"), list(titles), default="goodput", format_func=lambda k: titles[k], key="measure",
        required=True, wrap=True,
    ) or "goodput"  # fmt: skip
    percentile = "p95" if measure == "goodput" else compare_parts.percentile(results, w)
    fig = overlay_figure(results, names, w, measure=measure, percentile=percentile, dark=ui.dark())
    ui.chart(fig, "overlay", w.text("every cell of the chosen sweeps"), open_point)
    if bare := [n for n, there in zip(names, drawn(results, measure, percentile), strict=True) if not there]:
        ui.note(w.text("Nothing to draw of {names}: it is not known.", names=", ".join(bare)))
    ui.note(w.text("The largest mark of each is its pick. Click a point to open its cell."))
ui.say(w.text("Side by side"), level=3)
st.dataframe(pick_rows(results, names, w), hide_index=True, column_config=pick_titles(w), alt=w.text("the picks"))
compare_parts.definitions(results, names, w)
compare_parts.apart(results, names, w)
if len(read) > 1:
    ui.say(w.text("Better, worse, or noise?"), level=3)
    order = list(range(len(read)))
    a, b = 0, 1
    if len(read) > 2:
        left, right = st.columns(2)
        a = left.selectbox("A", order, 0, format_func=lambda i: names[i], key=f"a-{len(read)}") or 0
        b = right.selectbox("B", order, 1, format_func=lambda i: names[i], key=f"b-{len(read)}") or 0
    if a == b:
        ui.note(w.text("Choose two different ones."))
    else:
        compare_parts.in_pairs(read[a], read[b], (names[a], names[b]), targets, rule, w)
