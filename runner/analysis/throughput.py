"""Work per second inside the measured window."""

import math
from typing import Any

import numpy as np
import pandas as pd

from runner.analysis.bootstrap import SLICES, slices_at
from runner.analysis.gaps import Floats, Gaps
from runner.analysis.requests import floats


def throughput(rows: pd.DataFrame, gaps: Gaps, start_ns: float, end_ns: float) -> dict[str, Any]:
    """output_tok_per_s, prompt_tok_per_s, request_per_s, offered_rate of one cell's rows (all of them, also those that
    were scheduled in the warm-up: their tokens may arrive inside the window). `gaps`: those of exactly these rows.

    Output tokens count when their chunk arrives inside the window, output_tokens / token_events to each chunk; prompt
    tokens when their request's first chunk does. Tokens of requests cut by our own end of run were really produced and
    count; those of failed requests do not.
    """
    window_s = (end_ns - start_ns) / 1e9
    counts = rows["completed"].to_numpy(dtype=bool) | rows["cancelled"].to_numpy(dtype=bool)
    at_ns, tokens = output_arrivals(rows, gaps)
    output = float(tokens[(at_ns >= start_ns) & (at_ns < end_ns)].sum())
    with np.errstate(invalid="ignore"):
        first = floats(rows["first_chunk_ns"])
        first_inside = counts & (first >= start_ns) & (first < end_ns)
        end = np.where(np.isnan(floats(rows["end_ns"])), rows["last_chunk_ns"], floats(rows["end_ns"]))
        ended_inside = rows["completed"].to_numpy(dtype=bool) & (end >= start_ns) & (end < end_ns)
    prompt_tokens = floats(rows["prompt_tokens"])
    prompt = np.where(np.isnan(prompt_tokens), floats(rows["prompt_tokens_asked"]), prompt_tokens)
    return {
        "output_tok_per_s": output / window_s,
        "prompt_tok_per_s": float(prompt[first_inside].sum()) / window_s,
        "request_per_s": int(ended_inside.sum()) / window_s,
        "offered_rate": int(rows["in_window"].sum()) / window_s,
    }


def output_arrivals(rows: pd.DataFrame, gaps: Gaps) -> tuple[Floats, Floats]:
    """(arrival in ns, tokens) of every chunk that `throughput` counts, in no particular order."""
    counts = rows["completed"].to_numpy(dtype=bool) | rows["cancelled"].to_numpy(dtype=bool)
    events, tokens = floats(rows["token_events"]), floats(rows["output_tokens"])
    with np.errstate(invalid="ignore", divide="ignore"):
        per_chunk = np.where(np.isnan(tokens) | (events == 0), 1.0, tokens / events)
    first = floats(rows["first_chunk_ns"])
    begun, later = counts & ~np.isnan(first), counts[gaps.row]
    at_ns = np.concatenate([first[begun], gaps.at_ns[later]])
    return at_ns, np.concatenate([per_chunk[begun], per_chunk[gaps.row[later]]])


def output_slices(rows: pd.DataFrame, gaps: Gaps, start_ns: float, end_ns: float) -> Floats:
    """(SLICES,) the output tokens of `throughput` by equal parts of the window."""
    at_ns, tokens = output_arrivals(rows, gaps)
    inside = (at_ns >= start_ns) & (at_ns < end_ns)
    place = slices_at(at_ns[inside], start_ns, end_ns)
    return np.bincount(place, weights=tokens[inside], minlength=SLICES).astype(np.float64)


def mean_answer_s(rows: pd.DataFrame) -> float:
    """Mean time from scheduled arrival to the last chunk of the window's completed requests; NaN without any."""
    chosen = rows["in_window"].to_numpy(dtype=bool) & rows["completed"].to_numpy(dtype=bool)
    took_ms = rows["e2e_ms"].to_numpy(dtype=np.float64)[chosen]
    took_ms = took_ms[~np.isnan(took_ms)]
    return float(took_ms.mean()) / 1e3 if len(took_ms) else math.nan
