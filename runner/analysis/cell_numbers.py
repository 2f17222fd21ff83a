"""Counts, rates and percentiles of one cell's rows: all of them, or those of one class."""

from copy import deepcopy
from typing import Any

import numpy as np
import pandas as pd

from runner.analysis.bootstrap import blocks_of, rate_interval, window_needed_s
from runner.analysis.gaps import Gaps
from runner.analysis.percentiles import percentiles_with_intervals
from runner.analysis.requests import floats
from runner.analysis.throughput import mean_answer_s, output_slices, throughput

LATENCIES = ("ttft_ms", "tpot_ms", "e2e_ms")
RATES = ("output_tok_per_s", "prompt_tok_per_s", "request_per_s", "offered_rate")


def cell_numbers(rows: pd.DataFrame, gaps: Gaps, span: tuple[float, float] | None, crowd: float) -> dict[str, Any]:
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


def class_numbers(
    rows: pd.DataFrame, gaps: Gaps, whole: dict[str, Any], name: str, span: tuple[float, float] | None, crowd: float
) -> dict[str, Any]:
    """`cell_numbers` of one class of a cell; a class that is alone has the cell's own."""
    mine = np.equal(rows["class_name"].to_numpy(dtype=object), name).astype(bool)
    if mine.all():
        return deepcopy(whole)
    return cell_numbers(rows[mine], gaps.of_rows(mine), span, crowd)


def kernel_stamp_share(rows: pd.DataFrame) -> float | None:
    """Share of reads with text whose time is the kernel's; null without any."""
    reads = float((floats(rows["token_events"]) - floats(rows["shared_stamps"])).sum())
    return 1.0 - float(floats(rows["user_stamps"]).sum()) / reads if reads > 0 else None


def _unmeasured() -> dict[str, Any]:
    return {
        **dict.fromkeys(RATES),
        **dict.fromkeys(("output_tok_per_s_low", "output_tok_per_s_high")),
        "needs": {},
        **{key: percentiles_with_intervals(np.zeros(0)) for key in ("ttft_ms", "gap_ms", "tpot_ms", "e2e_ms")},
    }


def _output_interval(rows: pd.DataFrame, gaps: Gaps, span: tuple[float, float]) -> dict[str, Any]:
    """The interval of output_tok_per_s; where the window is too short for one, null and how long it must be."""
    window_s, answer_s = (span[1] - span[0]) / 1e9, mean_answer_s(rows)
    blocks = blocks_of(window_s, answer_s)
    if blocks is None:
        needed = {} if np.isnan(answer_s) else {"window_s": window_needed_s(answer_s)}
        return {"output_tok_per_s_low": None, "output_tok_per_s_high": None, "needs": needed}
    low, high = rate_interval(output_slices(rows, gaps, *span), blocks, window_s)
    return {"output_tok_per_s_low": low, "output_tok_per_s_high": high, "needs": {}}
