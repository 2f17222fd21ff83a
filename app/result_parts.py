"""Parts of the results page that are more than one call: target sliders, tiles, tables, one cell."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import pandas as pd
import streamlit as st

from app import links, ui
from app.data import cell_series, report_html
from app.export.tallies import GAP_STEPS_MS, TTFT_STEPS_MS
from app.views import cells as c
from app.views import table, theme
from app.views.batch import batch_figure, batch_rows
from app.views.bound import blind_hint, told_columns
from app.views.ecdf import ecdf_figure
from app.views.heatmap import heat_figure, heat_grid, heat_keys
from app.views.percentiles import percentiles_figure
from app.views.phases import phase_rows, phase_sentence, phases_figure
from app.views.rates import rate_rows, rates_figure
from app.views.rules import blind_mean, rule_rows, rule_titles
from app.views.share import share_figure
from app.views.verdict import warning_rows
from app.words import Words
from runner.analysis.prepare import Prepared
from runner.analysis.result import targets_of
from runner.config import GapRule, Slo

SHARES = (0.9, 0.95, 0.99)
OWN: Literal["own"] = "own"


def promises(prepared: Prepared, sweep_id: str, w: Words) -> tuple[dict[str, Slo], GapRule | None, float]:
    """Draws the sliders; returns (targets by class, rule, share wanted) as they stand."""
    own = targets_of(prepared.config)
    alpha = prepared.config.run.share_target
    moved = {name: _targets(name, slo, sweep_id, w) for name, slo in own.items()}
    rules: tuple[GapRule | Literal["own"], ...] = (OWN, *get_args(GapRule))
    titles = {OWN: w.text("as each class was configured"), **rule_titles(w)}
    rule = st.selectbox(
        w.text("Gaps count as kept when"), rules, format_func=lambda r: titles[r], key=f"rule-{sweep_id}"
    )
    shares = sorted({*SHARES, alpha})
    wanted = st.select_slider(
        w.text("Share of requests that must be inside"),
        shares,
        value=alpha,
        format_func=w.share,
        key=f"alpha-{sweep_id}",
    )
    changed = moved != own or rule != OWN or wanted != alpha
    st.button(
        w.text("Back to the sweep's own targets"), disabled=not changed, key="reset", on_click=_reset, args=(sweep_id,)
    )
    return moved, None if rule == OWN else rule, wanted


def _targets(name: str, slo: Slo, sweep_id: str, w: Words) -> Slo:
    ui.say(name, level=5)
    ttft = st.select_slider(
        w.text("First words within"),
        sorted({*map(float, TTFT_STEPS_MS), slo.ttft_ms}),
        value=slo.ttft_ms,
        format_func=w.ms,
        key=f"ttft-{name}-{sweep_id}",
    )
    gap = st.select_slider(
        w.text("No gap longer than"),
        sorted({*map(float, GAP_STEPS_MS), slo.gap_ms}),
        value=slo.gap_ms,
        format_func=w.ms,
        key=f"gap-{name}-{sweep_id}",
    )
    return slo.model_copy(update={"ttft_ms": ttft, "gap_ms": gap})


def _reset(sweep_id: str) -> None:
    for key in [k for k in st.session_state if str(k).endswith(f"-{sweep_id}")]:
        del st.session_state[key]


def tiles(cell: c.Cell, w: Words) -> None:
    """The five numbers of the pick."""
    shown = {
        w.text("goodput"): w.per_s(cell.get("goodput_per_s"), "req"),
        w.text("inside targets"): w.share(cell.get("share")),
        w.text("first token, p95"): c.percentile_text(cell, "ttft_ms", "p95", w),
        w.text("gap, p95"): c.percentile_text(cell, "gap_ms", "p95", w),
        w.text("raw output"): w.per_s(cell.get("output_tok_per_s"), "tok"),
    }
    with st.container(horizontal=True, gap="medium"):
        for title, value in shown.items():
            st.metric(title, value, width="content")


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


def every_number(result: c.Result, only: Sequence[int], w: Words) -> None:
    """The table of everything, and the same as CSV; `only`: the cells in the box that was drawn, all when empty.

    A click on a row leads to its cell.
    """
    columns = table.columns(result, w)
    told = [row for row in table.table_rows(result, w) if not only or row["cell"] in only]
    rows = [{x.key: _cell_value(row[x.key], x.kind) for x in columns} for row in told]

    def opened() -> None:
        chosen = st.session_state["every-number"]["selection"]["rows"]
        if chosen:
            st.session_state["cell"], st.session_state["section"] = told[chosen[0]]["cell"], "cell"

    formats = {"number": "%d", "count": "%d", "ms": "%.1f", "rate": "%.3g", "share": "percent"}
    st.dataframe(
        pd.DataFrame(rows, columns=[x.key for x in columns]),
        hide_index=True,
        key="every-number",
        on_select=opened,
        selection_mode="single-row",
        alt=w.text("every number of every cell"),
        column_config={
            x.key: x.title
            if x.kind == "text"
            else st.column_config.NumberColumn(
                f"{x.title} (ms)" if x.kind == "ms" else x.title,
                format=formats[x.kind],
                help=w.text("Counted from 1 here; files, JSON and CSV count from 0.") if x.kind == "number" else None,
            )
            for x in columns
        },
    )
    st.download_button(
        w.text("Download as CSV"), table.table_csv(result, w), "goodput.csv", "text/csv", key="csv", on_click="ignore"
    )


def _cell_value(value: Any, kind: str) -> object:  # noqa: ANN401  (any JSON value)
    """What the table holds of a raw value: numbers stay numbers, so that they sort as such."""
    if value is None:
        return None
    return str(value) if kind == "text" else c.shown_number(value) if kind == "number" else value


def doubts(result: c.Result, w: Words) -> None:
    """Behind one line: each warning with its remedy, each failed cell with its reason and the end of the log."""
    rows = warning_rows(result, w)
    failed = [x for x in c.cells_of(result) if x.get("status") == "failed"]
    told = [w.plural("{n} warning", "{n} warnings", len(rows))] if rows else []
    told += [w.plural("{n} failed cell", "{n} failed cells", len(failed))] if failed else []
    if not told:
        return
    labels = cell_label(result, w)
    with st.expander(", ".join(told)):
        for row in rows:
            where = w.text("cells {list}", list=row["where"]) if row["where"] else ""
            ui.define(row["title"], " · ".join(filter(None, [row["remedy"], where])))
        for cell in failed:
            reason = str(cell.get("error_detail") or w.text("No reason was given."))
            ui.define(f"{labels[cell['cell']]} · {c.failure(cell, w)}", reason)
            if cell.get("log_tail"):
                st.code(str(cell["log_tail"]), language=None, wrap_lines=True)


def latency(result: c.Result, w: Words) -> None:
    """First-token and gap percentiles."""
    names = ("p50", "p90", "p95", "p99")
    shown = st.segmented_control(w.text("percentile"), names, default="p95", key="percentile", required=True)
    fig = percentiles_figure(result, w, shown=shown or "p95", dark=ui.dark())
    ui.chart(fig, "percentiles", w.text("first token and gap percentiles against raw output"))


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


def _label_of_one(cell: c.Cell, drawn: Sequence[c.Cell], shorts: Mapping[str, str]) -> str:
    """The setting alone; with its repeat where several cells of it are drawn."""
    key = c.key_of(cell.get("setting") or {})
    alone = sum(c.key_of(x.get("setting") or {}) == key for x in drawn) == 1
    return shorts[key] if alone else f"{shorts[key]} · {c.shown_number(cell['cell'])}"


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


def by_class(result: c.Result, w: Words) -> None:
    """Share inside the targets by load, a figure a class."""
    names = c.interactive_classes(result)
    if not names:
        ui.note(w.text("No class of this sweep has targets."))
    for name in names:
        ui.say(name, level=4)
        fig = share_figure(result, name, w, dark=ui.dark())
        ui.chart(fig, f"share-{name}", w.text("share of {name} inside targets by load", name=name))


def largest_rates(result: c.Result, w: Words) -> None:
    """The largest load that each setting keeps its promises at."""
    rows = rate_rows(result, w)
    ui.chart(rates_figure(result, w, dark=ui.dark()), "rates", w.text("largest load of each setting"))
    for row in rows:
        ui.define(row["name"], row["reason"] or w.significant(row["rate"]))


def cell_picker(result: c.Result, w: Words) -> int:
    """The cell that is looked at; it stands in the address."""
    labels, pick = cell_label(result, w), c.chosen_cell(result)
    links.follow("cell", list(labels), pick["cell"] if pick else next(iter(labels)))
    number = st.selectbox(w.text("Cell"), list(labels), format_func=lambda n: labels[n], key="cell")
    links.show("cell", number)
    return int(number if number is not None else next(iter(labels)))


def take_away(folder: Path, name: str, w: Words) -> None:
    """The shared page as a file and as an address."""
    private = st.checkbox(
        w.text("Leave host names, addresses and folders in"), key="private", help=w.text("API keys are never in it.")
    )
    st.download_button(
        w.text("Download as one HTML file"),
        lambda: report_html(folder, include_private=private),
        f"{name}.html",
        "text/html",
        key="export",
        type="primary",
        on_click="ignore",
    )
    st.link_button(w.text("Open the shared page"), f"reports/{name}.html")


def cell_label(result: c.Result, w: Words) -> Mapping[int, str]:
    """What each cell is called in a list."""
    names = c.setting_names(result, w)
    return {
        x["cell"]: f"{c.shown_number(x['cell'])} · {names[c.key_of(x.get('setting') or {})]} · {c.load_name(x, w)}"
        for x in c.cells_of(result)
    }


def facts(pairs: list[tuple[str, str]], w: Words) -> None:
    """Hardware, versions and backend as a small table."""
    rows: list[dict[str, Any]] = [{w.text("what"): k, w.text("value"): v} for k, v in pairs]
    st.dataframe(rows, hide_index=True)
