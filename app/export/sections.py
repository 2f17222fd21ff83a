"""The parts of the shared page as HTML. PURE. All text of a result goes through `esc`: names are text, never HTML."""

from collections.abc import Sequence
from html import escape
from typing import Any

from app.views import cells as c
from app.views import table
from app.views.batch import batch_rows
from app.views.bound import blind_hint, told_columns
from app.views.heatmap import Grid, Square, heat_grid
from app.views.rules import blind_mean, rule_rows, rule_titles
from app.views.verdict import flat_facts, origin_note, target_sentences, verdict, warning_rows
from app.words import NOTHING, Words

HEAT_LEVELS = 20


def esc(value: object) -> str:
    """Text for HTML content and double-quoted attributes."""
    return escape(str(value), quote=True)


def section(name: str, title: str, body: str, *, intro: str = "", scripted: bool = False) -> str:
    """One section with its heading; `scripted` ones are there only when scripts run."""
    hidden = ' class="scripted"' if scripted else ""
    lead = f"<p>{intro}</p>" if intro else ""
    heading = f'<h2 id="{name}-h">{esc(title)}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-h"{hidden}>{heading}{lead}{body}</section>\n'


def figure_slot(name: str, label: str) -> str:
    """Where the script draws a figure."""
    return f'<div class="figure" id="fig-{name}" role="img" aria-label="{esc(label)}"></div>'


def header(result: c.Result, words: Words) -> str:
    """Wordmark, sweep name, badges and the page's buttons."""
    note = origin_note(result, words)
    badge = f'<span class="badge">{esc(note)}</span>' if note else ""
    buttons = (
        ("copy-md", words.text("Copy as Markdown")),
        ("theme", words.text("Light / dark")),
    )
    row = "".join(f'<button type="button" id="{i}" class="scripted">{esc(t)}</button>' for i, t in buttons)
    return (
        f'<header><p class="brand"><span class="mark" aria-hidden="true"><i></i><i></i><i></i></span>Goodput Lab</p>'
        f'<div class="buttons">{row}</div></header>'
        f'<p class="sweep">{esc(result.get("name") or words.text("sweep"))} {badge}</p>'
    )


def answer(result: c.Result, words: Words) -> str:
    """Verdict, key numbers and the line to paste."""
    v, cell = verdict(result, words), c.chosen_cell(result)
    tiles = "".join(
        f'<div class="tile"><dt>{esc(title)}</dt><dd id="tile-{key}">{esc(value)}</dd></div>'
        for key, title, value in _tiles(cell, words)
    )
    against = f'<p class="against" id="against">{esc(v.against_raw)}</p>' if v.against_raw else ""
    mark = "pass" if v.target_met else "fail"
    return (
        f'<section id="verdict" class="{mark}" aria-labelledby="headline">'
        f'<h1 id="headline">{esc(v.headline)}</h1><p id="detail">{esc(v.detail)}</p>'
        f'<dl class="tiles">{tiles}</dl>{_paste(v.paste, words)}{against}</section>\n'
    )


def _tiles(cell: c.Cell | None, words: Words) -> list[tuple[str, str, str]]:
    if cell is None:
        return []
    felt = c.promised(cell)
    return [
        ("goodput", words.text("goodput"), words.per_s(cell.get("goodput_per_s"), "req")),
        ("share", words.text("inside targets"), words.share(cell.get("share"))),
        ("ttft", words.text("first token, p95"), c.percentile_text(felt, "ttft_ms", "p95", words)),
        ("gap", words.text("gap, p95"), c.percentile_text(felt, "gap_ms", "p95", words)),
        ("raw", words.text("raw output"), words.per_s(cell.get("output_tok_per_s"), "tok")),
    ]


def _paste(paste: str | None, words: Words) -> str:
    if not paste:
        return ""
    copy = f'<button type="button" id="copy-line" class="scripted">{esc(words.text("Copy"))}</button>'
    label = esc(words.text("the setting, to paste"))
    return f'<div class="paste"><pre id="paste" tabindex="0" aria-label="{label}">{esc(paste)}</pre>{copy}</div>'


