"""What the results page shows when somebody looks closer: a function a section. Each draws; none computes."""

from collections.abc import Mapping, Sequence

import streamlit as st

from app import links, ui
from app.data import cell_series
from app.result_parts import cell_label
from app.views import cells as c
from app.views import table, theme
from app.views.batch import batch_figure, batch_rows
from app.views.bound import blind_hint, told_columns
from app.views.ecdf import ecdf_figure
from app.views.heatmap import heat_figure, heat_grid, heat_keys
from app.views.interference import cause_rows, interference_figure, interference_sentence
from app.views.percentiles import percentiles_figure
from app.views.phases import phase_rows, phase_sentence, phases_figure
from app.views.rates import rate_rows, rates_figure
from app.views.rules import blind_mean, rule_rows, rule_titles
from app.views.share import share_figure
from app.views.stalls import stall_rows, stall_sentence
from app.words import Words
from runner.analysis.interference import interference
from runner.analysis.prepare import Prepared
from runner.analysis.stalls import stalled_requests
from runner.config import Slo


def latency(result: c.Result, w: Words) -> None:
    """First-token and gap percentiles."""
    shown = st.segmented_control(w.text("percentile"), c.PERCENTILES, default="p95", key="percentile", required=True)
    fig = percentiles_figure(result, w, shown=shown or "p95", others=False, dark=ui.dark())
    ui.chart(fig, "percentiles", w.text("first token and gap percentiles against raw output"))


def spread(prepared: Prepared, result: c.Result, w: Words) -> None:
    """First-token times and gaps of every setting at one load, as cumulative shares."""
    cells = _load_picker(result, "spread-load", w)
    classes = c.interactive_classes(result) or [x.name for x in prepared.config.classes]
    name = classes[0]
    if len(classes) > 1:
        name = st.segmented_control(w.text("Class"), classes, default=name, key="spread-class", required=True) or name
    rows = [x for x in c.measured(result) if x["cell"] in cells]
    drawn = sorted(rows, key=lambda x: -x["goodput_per_s"])[: theme.MAX_SERIES]
    if len(drawn) < len(rows):
        ui.note(w.text("The {n} cells of most goodput are drawn.", n=w.count(len(drawn))))
    shorts = c.short_names(result, w)
    places = {short: place for place, short in enumerate(shorts.values())}
    labels = {x["cell"]: _label_of_one(x, drawn, shorts) for x in drawn}
    series = {x["cell"]: cell_series(prepared, x["cell"]) for x in drawn}
    target = (result.get("targets") or {}).get(name) or {}
    titles = {"ttft_ms": w.text("first token (ms)"), "gap_ms": w.text("gap between chunks (ms)")}
    for key, title in titles.items():
        named = {labels[n]: values[key][name] for n, values in series.items() if name in values[key]}
        marks = [float(target[key])] if target else []
        alt = w.text("shares of {what}", what=title)
        fig = ecdf_figure(named, title, w, targets_ms=marks, styles=places, dark=ui.dark())
        theme.name_legend(fig, c.short_title(result))
        ui.chart(fig, f"spread-{key}", alt)


def where_time_goes(prepared: Prepared, result: c.Result, w: Words) -> None:
    """Held back, queue, prefill, decode: a stacked bar a setting."""
    cells = _load_picker(result, "time-load", w)
    names = [x.name for x in prepared.config.classes]
    everyone = w.text("everyone")
    name = everyone
    if len(names) > 1:
        name = (
            st.segmented_control(w.text("Class"), [everyone, *names], default=everyone, key="time-class", required=True)
            or everyone
        )
    rows = phase_rows(result, prepared.requests, None if name == everyone else name, w)
    shown = [r for r in rows if r["cell"] in cells]
    pick = c.chosen_cell(result)
    if told := phase_sentence(rows, pick["cell"] if pick else None, w):
        ui.say(told)
    ui.chart(phases_figure(shown, w, dark=ui.dark()), "phases", w.text("where the time of a request goes"))
    if any(r["first_ms"] is not None for r in shown):
        ui.note(
            w.text("Queue and prefill are one bar where the server does not tell how long requests wait in its queue.")
        )


def grid(result: c.Result, w: Words) -> None:
    """The heat map; which two settings and which load can be chosen where there are several."""
    axis = next((c.load_of(x)[0] for x in c.cells_of(result)), "load")
    keys = [*c.varying_keys(c.settings_of(result).values()), axis]
    loads: list[float | str] = [
        w.text("the best of each"),
        *sorted({v for x in c.cells_of(result) if (v := c.load_of(x)[1])}),
    ]
    first, second = heat_keys(result)
    down, across, at = st.columns(3)
    row = down.selectbox(w.text("Down"), keys, keys.index(first) if first in keys else 0, key="row")
    others = [k for k in keys if k != row]
    column = across.selectbox(w.text("Across"), others, others.index(second) if second in others else 0, key="column")
    load = at.selectbox(c.load_title(axis, w), loads, key="load", disabled=axis in (row, column))
    one = float(load) if isinstance(load, float) and axis not in (row, column) else None
    figure = heat_figure(heat_grid(result, row, column, load=one, words=w), w, dark=ui.dark())
    ui.chart(figure, "heat", w.text("goodput of each setting"))


def by_class(result: c.Result, w: Words) -> None:
    """Share inside the targets by load, a figure a class."""
    names = c.interactive_classes(result)
    if not names:
        ui.note(w.text("No class of this sweep has targets."))
    for name in names:
        ui.say(name, level=4)
        fig = share_figure(result, name, w, dark=ui.dark())
        ui.chart(fig, f"share-{name}", w.text("share of {name} inside targets by load", name=name))


