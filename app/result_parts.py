"""Parts of the results page that are more than one call: target sliders, tiles, tables, one cell."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Literal, get_args

import pandas as pd
import streamlit as st

from app import links, ui
from app.data import report_html
from app.export.tallies import GAP_STEPS_MS, TTFT_STEPS_MS
from app.views import cells as c
from app.views import table
from app.views.choice_notes import budget_reason, choice_notes
from app.views.rules import rule_titles
from app.views.verdict import warning_rows
from app.words import Words
from runner.analysis.prepare import Prepared
from runner.analysis.result import targets_of
from runner.config import GapRule, Slo

SHARES = (0.9, 0.95, 0.99)
OWN: Literal["own"] = "own"
Steps = tuple[Sequence[float], Sequence[float]]
USUAL_STEPS: Steps = (TTFT_STEPS_MS, GAP_STEPS_MS)


Promises = tuple[dict[str, Slo], GapRule | None, float]


def promises(prepared: Prepared, sweep_id: str, w: Words, *, rules: bool = True) -> Promises:
    """Draws the sliders; returns (targets by class, rule, share wanted) as they stand."""
    own, _, alpha = own_promises(prepared)
    return sliders(own, alpha, sweep_id, w, rules=rules)


def own_promises(prepared: Prepared) -> Promises:
    """As the sliders stand before anybody moves one."""
    return targets_of(prepared.config), None, prepared.config.run.share_target


def sliders(
    own: Mapping[str, Slo],
    alpha: float,
    sweep_id: str,
    w: Words,
    *,
    rules: bool = True,
    steps: Mapping[str, Steps] | None = None,
) -> Promises:
    """`promises` for targets of any origin. `own`: by class; `alpha`: the share wanted. Without `rules` the rule stays;
    `steps`: where the sliders of a class can stop, of first token and gap, in ms."""
    moved = {name: _targets(name, slo, sweep_id, w, (steps or {}).get(name, USUAL_STEPS)) for name, slo in own.items()}
    titles = {OWN: w.text("as each class was configured"), **rule_titles(w)}
    choices: tuple[GapRule | Literal["own"], ...] = (OWN, *get_args(GapRule))
    rule: GapRule | Literal["own"] = OWN
    if rules:
        rule = st.selectbox(
            w.text("Gaps count as kept when"), choices, format_func=lambda r: titles[r], key=f"rule-{sweep_id}"
        )
    shares = sorted({*SHARES, alpha})
    wanted = st.select_slider(
        w.text("Share of requests that must be inside"),
        shares,
        value=alpha,
        format_func=w.share,
        key=f"alpha-{sweep_id}",
    )
    changed = moved != dict(own) or rule != OWN or wanted != alpha
    st.button(
        w.text("Back to the sweep's own targets"), disabled=not changed, key="reset", on_click=_reset, args=(sweep_id,)
    )
    return moved, None if rule == OWN else rule, wanted


def as_they_stand(own: Mapping[str, Slo], alpha: float, sweep_id: str) -> Promises:
    """What `sliders` returns, before they are drawn."""

    def value(key: str, unmoved: Any) -> Any:  # noqa: ANN401  (a slider's value is of any type)
        return st.session_state.get(f"{key}-{sweep_id}", unmoved)

    moved = {
        name: slo.model_copy(
            update={"ttft_ms": value(f"ttft-{name}", slo.ttft_ms), "gap_ms": value(f"gap-{name}", slo.gap_ms)}
        )
        for name, slo in own.items()
    }
    rule = value("rule", OWN)
    return moved, None if rule == OWN else rule, value("alpha", alpha)


def _targets(name: str, slo: Slo, sweep_id: str, w: Words, steps: Steps) -> Slo:
    ui.say(name, level=5)
    ttft = st.select_slider(
        w.text("First words within"),
        sorted({*map(float, steps[0]), slo.ttft_ms}),
        value=slo.ttft_ms,
        format_func=w.ms,
        key=f"ttft-{name}-{sweep_id}",
    )
    gap = st.select_slider(
        w.text("No gap longer than"),
        sorted({*map(float, steps[1]), slo.gap_ms}),
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
    felt = c.promised(cell)
    shown = {
        w.text("goodput"): w.per_s(cell.get("goodput_per_s"), "req"),
        w.text("inside targets"): w.share(cell.get("share")),
        w.text("first token, p95"): c.percentile_text(felt, "ttft_ms", "p95", w),
        w.text("gap, p95"): c.percentile_text(felt, "gap_ms", "p95", w),
        w.text("raw output"): w.per_s(cell.get("output_tok_per_s"), "tok"),
    }
    with st.container(horizontal=True, gap="medium", key="tiles"):
        for title, value in shown.items():
            st.metric(title, value, width="content")


def to_paste(line: str, w: Words) -> None:
    """The setting as a line, all of it selected by one click.

    Streamlit's own block of code would bring the grammars of 300 languages, a third of all that the page loads.
    """
    ui.note(w.text("To paste into the server's start command; a click selects all of it"))
    label = escape(w.text("the setting, to paste"))
    with st.container(key="to-paste"):
        st.html(f'<pre class="to-paste" tabindex="0" aria-label="{label}">{escape(line)}</pre>')


def beside_choice(result: c.Result, w: Words) -> None:
    """Who came next within noise, who wins by another rule, what more time would buy: one line a sentence."""
    for sentence in [*choice_notes(result, w), *filter(None, [budget_reason(result, w)])]:
        ui.say(sentence)


def every_number(result: c.Result, only: Sequence[int], w: Words, *, to_cell: bool = True) -> None:
    """The table of everything, and the same as CSV; `only`: the cells in the box that was drawn, all when empty.

    A click on a row leads to its cell, with `to_cell`.
    """
    columns = table.columns(result, w)
    told = [row for row in table.table_rows(result, w) if not only or row["cell"] in only]
    rows = [{x.key: _cell_value(row[x.key], x.kind) for x in columns} for row in told]
    ui.rows_to_click(
        pd.DataFrame(rows, columns=[x.key for x in columns]),
        columns,
        {"number": "%d", "count": "%d", "ms": "%.1f", "rate": "%.3g", "share": "percent"},
        lambda place: links.go_on_with(section="cell", cell=told[place]["cell"]) if to_cell else None,
        key="every-number",
        alt=w.text("every number of every cell"),
        helps={"number": w.text("Counted from 1 here; files, JSON and CSV count from 0.")},
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
            reason = w.said(cell.get("error_detail") or w.text("No reason was given."))
            ui.define(f"{labels[cell['cell']]} · {c.failure(cell, w)}", reason)
            if cell.get("log_tail"):
                st.code(str(cell["log_tail"]), language=None, wrap_lines=True)


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
        lambda: report_html(folder, include_private=private, words=w),
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