def sliders(tallies: dict[str, Any] | None, result: c.Result, words: Words) -> str:
    """The promises, as sentences; with tallies, as sliders that redo the whole page."""
    promised = "".join(f"<li>{esc(s)}</li>" for s in target_sentences(result, words))
    body = f'<ul class="promises">{promised}</ul>' if promised else ""
    if tallies:
        sets = "".join(_slider_set(i, k, words) for i, k in enumerate(tallies["classes"]))
        back = esc(words.text("Back to the sweep's own targets"))
        shares = "".join(f'<option value="{a}">{esc(words.share(a))}</option>' for a in _share_choices(result))
        body += (
            f'<form class="sliders scripted" id="sliders">{sets}'
            f"<fieldset><legend>{esc(words.text('everyone'))}</legend>"
            f'<div class="slider"><label for="alpha">{esc(words.text("share wanted inside targets"))}</label>'
            f'<select id="alpha">{shares}</select></div>'
            f'<button type="button" id="reset" disabled>{back}</button></fieldset></form>'
            f'<p class="note scripted" id="note" role="status"></p>'
        )
    intro = esc(words.text("Move them: the picture, the pick and the table follow, from the measured requests."))
    return section("targets", words.text("What was promised"), body, intro=intro if tallies else "")


def _share_choices(result: c.Result) -> list[float]:
    return sorted({0.9, 0.95, 0.99, float(result.get("share_target") or 0.9)})


def _slider_set(index: int, steps: dict[str, Any], words: Words) -> str:
    rows = ""
    for kind, title in (("ttft", words.text("first token within")), ("gap", words.text("gaps within"))):
        values = steps[f"{kind}_steps_ms"]
        rows += (
            f'<div class="slider"><label for="{kind}-{index}">{esc(title)}</label>'
            f'<input type="range" id="{kind}-{index}" min="0" max="{len(values) - 1}" step="1" value="{steps[kind]}">'
            f'<output for="{kind}-{index}" id="{kind}-{index}-out">{esc(words.ms(values[steps[kind]]))}</output></div>'
        )
    return f"<fieldset><legend>{esc(steps['name'])}</legend>{rows}</fieldset>"


def heat(result: c.Result, words: Words) -> str:
    """The setting × setting grid as a table: it needs no scripts, and a screen reader can walk it."""
    grid = heat_grid(result, words=words)
    if len(grid.rows) * len(grid.columns) < 2:
        return ""
    head = "".join(f'<th scope="col">{esc(x)}</th>' for x in grid.columns)
    rows = "".join(
        f'<tr><th scope="row">{esc(name)}</th>{"".join(_heat_cell(s) for s in row)}</tr>'
        for name, row in zip(grid.rows, grid.squares, strict=True)
    )
    down, right = _breakable(grid.row_key), _breakable(grid.column_key)
    corner = f'<th class="corner"><span>{down} ↓</span> <span>{right} →</span></th>'
    caption = esc(_heat_caption(grid, words))
    body = scrolled("heat", caption, f"<tr>{corner}{head}</tr>", rows) + _scale(words)
    return section("heat", words.text("Setting by setting"), body)


def scrolled(kind: str, caption: str, head: str, rows: str) -> str:
    """A table that scrolls in its own box, so that a phone's page never scrolls sideways."""
    inside = f"<caption>{caption}</caption><thead>{head}</thead><tbody>{rows}</tbody>"
    box = f'<div class="scroll" tabindex="0" role="group" aria-label="{caption}">'
    return f'{box}<table class="{kind}">{inside}</table></div>'


def _heat_caption(grid: Grid, words: Words) -> str:
    best = words.text("Goodput (requests/s inside targets), each square at its best load.")
    marked = words.text("* ran, but can't be chosen.")
    others = words.text("Best over {names}.", names=", ".join(grid.others)) if grid.others else ""
    invalid = any(s.state == "invalid" for row in grid.squares for s in row)
    return " ".join([best] + [others] * bool(others) + [marked] * invalid)


def _heat_cell(square: Square) -> str:
    level = "" if square.position is None else f" h{round(square.position * HEAT_LEVELS)}"
    where = "" if square.cell is None else f' data-cell="{square.cell}"'
    return f'<td class="{square.state}{level}" title="{esc(square.hover)}"{where}>{esc(square.text)}</td>'


