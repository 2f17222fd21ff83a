"""Everything about a sweep that does not depend on targets: computed once, kept by the caller, scored many times."""

import json
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from runner.analysis.bootstrap import blocks_of, rate_interval, slices_at, window_needed_s
from runner.analysis.bound import Evidence
from runner.analysis.dependence import crowd_effect, in_system
from runner.analysis.engine import NO_ENGINE, engine_numbers, prefix_cache_hit_share, restarted, streams
from runner.analysis.evidence import evidence
from runner.analysis.gaps import Bools, Floats, Gaps, Ints, gap_table
from runner.analysis.percentiles import nearest_rank, percentiles_with_intervals
from runner.analysis.prefix_cache import intended_hit_share, unplanned_hits
from runner.analysis.request_object import COLD_LOAD_MS
from runner.analysis.requests import floats, request_table
from runner.analysis.row_flags import material_flags, row_flags
from runner.analysis.steady import no_steady_state, overload_signs
from runner.analysis.throughput import mean_answer_s, output_slices, throughput
from runner.analysis.together import arrivals_together
from runner.analysis.warnings import MeasurementWarning
from runner.config import RequestClass, SweepConfig, is_load_key
from runner.plan import is_search, plan_cells
from storage.tables import SweepTables

ENDED = ("ok", "failed", "skipped")
PENDING = "pending"
LATENCIES = ("ttft_ms", "tpot_ms", "e2e_ms")
RATES = ("output_tok_per_s", "prompt_tok_per_s", "request_per_s", "offered_rate")
LOOP_LAG_MS = 100.0  # worst lateness of a timer in a second; more than one second in ten, but not a single hiccup
CPU_SHARE = 0.9  # of one core: the event loop is one thread


@dataclass(frozen=True)
class CellFacts:
    """One cell. `base` and `classes` hold the target-free keys of the result object; window is null unless measured."""

    cell: int
    setting: dict[str, Any]
    load: dict[str, Any]
    repeat: int
    status: str
    window_s: float | None
    rows: slice  # of Prepared.requests
    base: dict[str, Any]
    classes: dict[str, dict[str, Any]]
    warnings: tuple[MeasurementWarning, ...]
    seen: Evidence | None  # what its bound is judged by; null unless measured
    send_lags_ms: Floats  # of the window's open-loop requests that our own dispatcher does not hold back
    blocks: int | None  # of the window for the intervals of rates; null: too short
    slice_of: Ints  # (rows,) the part of the window each row's scheduled arrival falls into; of use inside it
    output_slices: Floats  # (SLICES,) output tokens by parts of the window; empty unless measured
    crowds: dict[str, float]  # by class: how its requests' fates hang together in a crowd (`crowd_effect`)


@dataclass(frozen=True)
class Prepared:
    tables: SweepTables
    config: SweepConfig
    requests: pd.DataFrame
    cells: tuple[CellFacts, ...]
    drift: CellFacts | None = None  # the first cell once more, not one of `cells`: nothing is chosen from it


def prepare(tables: SweepTables, only: int | None = None) -> Prepared:
    """Cost is linear in the number of chunks. `only`: this cell without the rest of the plan.

    Raises ConfigError's cause (ValidationError) on a foreign config.
    """
    config = SweepConfig.model_validate(tables.meta["config"])
    requests = request_table(tables, config)
    numbers = requests["cell"].to_numpy(dtype=np.int64)
    simulated = bool(tables.meta.get("simulated"))
    facts: list[CellFacts] = []
    waiting: CellFacts | None = None
    for record in _records(tables.cells, config, only):
        cell = int(record["cell"])
        rows = slice(int(np.searchsorted(numbers, cell)), int(np.searchsorted(numbers, cell, side="right")))
        untouched = record["status"] == PENDING and rows.start == rows.stop
        if untouched and waiting:  # all alike, and a plan may have thousands
            facts.append(_waits_too(waiting, record, rows))
            continue
        engine = tables.engine[tables.engine["cell"] == cell]
        client = tables.client[tables.client["cell"] == cell]
        facts.append(_cell_facts(record, requests.iloc[rows], rows, engine, client, config, simulated))
        waiting = facts[-1] if untouched else waiting
    again = None if is_search(config) else next((f for f in facts if f.repeat >= config.run.repeats), None)
    return Prepared(tables, config, requests, tuple(f for f in facts if f is not again), again)