def by_rule(result: c.Result, w: Words) -> None:
    """The pick judged by every gap rule, and where a mean would have hidden stalls."""
    hidden = blind_mean(result, w)
    if hidden:
        ui.say(hidden)
    titles = rule_titles(w)
    rows = [
        {w.text("class"): row["class"], **{titles[r]: w.share(v) for r, v in row["rules"].items()}}
        for row in rule_rows(result)
    ]
    if rows:
        st.dataframe(rows, hide_index=True)
        ui.note(w.text("Share of the pick's requests that pass, by rule."))


def stalls(prepared: Prepared, result: c.Result, targets: Mapping[str, Slo], w: Words) -> None:
    """Requests that pass on the mean and froze, and what the long gaps of one cell lie beside."""
    found = stalled_requests(prepared, targets)
    ui.say(w.text("Passes on the mean, stalls in practice"), level=3)
    ui.say(stall_sentence(found, w) or w.text("No request passes by its mean and froze all the same."))
    rows, labels = stall_rows(found, w), cell_label(result, w)
    if rows:
        titles = {
            "cell": w.text("cell"),
            "request": w.text("request"),
            "class_name": w.text("class"),
            "at": w.text("froze at"),
            "longest_gap": w.text("longest gap"),
            "tpot": "TPOT",
            "long_gaps": w.text("gaps over target"),
            "stalled": w.text("frozen in all"),
        }
        shown = [{k: labels[r["cell"]] if k == "cell" else r[k] for k in titles} for r in rows]

        def opened() -> None:
            chosen = st.session_state["stalls"]["selection"]["rows"]
            if chosen:
                links.go_on_with(section="cell", cell=rows[chosen[0]]["cell"], request=rows[chosen[0]]["request"])

        st.dataframe(
            shown, hide_index=True, height=320, key="stalls", on_select=opened, selection_mode="single-row",
            column_config=titles, alt=w.text("requests that froze"),
        )  # fmt: skip
        ui.note(w.text("Click a row to see its request token by token."))
    ui.say(w.text("Long gaps beside what was read meanwhile"), level=3)
    measured = {n: name for n, name in labels.items() if n in {x["cell"] for x in c.measured(result)}}
    pick = c.chosen_cell(result)
    first = int(found["cell"].mode().iloc[0]) if len(found) else pick["cell"] if pick else None
    if not measured or first is None:
        return
    order = list(measured)
    number = st.selectbox(
        w.text("Cell"), order, order.index(first), format_func=lambda n: measured[n], key="stalls-cell"
    )
    beside = interference(prepared, targets, int(first if number is None else number))
    if beside is None:
        ui.note(w.text("Nothing of a class with targets was streamed in this cell."))
        return
    ui.say(interference_sentence(beside, w))
    if beside.long_gaps:
        ui.chart(
            interference_figure(beside, w, dark=ui.dark()), "interference", w.text("long gaps and prefills over time")
        )
        titles = {
            "class_name": w.text("class"),
            "prefills": w.text("prefills"),
            "explained": w.text("frozen time inside them"),
            "expected": w.text("by chance"),
        }
        st.dataframe(cause_rows(beside, w), hide_index=True, column_config=titles, alt=w.text("causes by class"))


def batch(result: c.Result, w: Words) -> None:
    """Limit against observed batch: what bound each setting, as the server tells it and as its streams show it."""
    hint = blind_hint(result, w)
    if hint:
        st.info(ui.plain(hint))
    ui.chart(batch_figure(result, w, dark=ui.dark()), "batch", w.text("batch limit and observed batch"))
    rows = batch_rows(result, w)
    for row in rows:
        ui.define(row["name"], " ".join([row["sentence"], *row["more"]]))
    shown = told_columns(rows, w)
    st.dataframe(
        [
            {
                w.text("setting"): row["name"],
                w.text("load"): row["load"],
                w.text("bound by"): row["bound"],
                **{title: table.shown(row.get(key), kind, w) for key, title, kind in shown},
            }
            for row in rows
        ],
        hide_index=True,
    )


def largest_rates(result: c.Result, w: Words) -> None:
    """The largest load that each setting keeps its promises at."""
    rows = rate_rows(result, w)
    ui.chart(rates_figure(result, w, dark=ui.dark()), "rates", w.text("largest load of each setting"))
    for row in rows:
        ui.define(row["name"], row["reason"] or w.significant(row["rate"]))


def _loads(result: c.Result, w: Words) -> dict[str, list[int]]:
    """What each load is called -> its measured cells, by rising load."""
    found: dict[str, list[int]] = {}
    for cell in sorted(c.measured(result), key=lambda x: c.load_of(x)[1] or 0.0):
        found.setdefault(c.load_name(cell, w) or w.text("its own load"), []).append(cell["cell"])
    return found


def _load_picker(result: c.Result, key: str, w: Words) -> list[int]:
    """The cells at the load that was picked; at first that of the pick."""
    loads, pick = _loads(result, w), c.chosen_cell(result)
    if not loads:
        ui.note(w.text("No cell was measured."))
        return []
    first = next((n for n, (_, mine) in enumerate(loads.items()) if pick and pick["cell"] in mine), 0)
    name = st.selectbox(w.text("Load"), list(loads), first, key=key)
    return loads[name or next(iter(loads))]


def _label_of_one(cell: c.Cell, drawn: Sequence[c.Cell], shorts: Mapping[str, str]) -> str:
    """The setting alone; with its repeat where several cells of it are drawn."""
    key = c.key_of(cell.get("setting") or {})
    alone = sum(c.key_of(x.get("setting") or {}) == key for x in drawn) == 1
    return shorts[key] if alone else f"{shorts[key]} · {c.shown_number(cell['cell'])}"