def _scale(words: Words) -> str:
    steps = "".join(f'<i class="h{i}"></i>' for i in range(HEAT_LEVELS + 1))
    ramp = f'<span class="ramp" aria-hidden="true">{steps}</span>'
    return f'<p class="scale"><span>0</span>{ramp}<span>{esc(words.text("best"))}</span></p>'


def percentiles(words: Words) -> str:
    """The percentile figure with its picker."""
    options = "".join(f'<option value="{p}"{" selected" if p == "p95" else ""}>{p}</option>' for p in c.PERCENTILES)
    picker = (
        f'<label for="percentile">{esc(words.text("percentile"))}</label> <select id="percentile">{options}</select>'
    )
    slot = figure_slot("percentiles", words.text("first token and gap percentiles against raw output"))
    return section(
        "percentiles", words.text("First token and gaps"), f'<p class="pick">{picker}</p>{slot}', scripted=True
    )


def batch(result: c.Result, words: Words) -> str:
    """Limit against observed batch: figure, what bound each setting, and the numbers inside and outside the server."""
    rows = batch_rows(result, words)
    if not rows:
        return ""
    lines = "".join(f"<li><b>{esc(r['name'])}</b>: {esc(' '.join([r['sentence'], *r['more']]))}</li>" for r in rows)
    slot = figure_slot("batch", words.text("batch limit and observed batch of each setting"))
    body = f'<div class="scripted">{slot}</div><ul class="facts">{lines}</ul>{_observed(result, rows, words)}'
    hint = blind_hint(result, words)
    return section("batch", words.text("Limit against observed batch"), body, intro=esc(hint) if hint else "")


def _observed(result: c.Result, rows: Sequence[dict[str, Any]], words: Words) -> str:
    shown = told_columns(rows, words)
    titles = [c.short_title(result), words.text("load"), words.text("bound by"), *(title for _, title, _ in shown)]
    head = "".join(f'<th scope="col">{_breakable(t)}</th>' for t in titles)
    body = "".join(
        f'<tr><th scope="row">{esc(r["short"])}</th><td>{esc(r["load"])}</td>'
        + f"<td>{esc(r['bound'] or NOTHING)}</td>"
        + "".join(f'<td class="n">{esc(table.shown(r.get(key), kind, words))}</td>' for key, _, kind in shown)
        + "</tr>"
        for r in rows
    )
    caption = esc(words.text("Each setting at the load where the most was seen at once; outside: from its streams."))
    return scrolled("rules", caption, f"<tr>{head}</tr>", body)


def rules(result: c.Result, words: Words) -> str:
    """The pick judged by every gap rule, and where a mean would have hidden stalls."""
    rows = rule_rows(result)
    if not rows:
        return ""
    head = f'<th scope="col">{esc(words.text("class"))}</th>' + "".join(
        f'<th scope="col" class="n">{esc(t)}</th>' for t in rule_titles(words).values()
    )
    body = "".join(
        f'<tr><th scope="row">{esc(r["class"])}</th>'
        + "".join(f'<td class="n">{esc(words.share(v))}</td>' for v in r["rules"].values())
        + "</tr>"
        for r in rows
    )
    caption = esc(words.text("Share of the pick's requests that pass, at the sweep's own targets, by rule."))
    hidden = blind_mean(result, words)
    lead = f"<p>{esc(hidden)}</p>" if hidden else ""
    table_html = scrolled("rules", caption, f"<tr>{head}</tr>", body)
    return section("rules", words.text("Another rule for the gaps"), lead + table_html)


def warnings(result: c.Result, words: Words) -> str:
    """What makes numbers doubtful, each with its remedy, and why cells failed."""
    rows = "".join(
        f"<li><b>{esc(w['title'])}</b> {esc(w['remedy'])}"
        + (f' <span class="where">{esc(words.text("cells {list}", list=w["where"]))}</span>' if w["where"] else "")
        + "</li>"
        for w in warning_rows(result, words)
    )
    failed: dict[tuple[str, str], list[str]] = {}
    for cell in c.cells_of(result):
        if cell.get("status") == "failed" and cell.get("error_detail"):
            told = c.failure(cell, words), words.said(cell["error_detail"])
            failed.setdefault(told, []).append(str(c.shown_number(cell["cell"])))
    rows += "".join(
        f"<li><b>{esc(what)}</b> {esc(why)}"
        f' <span class="where">{esc(words.text("cells {list}", list=", ".join(where)))}</span></li>'
        for (what, why), where in failed.items()
    )
    return section("warnings", words.text("Warnings"), f'<ul class="warnings">{rows}</ul>') if rows else ""