def _waits_too(other: CellFacts, record: dict[Any, Any], rows: slice) -> CellFacts:
    """A cell of the plan without rows, as `other` is one."""
    return replace(
        other,
        cell=int(record["cell"]),
        setting=dict(record["setting"]),
        load=dict(record["load"]),
        repeat=int(record["repeat"]),
        rows=rows,
        base=deepcopy(other.base),
        classes=deepcopy(other.classes),
    )


def _records(cells: pd.DataFrame, config: SweepConfig, only: int | None) -> list[dict[Any, Any]]:
    """The cells that ended, and as pending ones those that did not start or were cut by the end of the runner."""
    started = [record for record in cells.to_dict("records") if record["status"] in ENDED]
    known = {int(record["cell"]) for record in started}
    unset = {"status": PENDING, "window_start_ns": None, "window_end_ns": None}
    left = [p for p in plan_cells(config) if p.cell not in known and only in (None, p.cell)]
    waiting = [{**asdict(planned), **unset} for planned in left]
    return sorted([*started, *waiting], key=lambda record: int(record["cell"]))


def _cell_facts(
    record: dict[Any, Any],
    rows: pd.DataFrame,
    place: slice,
    engine: pd.DataFrame,
    client: pd.DataFrame,
    config: SweepConfig,
    simulated: bool,
) -> CellFacts:
    start, end = _number(record["window_start_ns"]), _number(record["window_end_ns"])
    measured = record["status"] == "ok" and start is not None and end is not None and end > start
    span = (start, end) if measured and start is not None and end is not None else None
    gaps = gap_table(rows)
    crowds = _crowds(rows, config) if span else {}
    whole = _numbers(rows, gaps, span, 1.0 + sum(crowd - 1.0 for crowd in crowds.values()))
    classes = {c.name: _class_numbers(rows, gaps, whole, c.name, span, crowds.get(c.name, 1.0)) for c in config.classes}
    base = {**_origin(record), **whole}
    base |= {"engine": NO_ENGINE, "kernel_stamp_share": None}
    base |= {"prefix_cache_hit_share": None, "prefix_cache_hit_share_intended": None}
    base |= _cold_loads(rows)
    found: list[MeasurementWarning] = []
    lags, seen = np.zeros(0), None
    slices, blocks = np.zeros(0), None
    slice_of = np.zeros(len(rows), dtype=np.int64)
    if span:
        slices, slice_of = output_slices(rows, gaps, *span), slices_at(floats(rows["scheduled_ns"]), *span)
        blocks = blocks_of((span[1] - span[0]) / 1e9, mean_answer_s(rows))
        base["engine"] = {**engine_numbers(engine, *span), **_seen_from_outside(rows, gaps, *span)}
        base["kernel_stamp_share"] = kernel_stamp_share(rows)
        base["prefix_cache_hit_share"] = prefix_cache_hit_share(rows, engine, *span)
        base["prefix_cache_hit_share_intended"] = intended_hit_share(rows, config)
        seen = evidence(rows, engine, base["engine"], dict(record["setting"]), config.backend, *span)
        lags = _send_lags_ms(rows)
        if record.get("error_kind") == "hopeless":
            found.append(MeasurementWarning("cut_short", int(record["cell"])))
        found += _warnings(
            int(record["cell"]), dict(record["setting"]), rows, base, engine, client, config, span, simulated
        )
    return CellFacts(
        cell=int(record["cell"]),
        setting=dict(record["setting"]),
        load=dict(record["load"]),
        repeat=int(record["repeat"]),
        status=str(record["status"]),
        window_s=(span[1] - span[0]) / 1e9 if span else None,
        rows=place,
        base=base,
        classes=classes,
        warnings=tuple(found),
        seen=seen,
        send_lags_ms=lags,
        blocks=blocks,
        slice_of=slice_of,
        output_slices=slices,
        crowds=crowds,
    )


