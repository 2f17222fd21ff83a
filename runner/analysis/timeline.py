"""One cell over time, and distributions as few points: what figures and the live page draw."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from runner.analysis.gaps import Floats, gap_table
from runner.analysis.percentiles import nearest_rank
from runner.analysis.requests import floats
from storage.records import RequestRecord

MOST_POINTS = 120


def per_second(rows: pd.DataFrame, *, step_s: float = 1.0) -> pd.DataFrame:
    """Percentiles of one cell's rows of `request_table` by time: at_s (start of the step since the cell's origin),
    ttft_p50_ms, ttft_p95_ms (by arrival of the first token), gap_p50_ms, gap_p95_ms, tokens (chunks that arrived),
    ok and failed (attempts that ended). Plain quantiles, no rule on n; NaN where a step holds nothing.
    """
    gaps = gap_table(rows)
    answered = rows["latency_counts"].to_numpy(dtype=bool)
    streamed = answered & ~rows["buffered"].to_numpy(dtype=bool)
    kept = streamed[gaps.row]
    first, end = _step(floats(rows["first_chunk_ns"]), step_s), _step(floats(rows["end_ns"]), step_s)
    chunk = _step(gaps.at_ns, step_s)
    steps = np.arange(0, int(np.nanmax(np.concatenate([first, end, chunk, [0.0]]))) + 1)
    ttft = rows["ttft_ms"].to_numpy(dtype=np.float64)
    completed = rows["completed"].to_numpy(dtype=bool)
    failed = rows["failed"].to_numpy(dtype=bool) | rows["rejected"].to_numpy(dtype=bool)
    columns: dict[str, Any] = {"at_s": steps * step_s}
    for name, at, values in (
        ("ttft", first[answered], ttft[answered]),
        ("gap", chunk[kept], gaps.gap_ms[kept]),
    ):
        found = pd.Series(values).groupby(at).quantile(np.array([0.5, 0.95])).unstack().reindex(steps)
        columns |= {f"{name}_p{round(100 * q)}_ms": found[q].to_numpy() if q in found else np.nan for q in (0.5, 0.95)}
    columns["tokens"] = _count(np.concatenate([first, chunk]), len(steps))
    columns["ok"], columns["failed"] = _count(end[completed], len(steps)), _count(end[failed], len(steps))
    return pd.DataFrame(columns)


def ecdf(values: Floats, most_points: int = MOST_POINTS) -> pd.DataFrame:
    """value and share (of the values that do not exceed it): at most `most_points` rows, first and last included.

    Evenly spaced in share, but half of the points lie in the upper tenth, where targets are decided.
    """
    known = np.sort(values[~np.isnan(values)])
    n = len(known)
    if n > most_points:
        lower = np.linspace(0.0, 0.9, most_points // 2, endpoint=False)
        share = np.concatenate([lower, np.linspace(0.9, 1.0, most_points - most_points // 2)])
        rank = np.unique(np.clip(np.ceil(share * n).astype(np.int64), 1, n))
    else:
        rank = np.arange(1, n + 1)
    return pd.DataFrame({"value": known[rank - 1], "share": rank / max(n, 1)})


def live_summary(records: Sequence[RequestRecord], closed_classes: Sequence[str] = ()) -> dict[str, float | None]:
    """ttft_p50_ms, ttft_p95_ms, gap_p50_ms, gap_p95_ms of the records given (those of the last seconds).

    The same definitions as in the result, but plain nearest-rank quantiles without a rule on n: a live reading.
    Failed and cancelled requests do not enter.
    """
    answered = [r for r in records if r.outcome == "ok" and r.first_chunk_ns is not None]
    ttft = np.array([_ttft_ms(r, r.class_name in closed_classes) for r in answered], dtype=np.float64)
    gaps = np.array([d / 1000 for r in answered for d in r.chunk_deltas_us], dtype=np.float64)
    return {
        f"{name}_p{round(100 * q)}_ms": nearest_rank(values, q) if len(values) else None
        for name, values in (("ttft", ttft), ("gap", gaps))
        for q in (0.50, 0.95)
    }


def _ttft_ms(record: RequestRecord, closed: bool) -> float:
    base = record.sent_ns if closed and record.sent_ns is not None else record.scheduled_ns
    return ((record.first_chunk_ns or 0) - base) / 1e6


def _step(at_ns: Floats, step_s: float) -> Floats:
    return np.floor(at_ns / (step_s * 1e9))


def _count(steps: Floats, length: int) -> Floats:
    known = steps[(steps >= 0) & (steps < length)].astype(np.int64)
    return np.bincount(known, minlength=length).astype(np.float64)
