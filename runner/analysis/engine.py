"""What the server said of itself inside the window, and what the streams alone say of its concurrency."""

from typing import Any

import numpy as np
import pandas as pd

from runner.analysis.gaps import Floats
from runner.analysis.requests import floats

COUNTERS = (
    "num_preemptions_total", "prompt_tokens_total", "generation_tokens_total", "iterations_total",
    "iteration_tokens_total", "iteration_seqs_total", "rejected_total", "queue_time_s_total", "queue_time_count",
    "prefix_cache_queries_total", "prefix_cache_hits_total",
)  # fmt: skip

NO_ENGINE: dict[str, Any] = {
    **dict.fromkeys(
        (
            "running_mean", "running_max", "waiting_max", "kv_cache_usage_max", "num_preemptions", "batch_tokens_mean",
            "batch_seqs_mean", "queue_time_mean_s", "rejected",
        )
    ),
    "source": "none",
    "streams_mean": None,
    "streams_max": None,
}  # fmt: skip


def engine_numbers(samples: pd.DataFrame, start_ns: float, end_ns: float) -> dict[str, Any]:
    """The `engine` object of a cell from its samples. Gauges are held from each sample to the next; counters are
    increases from the last sample before the window to the last one inside. Null where the server does not tell.
    """
    at = floats(samples["at_ns"])
    inside = (at >= start_ns) & (at < end_ns)
    grown = {name: increase(samples, name, start_ns, end_ns) for name in COUNTERS}
    sources = [s for s in samples["source"][inside] if s not in (None, "none")]
    preemptions, rejected = grown["num_preemptions_total"], grown["rejected_total"]
    return {
        "running_mean": _held_mean(at, floats(samples["running"]), start_ns, end_ns),
        "running_max": _max(floats(samples["running"])[inside]),
        "waiting_max": _max(floats(samples["waiting"])[inside]),
        "kv_cache_usage_max": _max(floats(samples["kv_cache_usage"])[inside]),
        "num_preemptions": None if preemptions is None else round(preemptions),
        "batch_tokens_mean": _ratio(grown["iteration_tokens_total"], grown["iterations_total"]),
        "batch_seqs_mean": _ratio(grown["iteration_seqs_total"], grown["iterations_total"]),
        "queue_time_mean_s": _ratio(grown["queue_time_s_total"], grown["queue_time_count"]),
        "rejected": None if rejected is None else round(rejected),
        "source": sources[0] if sources else "none",
    }


def increase(samples: pd.DataFrame, name: str, start_ns: float, end_ns: float) -> float | None:
    """Growth of a counter over the window; after a reset (the server restarted) it counts on from 0."""
    at, values = floats(samples["at_ns"]), floats(samples[name])
    known = ~np.isnan(values) & (at < end_ns)
    before = np.flatnonzero(known & (at < start_ns))
    inside = np.flatnonzero(known & (at >= start_ns))
    chosen = values[np.concatenate([before[-1:], inside])]
    if len(chosen) < 2:
        return None
    steps = np.diff(chosen)
    return float(np.where(steps >= 0, steps, chosen[1:]).sum())


def restarted(samples: pd.DataFrame) -> bool:
    """True if any counter fell: lifetime totals only do so when the server starts anew."""
    for name in COUNTERS:
        values = floats(samples[name])
        values = values[~np.isnan(values)]
        if (np.diff(values) < 0).any():
            return True
    return False


def concurrency(starts: Floats, ends: Floats, start_ns: float, end_ns: float) -> tuple[float, int]:
    """Time-weighted mean and maximum, over the window, of how many [start, end) are open; NaN ones never are."""
    known = ~(np.isnan(starts) | np.isnan(ends))
    a, b = np.clip(starts[known], start_ns, end_ns), np.clip(ends[known], start_ns, end_ns)
    a, b = a[b > a], b[b > a]
    if not len(a):
        return 0.0, 0
    # an end at the same instant as a start comes first: the place was free again
    order = np.lexsort((np.repeat([1, -1], len(a)), np.concatenate([a, b])))
    return float((b - a).sum() / (end_ns - start_ns)), int(np.cumsum(np.repeat([1, -1], len(a))[order]).max())


def streams(rows: pd.DataFrame, start_ns: float, end_ns: float) -> dict[str, Any]:
    """Streams between first and last token: concurrency as the client sees it, whatever the server tells."""
    mean, most = concurrency(floats(rows["first_chunk_ns"]), floats(rows["last_chunk_ns"]), start_ns, end_ns)
    return {"streams_mean": mean, "streams_max": most}


def prefix_cache_hit_share(rows: pd.DataFrame, samples: pd.DataFrame, start_ns: float, end_ns: float) -> float | None:
    """Share of prompt tokens served from the prefix cache: the server's counters, else what the answers told."""
    queries = increase(samples, "prefix_cache_queries_total", start_ns, end_ns)
    hits = increase(samples, "prefix_cache_hits_total", start_ns, end_ns)
    if queries and hits is not None:
        return hits / queries
    cached, prompt = floats(rows["cached_prompt_tokens"]), floats(rows["prompt_tokens"])
    told = ~np.isnan(cached) & (prompt > 0)
    return float(cached[told].sum() / prompt[told].sum()) if told.any() else None


def _held_mean(at: Floats, values: Floats, start_ns: float, end_ns: float) -> float | None:
    known = ~np.isnan(values) & (at < end_ns)
    at, values = at[known], values[known]
    if not (at >= start_ns).any():
        return None
    edges = np.clip(np.append(at, end_ns), start_ns, end_ns)
    held = np.diff(edges)
    return float((values * held).sum() / held.sum()) if held.sum() else float(values[-1])


def _max(values: Floats) -> float | None:
    values = values[~np.isnan(values)]
    return float(values.max()) if len(values) else None


def _ratio(top: float | None, bottom: float | None) -> float | None:
    return top / bottom if top is not None and bottom else None