def _crowds(rows: pd.DataFrame, config: SweepConfig) -> dict[str, float]:
    """`crowd_effect` of each class: how many of those that come at random its arrivals find waiting for a first token.
    Those whose answers run already are no crowd: with long answers their number changes slowly on an idle server too.
    Dumps, closed loops and what our own dispatcher holds back are no crowds: how many there are is settled beforehand.
    """
    names = rows["class_name"].to_numpy(dtype=object).astype(str)
    random = np.isin(names, [c.name for c in config.classes if _rated(c)]) & _driven_freely(rows)
    scheduled, first = floats(rows["scheduled_ns"]), floats(rows["first_chunk_ns"])
    served = np.where(np.isnan(first), floats(rows["end_ns"]), first)
    found = in_system(scheduled, scheduled[random], served[random])
    window = rows["in_window"].to_numpy(dtype=bool)
    return {c.name: crowd_effect(found[window & (names == c.name)]) for c in config.classes}


def _seen_from_outside(rows: pd.DataFrame, gaps: Gaps, start_ns: float, end_ns: float) -> dict[str, Any]:
    """The batch as the streams alone tell it, whatever the server says."""
    found = streams(rows, start_ns, end_ns)
    together = arrivals_together(rows, gaps, start_ns, end_ns, found["streams_mean"])
    first, sent = floats(rows["first_chunk_ns"]), floats(rows["sent_ns"])
    ttft_s = ((first - sent) / 1e9)[(first >= start_ns) & (first < end_ns)]
    return {
        **found,
        "arrivals_together_mean": together.mean,
        "arrivals_together_max": together.most,
        "client_ttft_mean_s": float(ttft_s.mean()) if len(ttft_s) else None,
    }


def _origin(record: dict[Any, Any]) -> dict[str, Any]:
    out = {key: record.get(key) for key in ("error_kind", "error_detail", "log_tail", "start_line")}
    texts: dict[str, Any] = {key: value if isinstance(value, str) else None for key, value in out.items()}
    server = record.get("server")
    found = json.loads(server) if isinstance(server, str) else {}
    return {**texts, "notes": [str(note) for note in found.get("notes") or []]}


def _cold_loads(rows: pd.DataFrame) -> dict[str, Any]:
    """How many answers of the window waited for the model to be loaded, and the longest such wait of the whole cell."""
    loads = floats(rows["load_ms"])
    cold = (loads > COLD_LOAD_MS) & rows["completed"].to_numpy(dtype=bool)
    inside = cold & rows["in_window"].to_numpy(dtype=bool)
    return {"cold_loads": int(inside.sum()), "cold_load_max_ms": float(loads[cold].max()) if cold.any() else None}


def _number(value: Any) -> float | None:  # noqa: ANN401  (a cell of a DataFrame)
    return None if value is None or pd.isna(value) else float(value)


def _unmeasured() -> dict[str, Any]:
    return {
        **dict.fromkeys(RATES),
        **dict.fromkeys(("output_tok_per_s_low", "output_tok_per_s_high")),
        "needs": {},
        **{key: percentiles_with_intervals(np.zeros(0)) for key in ("ttft_ms", "gap_ms", "tpot_ms", "e2e_ms")},
    }


def _class_numbers(
    rows: pd.DataFrame, gaps: Gaps, whole: dict[str, Any], name: str, span: tuple[float, float] | None, crowd: float
) -> dict[str, Any]:
    """`_numbers` of one class of a cell; a class that is alone has the cell's own."""
    mine = np.equal(rows["class_name"].to_numpy(dtype=object), name).astype(bool)
    if mine.all():
        return deepcopy(whole)
    return _numbers(rows[mine], gaps.of_rows(mine), span, crowd)


def _numbers(rows: pd.DataFrame, gaps: Gaps, span: tuple[float, float] | None, crowd: float) -> dict[str, Any]:
    """Counts, rates and percentiles of one cell's rows, all classes or one; `gaps` and `crowd`: of exactly these."""
    window = rows["in_window"].to_numpy(dtype=bool)
    out: dict[str, Any] = {"scheduled": int(window.sum())}
    for name in ("completed", "failed", "cancelled", "rejected"):
        out[name] = int((window & rows[name].to_numpy(dtype=bool)).sum())
    if span is None:
        return {**out, **_unmeasured()}
    chosen = window & rows["latency_counts"].to_numpy(dtype=bool)
    out |= throughput(rows, gaps, *span) | _output_interval(rows, gaps, span)
    for name in LATENCIES:
        out[name] = percentiles_with_intervals(rows[name].to_numpy(dtype=np.float64)[chosen], crowd)
    streamed = chosen & ~rows["buffered"].to_numpy(dtype=bool)
    out["gap_ms"] = percentiles_with_intervals(gaps.gap_ms[streamed[gaps.row]])
    return out


