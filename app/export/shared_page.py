"""One sweep -> one HTML file that opens anywhere, asks nobody for anything, and can be read back. PURE."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from app.export import assets, more_sections, sections
from app.export.redact import redact
from app.export.series import series_of
from app.export.tallies import make_tallies
from app.views import cells as c
from app.views import theme
from app.views.batch import batch_figure
from app.views.ecdf import ecdf_figure
from app.views.frontier import frontier_figure
from app.views.heatmap import heat_grid
from app.views.isolation import has_isolation, isolation_figure
from app.views.percentiles import percentiles_figure, targets_of
from app.views.phases import phase_rows, phases_figure
from app.views.rates import rates_figure
from app.views.share import share_figure
from app.views.table import columns, table_rows
from app.views.verdict import markdown, verdict
from app.words import ENGLISH, Words
from runner.analysis.dependence import Z95
from runner.analysis.intervals import BATCHES, CROWD_SHARE, PAIRED_CROWD, SMALLEST_BATCH
from runner.analysis.student import t95
from runner.analysis.warnings import INVALIDATING

FORMAT = "goodput-page"
VERSION = 1
MAX_BYTES = 1_500_000  # for 50 cells
_DATA = re.compile(r'<script type="application/json" id="goodput-data">(.*?)</script>', re.S)


class PageError(ValueError):
    """A file that is not one of our pages, or one from a later version; the text says which."""


def render_page(
    result: Mapping[str, Any],
    requests: pd.DataFrame | None = None,
    *,
    windows_s: Mapping[int, float] | None = None,
    crowds: Mapping[int, Mapping[str, float]] | None = None,
    stalled: pd.DataFrame | None = None,
    tallies: dict[str, Any] | None = None,
    include_private: bool = False,
    words: Words = ENGLISH,
) -> str:
    """The shared page of a result object.

    `requests`: analysis' request table; with it the page has target sliders, where the time goes, and the pick's
    distributions. `tallies`: those of a page that is passed on, in place of requests (see `sound_tallies`).
    `windows_s`: length of each cell's measured window; `crowds`: see `make_tallies`; `stalled`: those of
    runner.analysis.stalls. Hosts, addresses, URLs and folders are left out unless `include_private`; keys always.
    """
    if requests is not None:
        tallies = make_tallies(result, requests, windows_s, crowds)
    shared = redact(result, include_private=include_private)
    data = {"format": FORMAT, "version": VERSION, "result": shared, "tallies": tallies}
    more = _figures_of_requests(shared, requests, words)
    body = _body(shared, tallies, more, stalled, words)
    blocks = "\n".join(
        [
            _block("goodput-data", "application/json", json_text(data)),
            _block("goodput-parts", "application/json", json_text(_parts(shared, tallies, more, words))),
            _block("plotly-packed", "text/plain", assets.plotly_packed()),
        ]
    )
    style = assets.text("page.css") + heat_css()
    script = assets.text("page.js")
    title = sections.esc(f"{shared.get('name') or ''} – Goodput Lab")
    return (
        f'<!doctype html>\n<html lang="{sections.esc(words.lang)}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{content_security_policy(script, style)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n{blocks}\n"
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def content_security_policy(script: str, style: str) -> str:
    """Nothing from anywhere; only our own script, the plotly bundle and our own style, by their hashes.

    The hash of the empty text lets plotly put in the empty style element that it fills by script. `data:` and `blob:`
    images are what saving a figure as PNG is made of.
    """
    scripts = f"{assets.csp_hash(script)} {assets.csp_hash(assets.plotly_source())}"
    styles = f"{assets.csp_hash(style)} {assets.csp_hash('')}"
    return (
        f"default-src 'none'; script-src {scripts}; style-src {styles}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def heat_css() -> str:
    """Classes h0–h20 of the colour scale: a strict policy allows no style attributes."""
    rules = []
    for i in range(sections.HEAT_LEVELS + 1):
        colour = theme.cividis(i / sections.HEAT_LEVELS)
        rules.append(f".h{i}{{background:{colour};color:{theme.ink_on(colour)}}}")
    return "\n".join(rules)


def json_text(value: object) -> str:
    """Strict JSON that can stand inside an HTML script element: no `<`, `>`, `&`, no line separators."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def read_page(html: str) -> dict[str, Any]:
    """The data of a page: {"format", "version", "result", "tallies"}, as render_page put it in.

    Raises PageError for other files and for pages of a later version.
    """
    found = _DATA.search(html)
    if not found:
        raise PageError("this is not a page of Goodput Lab: it holds no sweep")
    try:
        data = json.loads(found.group(1))
    except json.JSONDecodeError:
        raise PageError("the sweep in this page is damaged; save the page again") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("result"), dict):
        raise PageError("this is not a page of Goodput Lab: it holds no sweep")
    if not isinstance(data.get("version"), int) or data["version"] > VERSION:
        raise PageError("this page is from a later version of Goodput Lab; update to read it")
    return data


def _block(name: str, kind: str, text: str) -> str:
    return f'<script type="{kind}" id="{name}">{text}</script>'


