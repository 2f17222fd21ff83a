"""The table of every number, for eyes, for spreadsheets, for a forum post. PURE."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.views import cells as c
from app.views.bound import bound_name
from app.views.frontier import limit_of
from app.words import ENGLISH, NOTHING, Words


@dataclass(frozen=True)
class Column:
    """`key` names the number in rows and CSV (field names of the result object); `kind` says how it is written."""

    key: str
    title: str
    kind: str  # text | number (of a cell, counted from 0) | count | ms | rate | share
    group: str = ""


def columns(result: c.Result, words: Words = ENGLISH) -> list[Column]:
    """Columns of the table: the settings that vary, the load, then every number."""
    keys = c.varying_keys(c.settings_of(result).values())
    head = [Column("cell", words.text("cell"), "number")] + [Column(f"setting.{k}", k, "text") for k in keys]
    repeats = len({x.get("repeat") for x in c.cells_of(result)}) > 1
    load = [Column("load", words.text("load"), "text")]
    load += [Column("repeat", words.text("repeat"), "number")] * repeats
    state = [Column("state", words.text("state"), "text")]
    goodput = [
        Column("goodput_per_s", words.text("goodput req/s"), "rate"),
        Column("share", words.text("inside targets"), "share"),
        Column("share_low", words.text("95 % from"), "share"),
        Column("share_high", words.text("95 % to"), "share"),
        Column("output_tok_per_s", words.text("output tok/s"), "rate"),
        Column("prompt_tok_per_s", words.text("prompt tok/s"), "rate"),
        Column("request_per_s", words.text("done req/s"), "rate"),
        Column("offered_rate", words.text("offered req/s"), "rate"),
    ]
    counts = [
        Column("scheduled", words.text("scheduled"), "count"),
        Column("completed", words.text("completed"), "count"),
        Column("failed", words.text("failed"), "count"),
        Column("rejected", words.text("rejected"), "count"),
        Column("cancelled", words.text("cancelled"), "count"),
    ]
    times = [
        Column(f"{metric}.{p}", f"{title} {p}", "ms")
        for metric, title in (
            ("ttft_ms", "TTFT"),
            ("gap_ms", words.text("gap")),
            ("tpot_ms", "TPOT"),
            ("e2e_ms", "E2E"),
        )
        for p in c.PERCENTILES
    ]
    engine = [
        Column("limit", words.text("batch limit"), "count"),
        Column("engine.running_mean", words.text("running mean"), "rate"),
        Column("engine.running_max", words.text("running max"), "count"),
        Column("engine.waiting_max", words.text("waiting max"), "count"),
        Column("engine.kv_cache_usage_max", words.text("KV max"), "share"),
        Column("engine.num_preemptions", words.text("preemptions"), "count"),
        Column("engine.batch_seqs_mean", words.text("sequences a step"), "rate"),
        Column("engine.arrivals_together_mean", words.text("arrive together"), "rate"),
        Column("engine.server_ttft_mean_s", words.text("server's TTFT mean (s)"), "rate"),
        Column("bound", words.text("bound by"), "text"),
    ]
    cached = [
        Column("prefix_cache_hit_share", words.text("prompt from cache"), "share"),
        Column("prefix_cache_hit_share_intended", words.text("shared on purpose"), "share"),
    ]
    known = any(x.get(col.key) for x in c.cells_of(result) for col in cached)
    cold = [Column("cold_loads", words.text("cold model loads"), "count")]
    loaded = any(x.get("cold_loads") for x in c.cells_of(result))
    return head + load + goodput[:4] + state + goodput[4:] + counts + times + engine + cached * known + cold * loaded


def _value(cell: c.Cell, key: str, words: Words) -> object:
    if key == "load":
        return c.load_name(cell, words)
    if key == "limit":
        return limit_of(cell)
    if key == "state":
        return state_text(cell, words)
    if key == "bound":
        by = (cell.get("bound") or {}).get("by")
        return bound_name(by, words) if by else None
    outer, _, inner = key.partition(".")
    value = cell.get(outer)
    return (value or {}).get(inner) if inner else value


def state_text(cell: c.Cell, words: Words = ENGLISH) -> str:
    """`on the frontier`, `ok`, `failed: out of memory`, or why the point is not valid."""
    reason = c.why_invalid(cell, words)
    return reason or (words.text("on the frontier") if cell.get("on_frontier") else words.text("ok"))


def table_rows(result: c.Result, words: Words = ENGLISH) -> list[dict[str, Any]]:
    """One dict a cell, column key -> raw value; null stays None."""
    shown = columns(result, words)
    return [{col.key: _value(cell, col.key, words) for col in shown} for cell in c.cells_of(result)]


def shown(value: object, kind: str, words: Words = ENGLISH) -> str:
    """A raw value as it is written in the table."""
    if value is None:
        return NOTHING
    if kind == "text" or not isinstance(value, int | float):
        return str(value)
    if kind == "number":
        return words.count(c.shown_number(int(value)))
    return {"count": words.count, "ms": words.ms, "rate": words.significant, "share": words.share}[kind](value)


def safe_text(value: str) -> str:
    """Text that no spreadsheet runs as a formula: a leading ' before = + - @ TAB CR. Numbers never come here."""
    return "'" + value if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def csv_text(rows: Iterable[Mapping[str, Any]], keys: Sequence[str]) -> str:
    """CSV (RFC 4180) of these columns: numbers as numbers, text guarded, null empty."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([safe_text(k) for k in keys])
    for row in rows:
        values = (row.get(k) for k in keys)
        writer.writerow([safe_text(v) if isinstance(v, str) else v for v in values])
    return out.getvalue()


def table_csv(result: c.Result, words: Words = ENGLISH) -> str:
    """The whole table as CSV."""
    return csv_text(table_rows(result, words), [col.key for col in columns(result, words)])


def text_table(result: c.Result, words: Words = ENGLISH) -> str:
    """The main numbers for a terminal: one line a cell, columns aligned, numbers to the right."""
    names = c.setting_names(result, words)
    wanted = ("goodput_per_s", "share", "output_tok_per_s", "ttft_ms.p95", "gap_ms.p95")
    shown_columns = [col for col in columns(result, words) if col.key in wanted]
    lines = [[words.text("setting"), words.text("load"), *(col.title for col in shown_columns), words.text("state")]]
    for cell in c.cells_of(result):
        numbers = [shown(_value(cell, col.key, words), col.kind, words) for col in shown_columns]
        name = names[c.key_of(cell.get("setting") or {})]
        lines.append([name, c.load_name(cell, words), *numbers, state_text(cell, words)])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    left = (0, 1, len(widths) - 1)
    aligned = (
        [v.ljust(w) if i in left else v.rjust(w) for i, (v, w) in enumerate(zip(line, widths, strict=True))]
        for line in lines
    )
    return "\n".join("  ".join(cells).rstrip() for cells in aligned)