def _output_interval(rows: pd.DataFrame, gaps: Gaps, span: tuple[float, float]) -> dict[str, Any]:
    """The interval of output_tok_per_s; where the window is too short for one, null and how long it must be."""
    window_s, answer_s = (span[1] - span[0]) / 1e9, mean_answer_s(rows)
    blocks = blocks_of(window_s, answer_s)
    if blocks is None:
        needed = {} if np.isnan(answer_s) else {"window_s": window_needed_s(answer_s)}
        return {"output_tok_per_s_low": None, "output_tok_per_s_high": None, "needs": needed}
    low, high = rate_interval(output_slices(rows, gaps, *span), blocks, window_s)
    return {"output_tok_per_s_low": low, "output_tok_per_s_high": high, "needs": {}}


def kernel_stamp_share(rows: pd.DataFrame) -> float | None:
    """Share of reads with text whose time is the kernel's; null without any."""
    reads = float((floats(rows["token_events"]) - floats(rows["shared_stamps"])).sum())
    return 1.0 - float(floats(rows["user_stamps"]).sum()) / reads if reads > 0 else None


def _driven_freely(rows: pd.DataFrame) -> Bools:
    free: Bools = ~(rows["closed"].to_numpy(dtype=bool) | rows["capped"].to_numpy(dtype=bool))
    return free


def _send_lags_ms(rows: pd.DataFrame) -> Floats:
    lag: Floats = rows["send_lag_ms"].to_numpy(dtype=np.float64)
    return lag[rows["in_window"].to_numpy(dtype=bool) & _driven_freely(rows) & ~np.isnan(lag)]


def _warnings(
    cell: int,
    setting: dict[str, Any],
    rows: pd.DataFrame,
    base: dict[str, Any],
    engine: pd.DataFrame,
    client: pd.DataFrame,
    config: SweepConfig,
    span: tuple[float, float],
    simulated: bool,
) -> list[MeasurementWarning]:
    values: dict[str, dict[str, Any] | None] = {
        "client_saturated": _client_saturated(client, span),
        "rate_not_reached": _rate_not_reached(rows, span),
        "server_serialises": _server_serialises(rows, base, span, setting),
        "metrics_lost": _metrics_lost(engine, span),
        "server_restarted": {} if restarted(engine) else None,
        "no_steady_state": {} if _drifts(rows, config) else None,
        "overload": {} if _overloaded(rows, base, config, span) else None,
        "user_clock": _user_clock(base["kernel_stamp_share"], simulated),
        "errors": _errors(rows),
    }
    answered = rows["completed"].to_numpy(dtype=bool) & rows["in_window"].to_numpy(dtype=bool)
    for flag, share in material_flags(row_flags(rows), answered).items():
        if flag != "prefix_cached":
            values[flag] = {"share": share}
    hits, intended = base["prefix_cache_hit_share"], base["prefix_cache_hit_share_intended"]
    values |= unplanned_hits(rows, hits, intended, setting)
    return [MeasurementWarning(key, cell, v) for key, v in values.items() if v is not None]


