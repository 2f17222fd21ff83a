"""Raw request rows -> the same rows with every derived number. The one definition of TTFT, TPOT, E2E and send lag."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from runner.analysis.gaps import Bools, Floats, gap_sums
from runner.analysis.request_object import BUFFERED_TOKENS, BUFFERED_US_PER_CHUNK, COLD_LOAD_MS
from runner.config import RequestClass, SweepConfig
from storage.tables import SweepTables

REJECTED_KINDS = ("rate_limited", "overloaded")  # 429 and 503, or their in-band forms


def floats(column: "pd.Series[Any]") -> Floats:
    """Any numeric column as float64, null as NaN. Nanoseconds of one cell stay exact up to 104 days."""
    plain = isinstance(column.dtype, np.dtype) and column.dtype != object  # its nulls, if it has any, are NaN already
    return column.to_numpy(dtype=np.float64) if plain else column.to_numpy(dtype=np.float64, na_value=np.nan)


def is_closed(request_class: RequestClass, load: Mapping[str, Any]) -> bool:
    """True if a new request waits for an old one: `closed = …`, or a weighted class under max_concurrency."""
    return request_class.closed is not None or ("max_concurrency" in load and request_class.weight is not None)


def is_capped(request_class: RequestClass, load: Mapping[str, Any]) -> bool:
    """True if our own dispatcher holds requests of the class back, so a late send is wanted."""
    return request_class.max_in_flight is not None or f"{request_class.name}_max_in_flight" in load


def is_rated(request_class: RequestClass) -> bool:
    """True if its requests come one by one at a rate: neither a pile at once nor a closed loop."""
    return request_class.dump is None and request_class.closed is None


def driven_freely(rows: pd.DataFrame) -> Bools:
    """Which rows of `request_table` are sent whatever became of others: neither in a closed loop nor capped."""
    free: Bools = ~(rows["closed"].to_numpy(dtype=bool) | rows["capped"].to_numpy(dtype=bool))
    return free


def request_table(tables: SweepTables, config: SweepConfig) -> pd.DataFrame:
    """Raw rows, sorted by (cell, scheduled_ns), index 0..n-1, plus:

    ttft_ms              open loop y_1 - s, closed loop y_1 - x (s scheduled, x sent, y_i chunk arrivals)
    ttft_from_send_ms    y_1 - x                         ttft_answer_ms   like ttft_ms, first *answer* text
    last_chunk_ns        y_m                             e2e_ms           y_m - s          end_ms   end of stream - s
    tpot_ms              (y_m - y_1) / (n - 1); null for n <= 1, one chunk, or a buffered stream
    gap_mean_ms, gap_p99_ms (nearest rank over the request's own gaps), gap_max_ms; null without gaps or when buffered
    waited_ms            time without a first token of a request that never got one, else null
    send_lag_ms          x - s                           connect_ms       TCP + TLS set-up, 0 on a reused connection
    in_window            scheduled inside the measured window
    completed, failed, rejected, cancelled   exactly one is true
    closed, capped       how its class is driven in this cell
    latency_counts       completed and not a cold model load: enters percentiles
    buffered             the answer came in one piece: no gap can be known (rule: request_object.request_flags)
    """
    rows = tables.requests.sort_values(["cell", "scheduled_ns"], kind="stable").reset_index(drop=True)
    rows = rows.assign(**_outcomes(rows), **_driven(rows, tables.cells, config))
    rows = rows.assign(**_times(rows))
    cold = floats(rows["load_ms"]) > COLD_LOAD_MS
    rows["latency_counts"] = rows["completed"].to_numpy(dtype=bool) & ~cold
    rows.columns = rows.columns.astype(object)  # names of pandas' own kind of text make each look-up twice as long
    return rows


def _outcomes(rows: pd.DataFrame) -> dict[str, Bools]:
    outcome = rows["outcome"].to_numpy(dtype=object)
    kind = rows["error_kind"].to_numpy(dtype=object)
    completed: Bools = np.equal(outcome, "ok").astype(bool)
    cancelled: Bools = np.equal(outcome, "cancelled").astype(bool)
    rejected: Bools = np.isin(kind.astype(str), REJECTED_KINDS) & ~completed & ~cancelled
    return {
        "completed": completed,
        "cancelled": cancelled,
        "rejected": rejected,
        "failed": ~(completed | cancelled | rejected),
    }


def _driven(rows: pd.DataFrame, cells: pd.DataFrame, config: SweepConfig) -> dict[str, Bools]:
    cell = rows["cell"].to_numpy(dtype=np.int64)
    name = rows["class_name"].to_numpy(dtype=object).astype(str)
    scheduled = floats(rows["scheduled_ns"])
    out = {key: np.zeros(len(rows), dtype=bool) for key in ("closed", "capped", "in_window")}
    starts, ends = floats(cells["window_start_ns"]), floats(cells["window_end_ns"])
    for number, load, start, end in zip(cells["cell"], cells["load"], starts, ends, strict=True):
        here = cell == int(number)
        for c in config.classes:
            of_class = here & (name == c.name)
            out["closed"][of_class] = is_closed(c, load)
            out["capped"][of_class] = is_capped(c, load)
        # a cell that died has a window without an end: what was scheduled in it still counts as asked for
        out["in_window"] |= here & (scheduled >= start) & (scheduled < (np.inf if np.isnan(end) else end))
    return out


def _times(rows: pd.DataFrame) -> dict[str, Floats | Bools]:
    scheduled, sent = floats(rows["scheduled_ns"]), floats(rows["sent_ns"])
    first, end = floats(rows["first_chunk_ns"]), floats(rows["end_ns"])
    closed = rows["closed"].to_numpy(dtype=bool)
    base = np.where(closed & ~np.isnan(sent), sent, scheduled)
    gaps = gap_sums(rows)
    events, tokens = floats(rows["token_events"]), floats(rows["output_tokens"])
    spread_us = gaps.spread_us
    buffered = rows["completed"].to_numpy(dtype=bool) & _one_piece(rows, events, tokens, spread_us)
    last = first + spread_us * 1000.0
    no_gaps = buffered | (gaps.count == 0)
    tpot = (last - first) / 1e6 / np.where(tokens > 1, tokens - 1, np.nan)
    connect = np.nan_to_num(floats(rows["connect_ns"])) + np.nan_to_num(floats(rows["tls_ns"]))
    return {
        "ttft_ms": (first - base) / 1e6,
        "ttft_from_send_ms": (first - sent) / 1e6,
        "ttft_answer_ms": (floats(rows["first_answer_ns"]) - base) / 1e6,
        "waited_ms": np.where(np.isnan(first), (end - base) / 1e6, np.nan),
        "last_chunk_ns": last,
        "e2e_ms": (last - scheduled) / 1e6,
        "end_ms": (end - scheduled) / 1e6,
        "tpot_ms": np.where(no_gaps, np.nan, tpot),
        "gap_mean_ms": np.where(no_gaps, np.nan, spread_us / 1000.0 / np.maximum(gaps.count, 1)),
        "gap_p99_ms": np.where(no_gaps, np.nan, gaps.p99_ms),
        "gap_max_ms": np.where(no_gaps, np.nan, gaps.longest_ms),
        "send_lag_ms": (sent - scheduled) / 1e6,
        "connect_ms": connect / 1e6,
        "buffered": buffered,
    }


def _one_piece(rows: pd.DataFrame, events: Floats, tokens: Floats, spread_us: Floats) -> Bools:
    """The rule of `request_flags` for stream_buffered, for all rows at once."""
    unended = ~rows["saw_terminator"].to_numpy(dtype=bool)
    together = (events > 1) & (spread_us < BUFFERED_US_PER_CHUNK * (events - 1))
    single: Bools = (events == 1) & (tokens > 1) & ((tokens >= BUFFERED_TOKENS) | unended)
    return together | single
