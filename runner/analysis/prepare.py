"""Everything about a sweep that does not depend on the targets asked for: computed once, scored many times."""

import json
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from runner.analysis.bootstrap import blocks_of, slices_at
from runner.analysis.bound import Evidence
from runner.analysis.cell_numbers import cell_numbers, class_numbers, kernel_stamp_share
from runner.analysis.cell_warnings import cell_warnings, others_share
from runner.analysis.dependence import crowd_effect, in_system
from runner.analysis.engine import NO_ENGINE, Samples, as_samples, engine_numbers, prefix_cache_hit_share, streams
from runner.analysis.evidence import evidence
from runner.analysis.gaps import Floats, Gaps, Ints, gap_table
from runner.analysis.prefix_cache import intended_hit_share
from runner.analysis.request_object import COLD_LOAD_MS
from runner.analysis.requests import driven_freely, floats, is_rated, request_table
from runner.analysis.throughput import mean_answer_s, output_slices
from runner.analysis.together import arrivals_together
from runner.analysis.warnings import MeasurementWarning
from runner.config import SweepConfig, is_load_key
from runner.plan import is_search, plan_cells
from storage.tables import SweepTables

ENDED = ("ok", "failed", "skipped")
PENDING = "pending"
NEAR = 0.8  # of the target of a first token, as the sweep itself states it


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
        engine = as_samples(tables.engine[tables.engine["cell"] == cell])
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
    engine: Samples,
    client: pd.DataFrame,
    config: SweepConfig,
    simulated: bool,
) -> CellFacts:
    start, end = _number(record["window_start_ns"]), _number(record["window_end_ns"])
    measured = record["status"] == "ok" and start is not None and end is not None and end > start
    span = (start, end) if measured and start is not None and end is not None else None
    gaps = gap_table(rows)
    crowds = _crowds(rows, config) if span else {}
    whole = cell_numbers(rows, gaps, span, 1.0 + sum(crowd - 1.0 for crowd in crowds.values()))
    classes = {c.name: class_numbers(rows, gaps, whole, c.name, span, crowds.get(c.name, 1.0)) for c in config.classes}
    base = {**_origin(record), **whole}
    base |= {"engine": NO_ENGINE, "kernel_stamp_share": None}
    base |= {"prefix_cache_hit_share": None, "prefix_cache_hit_share_intended": None, "others_share": None}
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
        base["others_share"] = others_share(client, span)
        seen = evidence(rows, engine, base["engine"], dict(record["setting"]), config.backend, *span)
        lags = _send_lags_ms(rows)
        if record.get("error_kind") == "hopeless":
            found.append(MeasurementWarning("cut_short", int(record["cell"])))
        if steps := _number(record.get("clock_steps")):
            found.append(MeasurementWarning("clock_stepped", int(record["cell"]), {"count": int(steps)}))
        found += cell_warnings(
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
    """`crowd_effect` of each class: how many of those that come at random its arrivals find in the system.

    Where none of the class came near its target of a first token, only those that wait for one are a crowd: the number
    of running answers, if they are long, changes slowly on an idle server too, and nobody is late for it. Near the
    target it tells how long bad minutes last even in a lucky one, in which hardly anybody waits.
    Dumps, closed loops and what our own dispatcher holds back are no crowds: how many there are is settled beforehand.
    """
    names = rows["class_name"].to_numpy(dtype=object).astype(str)
    random = np.isin(names, [c.name for c in config.classes if is_rated(c)]) & driven_freely(rows)
    scheduled, first, end = (floats(rows[f"{at}_ns"]) for at in ("scheduled", "first_chunk", "end"))
    served = np.where(np.isnan(first), end, first)
    window = rows["in_window"].to_numpy(dtype=bool)
    crowds = {}
    for c in config.classes:
        mine = window & (names == c.name)
        near = c.slo is None or bool((served[mine] - scheduled[mine] > NEAR * c.slo.ttft_ms * 1e6).any())
        crowds[c.name] = crowd_effect(in_system(scheduled, scheduled[random], (end if near else served)[random])[mine])
    return crowds


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


def _send_lags_ms(rows: pd.DataFrame) -> Floats:
    lag: Floats = rows["send_lag_ms"].to_numpy(dtype=np.float64)
    return lag[rows["in_window"].to_numpy(dtype=bool) & driven_freely(rows) & ~np.isnan(lag)]


def limits(setting: dict[str, Any]) -> dict[str, Any]:
    """The numeric limits among a setting's keys, to be shown beside what was observed."""
    return {
        k: v
        for k, v in setting.items()
        if not is_load_key(k) and isinstance(v, (int, float)) and not isinstance(v, bool)
    }