def _client_saturated(client: pd.DataFrame, span: tuple[float, float]) -> dict[str, Any] | None:
    at = floats(client["at_ns"])
    inside = (at >= span[0]) & (at < span[1])
    if not inside.any():
        return None
    # several processes make a large load, each with a row a second; one that is too slow spoils its own streams
    worst = client[inside].groupby((at[inside] // 1e9).astype(np.int64))[["loop_lag_ms", "cpu_share"]].max()
    lags = floats(worst["loop_lag_ms"])
    late = int((lags > LOOP_LAG_MS).sum()) > max(1.0, 0.1 * len(lags))
    cpu = float(floats(worst["cpu_share"]).mean())
    return {"loop_lag_ms": nearest_rank(lags, 0.90), "cpu_share": cpu} if late or cpu > CPU_SHARE else None


def _rate_not_reached(rows: pd.DataFrame, span: tuple[float, float]) -> dict[str, Any] | None:
    """Against the drawn schedule, not the mean rate: a Poisson window rarely holds exactly rate x time requests."""
    free = _driven_freely(rows)
    scheduled = int((free & rows["in_window"].to_numpy(dtype=bool)).sum())
    sent_ns = floats(rows["sent_ns"])
    sent = int((free & (sent_ns >= span[0]) & (sent_ns < span[1])).sum())
    return {"sent": sent, "scheduled": scheduled} if scheduled and sent < 0.95 * scheduled else None


def _server_serialises(
    rows: pd.DataFrame, base: dict[str, Any], span: tuple[float, float], setting: dict[str, Any]
) -> dict[str, Any] | None:
    """Never two streams at once although others waited (4 streamed answers or more, 2 in the system on average)."""
    if setting.get("max_num_seqs") == 1:
        return None
    streamed = rows["completed"].to_numpy(dtype=bool) & (floats(rows["token_events"]) >= 2)
    busy = streams(rows.assign(first_chunk_ns=rows["sent_ns"], last_chunk_ns=rows["end_ns"]), *span)
    if int(streamed.sum()) < 4 or base["engine"]["streams_max"] != 1 or busy["streams_mean"] < 2.0:
        return None
    return {"in_system": busy["streams_max"]}


def _metrics_lost(engine: pd.DataFrame, span: tuple[float, float]) -> dict[str, Any] | None:
    """The server's own numbers came, and then did not until the window's end: 10 s and a quarter of it, or more."""
    told = floats(engine["at_ns"])[engine["source"].to_numpy(dtype=object) != "none"]
    if not len(told):
        return None
    missing_s = (span[1] - max(float(told.max()), span[0])) / 1e9
    window_s = (span[1] - span[0]) / 1e9
    return {"missing_s": missing_s} if missing_s >= max(10.0, window_s / 4) else None


def _drifts(rows: pd.DataFrame, config: SweepConfig) -> bool:
    timed = rows["in_window"].to_numpy(dtype=bool) & rows["latency_counts"].to_numpy(dtype=bool)
    names = rows["class_name"].to_numpy(dtype=object)
    steady = [c.name for c in config.classes if c.slo is not None and c.dump is None]
    return any(no_steady_state(rows["ttft_ms"].to_numpy(dtype=np.float64)[timed & (names == n)]) for n in steady)


def _overloaded(rows: pd.DataFrame, base: dict[str, Any], config: SweepConfig, span: tuple[float, float]) -> bool:
    names = rows["class_name"].to_numpy(dtype=object).astype(str)
    rated = np.isin(names, [c.name for c in config.classes if _rated(c)]) & _driven_freely(rows)
    return bool(rated.any()) and overload_signs(rows[rated], *span, base["engine"]["queue_time_mean_s"]).verdict


def _rated(c: RequestClass) -> bool:
    return c.dump is None and c.closed is None


def _user_clock(share: float | None, simulated: bool) -> dict[str, Any] | None:
    return {"share": 1.0 - share} if share is not None and share < 0.95 and not simulated else None


def _errors(rows: pd.DataFrame) -> dict[str, Any] | None:
    window = rows["in_window"].to_numpy(dtype=bool)
    bad = window & (rows["failed"].to_numpy(dtype=bool) | rows["rejected"].to_numpy(dtype=bool))
    if int(bad.sum()) <= 0.01 * int(window.sum()):
        return None
    kinds = rows["error_kind"][bad].fillna("unknown").value_counts()
    return {"share": int(bad.sum()) / int(window.sum()), "kinds": ", ".join(f"{n} {k}" for k, n in kinds.items())}


def limits(setting: dict[str, Any]) -> dict[str, Any]:
    """The numeric limits among a setting's keys, to be shown beside what was observed."""
    return {
        k: v
        for k, v in setting.items()
        if not is_load_key(k) and isinstance(v, (int, float)) and not isinstance(v, bool)
    }
