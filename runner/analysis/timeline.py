"""Distributions as few points, and the last seconds of a cell: what figures and the live page draw."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from runner.analysis.gaps import Floats
from runner.analysis.percentiles import nearest_rank
from storage.records import RequestRecord

MOST_POINTS = 120


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
