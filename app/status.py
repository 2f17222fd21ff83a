"""Sentences about a sweep that runs, from its side files. PURE."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from app.views import cells as c
from app.words import Words
from runner.analysis.frontier import frontier
from runner.analysis.result import targets_of
from runner.config import SweepConfig
from runner.plan import PlannedCell, is_search, plan_cells, settings_of
from runner.search.course import expected_cells
from runner.search.ended import ended_cell

Line = Mapping[str, Any]
LATE_MS, BUSY_SHARE = 50.0, 0.9  # from here on the load generator itself is the doubt
LINES = 120  # a line a second: the last two minutes


def duration(seconds: float | None, words: Words) -> str:
    """40 s, 12 min, 1 h 20 min."""
    if seconds is None:
        return words.text("some time")
    if seconds < 90:
        return words.text("{n} s", n=words.count(max(1, round(seconds))))
    minutes = round(seconds / 60)
    if minutes < 90:
        return words.text("{n} min", n=words.count(minutes))
    return words.text("{h} h {m} min", h=words.count(minutes // 60), m=words.count(minutes % 60))


def seconds_left(lines: Sequence[Line]) -> float | None:
    """The runner's estimate, which it renews with each cell, less the time since."""
    if not lines or lines[-1].get("eta_s") is None:
        return None
    now = lines[-1]
    same = [line for line in lines if line.get("eta_s") == now["eta_s"] and line.get("cell") == now.get("cell")]
    return max(1.0, float(now["eta_s"]) - (float(now["at_s"]) - float(same[0]["at_s"])))


def share_done(lines: Sequence[Line], cells_done: int, cells_total: int) -> float:
    """0–1 for the progress bar: by time where an estimate is known, else by cells."""
    left = seconds_left(lines)
    by_cells = cells_done / max(cells_total, 1)
    if left is None:
        return min(by_cells, 1.0)
    spent = float(lines[-1]["at_s"])
    return min(max(by_cells, spent / (spent + left)), 1.0)


def cell_sentence(line: Line, config: SweepConfig, words: Words, rows: Sequence[Line] = ()) -> str:
    """`Cell 3 of 6, max_num_seqs 8 at 2 req/s: measuring.` `rows`: lines of cells.jsonl, which a search goes by."""
    phase, number = phase_text(str(line.get("phase")), words), line.get("cell")
    plan = (_told(line) or _plan(number, config, rows)) if isinstance(number, int) else None
    if plan is None:
        return f"{phase[:1].upper()}{phase[1:]}."
    setting = c.setting_name(plan.setting, c.varying_keys(settings_of(config)), words)
    return words.text(
        "Cell {n} of {total}, {setting} at {load}: {phase}.",
        n=words.count(plan.cell + 1),
        total=words.count(max(int(line.get("cells_total") or len(plan_cells(config))), plan.cell + 1)),
        setting=setting,
        load=c.load_name({"load": plan.load}, words) or words.text("its own load"),
        phase=phase,
    )


def _told(line: Line) -> PlannedCell | None:
    """The cell as the runner tells it; lines of older versions do not."""
    if not isinstance(line.get("setting"), dict) or not isinstance(line.get("load"), dict):
        return None
    return PlannedCell(int(line["cell"]), dict(line["setting"]), dict(line["load"]), 0)


def _plan(number: int, config: SweepConfig, rows: Sequence[Line]) -> PlannedCell | None:
    """A cell by its number; of a search, which chooses cells as it goes, the one after those that have ended."""
    if not is_search(config):
        plans = plan_cells(config)
        return plans[number] if 0 <= number < len(plans) else None
    latest = _latest(rows)
    if number in latest:
        row = latest[number]
        return PlannedCell(number, dict(row["setting"]), dict(row["load"]), int(row.get("repeat") or 0))
    targets = targets_of(config)
    left = expected_cells(config, [ended_cell(latest[n], targets) for n in sorted(latest)])
    return left[0] if left and left[0].cell == number else None


def _latest(rows: Sequence[Line]) -> dict[int, dict[str, Any]]:
    """The last line of each cell that ended, without the check for drift."""
    return {int(r["cell"]): dict(r) for r in rows if isinstance(r.get("cell"), int) and not r.get("drift")}