def numbers(result: c.Result, words: Words) -> str:
    """The table of every number."""
    columns = table.columns(result, words)
    head = "".join(f'<th scope="col"{_kind(x)} data-key="{esc(x.key)}">{_breakable(x.title)}</th>' for x in columns)
    body = "".join(
        _number_row(x, columns, words) for x in zip(c.cells_of(result), table.table_rows(result, words), strict=True)
    )
    caption = esc(
        words.text(
            "Every number of every cell. Times in ms or s; shares of the requests that could be judged. Cells are "
            "counted from 1 here, and from 0 in files, JSON and CSV."
        )
    )
    buttons = (("copy-csv", words.text("Copy as CSV")), ("save-csv", words.text("Save as CSV")))
    row = "".join(f'<button type="button" id="{i}" class="scripted">{esc(t)}</button>' for i, t in buttons)
    inside = f'<div class="buttons">{row}</div>' + scrolled("numbers", caption, f"<tr>{head}</tr>", body)
    return section("numbers", words.text("Every number"), inside)


def _breakable(name: str) -> str:
    """A field name that may break after its underscores."""
    return esc(name).replace("_", "_<wbr>")


def _kind(column: table.Column) -> str:
    return "" if column.kind == "text" else ' class="n"'


def _number_row(pair: tuple[c.Cell, dict[str, Any]], columns: Sequence[table.Column], words: Words) -> str:
    cell, row = pair
    tds = "".join(
        f'<td{_kind(x)} data-key="{esc(x.key)}">{esc(table.shown(row[x.key], x.kind, words))}</td>' for x in columns[1:]
    )
    first = f'<th scope="row" class="n">{esc(table.shown(row["cell"], "number", words))}</th>'
    return f'<tr data-cell="{esc(cell["cell"])}" class="{esc(cell.get("status") or "")}">{first}{tds}</tr>'


def method(words: Words) -> str:
    """Short definitions: what the numbers mean and how the pick is made."""
    entries = (
        (
            words.text("goodput"),
            words.text(
                "Requests per second that met their targets. A request meets them when it ended well, its first "
                "token came in time, and at least 99 % of its own gaps were in time (or as the class's rule says). "
                "Failed and rejected requests are misses."
            ),
        ),
        (
            words.text("first token (TTFT)"),
            words.text(
                "From the moment a request was due, not from when it was sent, so that a queue on the way is counted. "
                "With a fixed number of users: from when it was sent."
            ),
        ),
        (
            words.text("gap"),
            words.text("Time between two chunks of text of one answer. Several tokens in one chunk are one gap."),
        ),
        (
            words.text("TPOT"),
            words.text("Time from first to last chunk, divided by output tokens less one."),
        ),
        (
            words.text("percentiles"),
            words.text(
                "Values that really happened, shown only where the sample allows a 95 % interval: 36 of them for p90, "
                "72 for p95, 368 for p99."
            ),
        ),
        (
            words.text("interval"),
            words.text("95 %, Wilson, at the effective number of requests: neighbours in a queue share their fate."),
        ),
        (
            words.text("frontier"),
            words.text("Points that no other point beats in both raw output and goodput."),
        ),
        (
            words.text("the pick"),
            words.text(
                "Among settings whose share is surely high enough and whose queue does not grow: the most goodput. "
                "Raw tokens per second are shown and never chosen by."
            ),
        ),
    )  # fmt: skip
    rows = "".join(f"<dt>{esc(t)}</dt><dd>{esc(d)}</dd>" for t, d in entries)
    return section("method", words.text("Method"), f'<dl class="method">{rows}</dl>')


def environment(result: c.Result, words: Words) -> str:
    """Hardware, versions and backend."""
    rows = "".join(f"<dt>{esc(k)}</dt><dd>{esc(v)}</dd>" for k, v in flat_facts(result))
    return section("environment", words.text("Measured on"), f'<dl class="environment">{rows}</dl>') if rows else ""
