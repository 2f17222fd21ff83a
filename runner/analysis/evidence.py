"""One cell's rows and samples -> what `bound` judges by."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from runner.analysis.bound import NEAR_BUDGET, Evidence
from runner.analysis.engine import (
    FULL_KV,
    Samples,
    busy_share,
    concurrency,
    full_step_share,
    fullest_kv,
    share_at_least,
)
from runner.analysis.gaps import Bools, Floats
from runner.analysis.requests import floats
from runner.config import Backend

CUT_OFF_KINDS = ("context_overflow", "out_of_memory")
WITHOUT_BUDGET = (
    "static",
    "orca",
    "distserve",
)  # schedulers of the built-in engine that spend no budget of tokens a step
RESERVING = ("static", "orca")  # those that set a request's KV aside for life before it begins
EMPTIEST_FULL = 0.5


def evidence(
    rows: pd.DataFrame,
    samples: Samples,
    numbers: Mapping[str, Any],
    setting: Mapping[str, Any],
    backend: Backend,
    start_ns: float,
    end_ns: float,
) -> Evidence:
    """`rows`: of the request table; `samples`: of the same cell; `numbers`: its `engine` object."""
    scheduler = str(setting.get("scheduler", backend.scheduler)) if backend.kind == "simulated" else None
    budget = None if scheduler in WITHOUT_BUDGET else _limit(setting, "max_num_batched_tokens")
    seats = _limit(setting, "max_num_seqs")
    limit = seats * (numbers["engines"] or 1) if seats is not None else numbers["seats"]
    kv_tokens = _limit(setting, "kv_tokens") or backend.kv_tokens
    at, fullest, running = floats(samples["at_ns"]), fullest_kv(samples), floats(samples["running"])
    full_kv = _full_from_reserved(fullest, running) if scheduler in RESERVING else _full_from(rows, kv_tokens)
    running = running[(at >= start_ns) & (at < end_ns) & (fullest >= full_kv)]
    level = limit if limit is not None else numbers["running_max"]
    full_share = None if level is None else share_at_least(samples, "running", level, start_ns, end_ns)
    first, last = floats(rows["first_chunk_ns"]), floats(rows["last_chunk_ns"])
    streams_level = limit if limit is not None else max(1, numbers["streams_max"])
    in_system = concurrency(floats(rows["sent_ns"]), floats(rows["end_ns"]), start_ns, end_ns)
    return Evidence(
        limit=limit,
        budget=budget,
        has_budget=scheduler not in WITHOUT_BUDGET,
        running_mean=numbers["running_mean"],
        running_max=numbers["running_max"],
        full_share=full_share,
        waiting_mean=numbers["waiting_mean"],
        waiting_max=numbers["waiting_max"],
        kv_max=numbers["kv_cache_usage_max"],
        full_kv=full_kv,
        running_at_full_kv=float(np.nanmax(running)) if len(running) and not np.isnan(running).all() else None,
        preemptions=numbers["num_preemptions"],
        swapped_max=numbers["swapped_max"],
        cut_off=_cut_off(rows),
        full_steps_share=full_step_share(samples, NEAR_BUDGET * budget, start_ns, end_ns) if budget else None,
        chunked_share=_longer_than(rows, budget),
        queue_time_s=numbers["queue_time_mean_s"],
        step_s=numbers["server_itl_mean_s"],
        streams_max=numbers["streams_max"],
        streams_full_share=busy_share(first, last, streams_level, start_ns, end_ns),
        in_system_mean=in_system[0],
        in_system_max=in_system[1],
    )


def _limit(setting: Mapping[str, Any], key: str) -> float | None:
    value = setting.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def _prompt_tokens(rows: pd.DataFrame) -> Floats:
    """Of the window's requests, as the server counted them, else as asked for."""
    told = floats(rows["prompt_tokens"])
    of_window: Floats = np.where(np.isnan(told), floats(rows["prompt_tokens_asked"]), told)[_in_window(rows)]
    return of_window


def _in_window(rows: pd.DataFrame) -> Bools:
    inside: Bools = rows["in_window"].to_numpy(dtype=bool)
    return inside


def _longer_than(rows: pd.DataFrame, budget: float | None) -> float | None:
    tokens = _prompt_tokens(rows)
    return float((tokens > budget).mean()) if budget and len(tokens) else None


def _full_from(rows: pd.DataFrame, kv_tokens: float | None) -> float:
    """The use from which on a usual prompt finds no room."""
    needs = _prompt_tokens(rows)
    if not kv_tokens or not len(needs):
        return FULL_KV
    return float(np.clip(1.0 - np.median(needs) / kv_tokens, EMPTIEST_FULL, FULL_KV))


def _full_from_reserved(use: Floats, running: Floats) -> float:
    """The use from which on one more of those that run finds no room, each with its KV set aside."""
    each = use[running > 0] / running[running > 0]
    each = each[each > 0]
    return float(np.clip(1.0 - np.median(each), 0.0, FULL_KV)) if len(each) else FULL_KV


def _cut_off(rows: pd.DataFrame) -> int:
    kinds = rows["error_kind"].to_numpy(dtype=object).astype(str)
    begun = _in_window(rows) & (floats(rows["token_events"]) > 0)
    return int((begun & np.isin(kinds, CUT_OFF_KINDS)).sum())