def ended_rows(rows: Sequence[Line], words: Words) -> list[dict[str, Any]]:
    """The cells that ended, the newest first, all text but the cell's number (from 1)."""
    latest = list(_latest(rows).values())[::-1]
    keys = c.varying_keys([r.get("setting") or {} for r in latest])
    return [
        {
            "cell": c.shown_number(r["cell"]),
            "setting": _values(r.get("setting") or {}, keys) or c.setting_name({}, keys, words),
            "load": c.load_name(r, words),
            "goodput": words.per_s(r.get("goodput_per_s"), "req") if r.get("status") == "ok" else c.failure(r, words),
            "share": words.share(r.get("share")),
            "ttft": words.ms(c.percentile(r, "ttft_ms", "p50")),
        }
        for r in latest
    ]


def _values(setting: Mapping[str, Any], keys: Sequence[str]) -> str:
    """`32 · 512`, as in the legend of the figure beside the table, whose title names the keys."""
    return " · ".join(str(setting[key]) for key in keys if key in setting)


def ended_titles(words: Words) -> dict[str, str]:
    """Key of a row of `ended_rows` -> column title."""
    return {
        "cell": words.text("cell"),
        "setting": words.text("setting"),
        "load": words.text("load"),
        "goodput": words.text("goodput"),
        "share": words.text("inside targets"),
        "ttft": "TTFT p50",
    }


def preemptions(lines: Sequence[Line]) -> float | None:
    """Preemptions since the first line that is known of the cell that runs; the server counts over its life."""
    told = [x.get("num_preemptions") for x in lines if x.get("cell") == lines[-1].get("cell")] if lines else []
    known = [float(v) for v in told if v is not None]
    return max(known[-1] - known[0], 0.0) if known else None


def phase_text(phase: str, words: Words) -> str:
    known = {
        "starting": words.text("starting the server"),
        "warmup": words.text("warming up, not counted yet"),
        "measure": words.text("measuring"),
        "drain": words.text("letting the last answers end"),
        "cooldown": words.text("letting the machine cool down"),
        "idle": words.text("waiting until the server is idle"),
        "stopping": words.text("ending"),
    }
    return known.get(phase, phase)


def client_sentence(line: Line, words: Words) -> tuple[bool, str]:
    """(all is well, a sentence): is the load generator itself the limit?"""
    lag, cpu = line.get("loop_lag_ms"), line.get("cpu_share")
    if lag is None or cpu is None:
        return True, words.text("The load generator has not reported yet.")
    well = lag < LATE_MS and cpu < BUSY_SHARE
    values = {"lag": words.ms(lag), "cpu": words.share(cpu)}
    if well:
        return True, words.text("The load generator keeps up: {lag} late, {cpu} of one core.", **values)
    return False, words.text(
        "The load generator is short of breath: {lag} late, {cpu} of one core. Numbers of this cell may be its own.",
        **values,
    )


def growing_result(rows: Sequence[Line]) -> dict[str, Any]:
    """The ended cells as a result object without a choice, for the frontier so far. The last line of a cell counts;
    lines of another version, without the figures, are left out."""
    latest = _latest([r for r in rows if "goodput_per_s" in r and isinstance(r.get("ttft_ms"), dict)])
    cells = [latest[n] for n in sorted(latest)]
    on = frontier([x for x in cells if x.get("status") == "ok"])
    return {"cells": [{**x, "on_frontier": x["cell"] in on} for x in cells], "choice": {}}


def unmarked(fig: go.Figure) -> go.Figure:
    """The frontier without its marks of pick and throughput winner: neither is known before the end.

    Its axis begins at 0: a single point would else stretch a range of its own.
    """
    fig.data = [trace for trace in fig.data if (trace.meta or {}).get("role") not in ("pick", "raw")]
    fig.update_xaxes(rangemode="tozero")
    return fig


def error_rows(line: Line, words: Words) -> list[dict[str, Any]]:
    """Errors of the cell that runs, grouped by kind, most frequent first."""
    found = line.get("errors") or {}
    return [
        {"kind": c.error_text(str(kind), words), "count": count}
        for kind, count in sorted(found.items(), key=lambda pair: -int(pair[1]))
    ]