def _figures_of_requests(
    result: c.Result, requests: pd.DataFrame | None, words: Words
) -> dict[str, tuple[go.Figure, str]]:
    """Figures that single requests are needed for, each with what a screen reader says of it."""
    if requests is None or not {"send_lag_ms", "chunk_deltas_us", "buffered"} <= set(requests.columns):
        return {}
    found = {}
    rows = phase_rows(result, requests, words=words)
    if rows:
        found["time"] = (phases_figure(rows, words), words.text("mean time of a request in each stage"))
    series = series_of(requests, _picked(result))
    targets = targets_of(result)
    for metric, title, kind in (
        ("ttft_ms", words.text("first token (ms)"), words.text("how many first tokens came within which time")),
        ("gap_ms", words.text("gap (ms)"), words.text("how many gaps were within which time")),
    ):
        shown = {name: values for name, values in series[metric].items() if len(values)}
        limits = sorted({float(targets[name][metric]) for name in shown if name in targets})
        if shown:
            found[f"ecdf-{metric}"] = (ecdf_figure(shown, title, words, targets_ms=limits), kind)
    return found


def _body(
    result: c.Result,
    tallies: dict[str, Any] | None,
    more: Mapping[str, tuple[go.Figure, str]],
    stalled: pd.DataFrame | None,
    words: Words,
) -> str:
    frontier = sections.figure_slot("frontier", words.text("goodput against raw output, one point a cell"))
    no_script = sections.esc(words.text("Figures need scripts. Every number is in the tables below."))
    shares = "".join(
        sections.figure_slot(f"share-{i}", words.text("share of {name} inside targets by load", name=name))
        for i, name in enumerate(c.interactive_classes(result)[:3])
    )
    made_with = words.text("Made with Goodput Lab. This file loads nothing from anywhere.")
    parts = [
        sections.header(result, words) + "<main>",
        sections.answer(result, words),
        more_sections.origin(result, words),
        f'<noscript><p class="note">{no_script}</p></noscript>',
        sections.section("frontier", words.text("Goodput frontier"), frontier, scripted=True),
        sections.sliders(tallies, result, words),
        sections.heat(result, words),
        sections.percentiles(words),
        more_sections.distributions({k: alt for k, (_, alt) in more.items() if k.startswith("ecdf")}, words),
        more_sections.time(more["time"][1], words) if "time" in more else "",
        sections.section("share", words.text("Share inside targets by load"), shares, scripted=True) if shares else "",
        sections.rules(result, words),
        more_sections.stalls(stalled, result, words),
        sections.batch(result, words),
        more_sections.rates(result, words),
        more_sections.isolation(result, words),
        sections.warnings(result, words),
        sections.numbers(result, words),
        sections.method(words),
        sections.environment(result, words),
        "</main>",
        f"<footer><p>{sections.esc(made_with)}</p></footer>",
    ]
    return "\n".join(p for p in parts if p)


def figure_parts(fig: go.Figure) -> dict[str, Any]:
    """A figure as plain data and layout, numbers to six digits; the template is left out (the page has both)."""
    parts = fig.to_plotly_json()
    parts["layout"].pop("template", None)
    short: dict[str, Any] = _short({"data": parts["data"], "layout": parts["layout"]})
    return short


