"""Sweeps against a paced server, and what its log says of the same window as the result does."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd

from runner.config import SweepConfig, parse_sweep


def paced_config(
    url: str, *, duration_s: float, tokens: int, grid: Mapping[str, Any], warmup_s: float = 0.5, **run: object
) -> SweepConfig:
    """One class of answers of `tokens` each. `grid`: one load axis; `run`: more keys of that table."""
    return parse_sweep(
        {
            "name": "paced",
            "backend": {"kind": "openai", "url": url, "api": "openai_chat"},
            "grid": grid,
            "run": {"duration_s": duration_s, "warmup_s": warmup_s, "drain_s": 10.0, **run},
            "classes": [
                {
                    "name": "chat",
                    "weight": 1,
                    "prompt_tokens": 16,
                    "output_tokens": tokens,
                    "slo": {"ttft_ms": 1000, "gap_ms": 500},
                }
            ],
        },
        "test",
    )


def truth_in_window(log: Mapping[str, Any], cell: pd.Series) -> tuple[list[float], list[float]]:
    """(TTFT, gaps) in ms of the requests that the server received in the cell's measured window."""
    start = int(cell["started_unix_ns"]) + int(cell["window_start_ns"])
    end = int(cell["started_unix_ns"]) + int(cell["window_end_ns"])
    inside = [r for r in log["requests"] if start <= r["received_ns"] < end and r["sent_ns"]]
    ttft = [(r["sent_ns"][0] - r["received_ns"]) / 1e6 for r in inside]
    return ttft, [(b - a) / 1e6 for r in inside for a, b in pairwise(r["sent_ns"])]


def nearest_rank(values: Sequence[float], share: float) -> float:
    """The smallest value with at least `share` of all at or below it."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
