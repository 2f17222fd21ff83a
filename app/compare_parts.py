"""Parts of the compare page: what can be compared, files that are taken in, two sides in pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from app import cache, imports, ui
from app.data import all_results
from app.import_parts import guarded
from app.views import cells as c
from app.views.badges import badge_line, badges, rescoring_note
from app.views.compare import (
    comparison_figure,
    comparison_sentence,
    difference_rows,
    differs_rows,
    note_sentences,
)
from app.views.isolation import gap_sentences, has_isolation, verdict_sentence
from app.views.overlay import stated_percentile
from app.words import Words
from runner.config import GapRule, Slo
from storage.errors import GoodputError

READABLE = ("done", "stopped", "failed", "interrupted", "sample", "imported")
FILES = ["html", "json", "jsonl", "csv", "txt"]


@dataclass(frozen=True)
class Side:
    """A sweep or an import that can be looked at beside others."""

    id: str
    name: str
    folder: Path
    told: str  # how it stands in a list


def sides() -> dict[str, Side]:
    """Everything that has results, by id: own sweeps, samples, imports."""
    found = [
        Side(s.sweep_id, s.name, s.folder, ui.label(s)) for s in all_results(ui.data_dir()) if s.status in READABLE
    ]
    return {side.id: side for side in found}


def take_files(w: Words) -> None:
    """A place to drop files; what is taken in is chosen at once."""
    number = st.session_state.setdefault("drops", 0)
    key = f"files-{number}"

    def taken() -> None:
        files = st.session_state.get(key) or []
        if not files:
            return
        try:
            added = imports.add_files(ui.data_dir(), [(f.name, f.getvalue()) for f in files])
        except GoodputError as e:
            st.session_state["drop-failed"] = str(e)
            added = []
        else:
            st.session_state.pop("drop-failed", None)
        st.session_state["drops"] = number + 1  # an empty place again
        st.session_state["chosen"] = list(dict.fromkeys([*(st.session_state.get("chosen") or []), *added]))

    st.file_uploader(
        w.text(
            "Drop files here: shared pages, exports, results of vLLM, SGLang, guidellm, aiperf, genai-bench, llmperf"
        ),
        FILES,
        accept_multiple_files=True,
        key=key,
        on_change=taken,
        max_upload_size=imports.MAX_UPLOAD_BYTES // 2**20,
    )
    if failed := st.session_state.get("drop-failed"):
        st.error(ui.plain(w.said(failed)))


def delete_imports(w: Words) -> None:
    """The list of imports with a button each to take it away."""
    known = imports.list_imports(ui.data_dir())
    if not known:
        return
    with st.expander(w.plural("{n} imported file", "{n} imported files", len(known))):
        for one in known:
            words_of_it, button = st.columns([5, 1], vertical_alignment="center")
            with words_of_it:
                damaged = w.text("damaged") if one.status == "damaged" else None
                ui.say(" · ".join(filter(None, [one.name, damaged, ui.when(one.created_unix_ns)])))
            button.button(
                w.text("Delete"),
                key=f"forget-{one.import_id}",
                on_click=ui.attempt,
                args=(imports.delete_import, ui.data_dir(), one.import_id),
                width="stretch",
            )


def results(
    chosen: Sequence[Side], targets: Mapping[str, Slo] | None, rule: GapRule | None, share: float | None
) -> tuple[list[Side], list[dict[str, Any]]]:
    """The sides that can be read, each with its result at these targets; of the others it is said why not."""
    read, found = [], []
    for side in chosen:
        try:
            found.append(cache.result(side.folder, targets, rule, share))
            read.append(side)
        except GoodputError as e:
            st.error(ui.plain(e))
    return read, found


def percentile(results: Sequence[c.Result], w: Words) -> str:
    """Of times the percentile to draw, as the reader chooses it; at first the 95th, where any side states it."""
    stated = [stated_percentile(r) for r in results]
    first = "p95" if "p95" in stated else stated[0]
    key = "compare-percentile"
    return st.segmented_control(w.text("percentile"), c.PERCENTILES, default=first, key=key, required=True) or first


def definitions(results: Sequence[c.Result], names: Sequence[str], w: Words) -> None:
    """How imported numbers differ from ours."""
    told = [(r, n) for r, n in zip(results, names, strict=True) if r.get("imported")]
    for result, name in told:
        with st.container(border=True):
            ui.say(" · ".join(filter(None, [name, badge_line(result, w)])))
            if note := rescoring_note(result, w):
                ui.note(note)
            for badge in badges(result, w):
                ui.note(f"{badge.title}: {badge.help}")


def apart(results: Sequence[c.Result], names: Sequence[str], w: Words) -> None:
    """What keeping background work apart gave, of those that looked at it: before and after, one sentence each."""
    told = [(r, n) for r, n in zip(results, names, strict=True) if has_isolation(r)]
    if not told:
        return
    ui.say(w.text("Keeping the background apart"), level=3)
    for result, name in told:
        with guarded(bool(result.get("imported")), w):
            isolation = result["isolation"]
            ui.define(name, " ".join([verdict_sentence(isolation, w), *gap_sentences(isolation, w)]))


def in_pairs(a: Side, b: Side, names: tuple[str, str], targets: Mapping[str, Slo] | None, rule: GapRule | None,
             w: Words) -> None:  # fmt: skip
    """Two sides: the verdict, what differs, and every difference with its interval."""
    try:
        found = cache.comparison(a.folder, b.folder, targets, rule)
    except GoodputError as e:
        st.error(ui.plain(e))
        return
    if found is None:
        ui.note(w.text("One of the two tells nothing of single requests: there is nothing to pair, only the picture."))
        return
    ui.say(w.text("A: {a}. B: {b}.", a=names[0], b=names[1]))
    sentence = comparison_sentence(found, w)
    (st.warning if found.get("regression") else st.info)(ui.plain(sentence))
    for note in note_sentences(found, w):
        ui.note(note)
    differs = differs_rows(found, w)
    ui.say(w.text("What differs"), level=4)
    if differs:
        titles = {"where": w.text("where"), "key": w.text("what"), "a": "A", "b": "B"}
        st.dataframe(differs, hide_index=True, column_config=titles, alt=w.text("what differs"))
    else:
        ui.note(w.text("Nothing that was recorded differs."))
    rows = difference_rows(found, w)
    if not rows:
        return
    ui.say(w.text("By how much"), level=4)
    figure = comparison_figure(found, w, dark=ui.dark())
    ui.chart(figure, "differences", w.text("change from A to B with 95 % intervals"))
    ui.note(w.text("Filled marks are more than noise, hollow ones are not. Bars are 95 % intervals."))
    titles = {
        "point": w.text("setting and load"),
        "metric": w.text("number"),
        "a": "A",
        "b": "B",
        "difference": w.text("difference (95 % interval)"),
        "verdict": w.text("verdict"),
    }
    st.dataframe(rows, hide_index=True, column_config=titles, alt=w.text("differences"))