def _short(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {k: _short(v) for k, v in value.items()}
    return [_short(v) for v in value] if isinstance(value, list | tuple) else value


def _parts(
    result: c.Result, tallies: dict[str, Any] | None, more: Mapping[str, tuple[go.Figure, str]], words: Words
) -> dict[str, Any]:
    """What the script needs beside the data: figures, templates, sentences, and the names of cells."""
    figures = {"frontier": frontier_figure(result, words), "percentiles": percentiles_figure(result, words)}
    figures["batch"] = batch_figure(result, words)
    for i, name in enumerate(c.interactive_classes(result)[:3]):
        figures[f"share-{i}"] = share_figure(result, name, words)
    figures |= {name: figure for name, (figure, _) in more.items()}
    if result.get("max_rates"):
        figures["rates"] = rates_figure(result, words)
    if has_isolation(result):
        figures["isolation"] = isolation_figure(result["isolation"], words)
    for figure in figures.values():
        theme.speak(figure, words)
    return {
        "figures": {k: figure_parts(f) for k, f in figures.items()},
        "templates": [theme.template(dark).to_plotly_json() for dark in (False, True)],
        "inks": [theme.ink(False), theme.ink(True)],
        "grey": theme.GREY,
        "heat_levels": sections.HEAT_LEVELS,
        "alpha": result.get("share_target") or 0.9,
        "cells": [_cell_facts(x, result, words) for x in c.measured(result)] if tallies else [],
        "squares": [[s.members for s in row] for row in heat_grid(result, words=words).squares],
        "pick": _picked(result),
        "met": verdict(result, words).target_met,
        "markdown": markdown(result, words),
        "csv": _csv(result, words),
        "file": _file_name(result),
        "words": _script_words(words),
        "marks": _marks(words),
        "stat": _constants(),
        "bar": _button_words(words),
    }


def _constants() -> dict[str, Any]:
    """What the script's intervals are made with; `t`: Student's 95 % point for 1, 2, … degrees of freedom."""
    most = BATCHES * SMALLEST_BATCH  # more values are taken in batches
    points = [t95(freedom) for freedom in range(1, most)]
    told = {"z": Z95, "t": points, "batches": BATCHES, "smallest_batch": SMALLEST_BATCH}
    told |= {"crowd_share": CROWD_SHARE, "paired_crowd": PAIRED_CROWD}
    return told


def _csv(result: c.Result, words: Words) -> dict[str, Any]:
    """The table of every number as raw values; the script writes it as CSV, with what the sliders changed."""
    rows = table_rows(result, words)
    keys = [column.key for column in columns(result, words)]
    return {"keys": keys, "cells": [x["cell"] for x in rows], "rows": [[row[k] for k in keys] for row in rows]}


def _file_name(result: c.Result) -> str:
    """Of files saved from the page: letters, digits and dashes."""
    plain = re.sub(r"[^a-z0-9]+", "-", str(result.get("name") or "").lower()).strip("-")[:60].strip("-")
    return f"goodput-{plain}" if plain else "goodput"


def _marks(words: Words) -> list[str]:
    """Decimal and thousands mark of the language."""
    sample = words.number(1111.5, 1)
    return [sample[-2], sample[1]]


def _button_words(words: Words) -> dict[str, str]:
    """Plotly's own words for the buttons above a figure, in this language."""
    return {
        "Download plot as a PNG": words.text("Save as a picture"),
        "Zoom": words.text("Zoom"),
        "Pan": words.text("Move"),
        "Reset axes": words.text("Show all"),
    }


def _cell_facts(cell: c.Cell, result: c.Result, words: Words) -> dict[str, Any]:
    key = c.key_of(cell.get("setting") or {})
    at = c.key_of(cell.get("load") or {"load": c.load_name(cell)})
    background = [x for name, x in (cell.get("classes") or {}).items() if name not in targets_of(result)]
    lone = {**result, "choice": {"setting": cell.get("setting")}, "cells": [cell]}
    return {
        "cell": cell["cell"],
        "group": f"{key} {at}",  # repeats of one point are pooled
        "at": at,
        "repeat": cell.get("repeat") or 0,
        "change": cell.get("change_from_first") or [0, 0],
        "work": sum(x.get("output_tok_per_s") or 0.0 for x in background),
        "name": c.setting_names(result, words)[key],
        "load": c.load_name(cell, words),
        **_doubts(cell),
        "raw": cell.get("output_tok_per_s"),
        "ttft": c.percentile_text(c.promised(cell), "ttft_ms", "p95", words),
        "gap": c.percentile_text(c.promised(cell), "gap_ms", "p95", words),
        "paste": verdict(lone, words).paste,
    }


def _picked(result: c.Result) -> list[int]:
    """The cells of the choice: all its repeats that count."""
    told = [x["cell"] for x in c.measured(result) if x["cell"] in ((result.get("choice") or {}).get("cells") or [])]
    one = c.chosen_cell(result)
    return told or ([one["cell"]] if one else [])


def _doubts(cell: c.Cell) -> dict[str, bool]:
    """Why a point can't be chosen, as the choice asks: late sends depend on the targets, overload is weighed apart."""
    flags = set(cell.get("flags") or []) & INVALIDATING if c.why_invalid(cell) is not None else set()
    other = bool(flags - {"send_lag", "overload"}) or (c.why_invalid(cell) is not None and not flags)
    return {"doubt": other, "late": "send_lag" in flags, "overload": "overload" in flags}


def _script_words(words: Words) -> dict[str, str]:
    """Sentences the script fills in; `{name}` marks are filled there."""
    return {
        "keeps": words.text("{setting} keeps its promises at {goodput}."),
        "unsure": words.text("Not proven yet, measure longer: {setting}, {goodput}."),
        "missed": words.text("Target missed everywhere. The least bad: {setting}, {goodput}."),
        "doubtful": words.text("Not to be relied on, measure again: {setting}, {goodput}."),
        "again": words.text(
            "Measure again: what met the targets has a doubt, see the warnings. Without a doubt: {setting}, {goodput}."
        ),
        "late": c.flag_text("send_lag", words),
        "detail": words.text(
            "At {load}, {share} of requests stay inside the targets (95 % interval {low} to {high}, n = {n})."
        ),
        "moved": words.text(
            "Worked out in this page from the measured requests, for other targets than the sweep's own."
        ),
        "goodput": words.text("goodput {goodput}, raw {raw}"),
        "share": words.text("{share} inside targets ({low} to {high}, n = {n})"),
        "target": words.text("{name} target {value}"),
        "frontier": words.text("on the frontier"),
        "ok": words.text("ok"),
        "copied": words.text("Copied"),
        "same": words.text("the pick, also most raw tokens"),
        "pick": words.text("the pick"),
    }
