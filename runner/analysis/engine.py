"""What the server said of itself inside the window, and what the streams alone say of its concurrency."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from runner.analysis.gaps import Floats, Ints
from runner.analysis.requests import floats

COUNTERS = (
    "num_preemptions_total", "prompt_tokens_total", "generation_tokens_total", "iterations_total",
    "iteration_tokens_total", "iteration_seqs_total", "rejected_total", "queue_time_s_total", "queue_time_count",
    "prefix_cache_queries_total", "prefix_cache_hits_total", "ttft_s_total", "ttft_count", "itl_s_total", "itl_count",
)  # fmt: skip
# a frame costs thirty times what a mapping does each time one of its columns is asked for
Samples = pd.DataFrame | Mapping[str, "pd.Series[Any]"]
START_JITTER_S = 1.5  # a process tells its own start to the second

FULL_KV = 0.95  # of the blocks: what is left is too little for the next prompt

NO_ENGINE: dict[str, Any] = {
    **dict.fromkeys(
        (
            "running_mean", "running_max", "waiting_mean", "waiting_max", "kv_cache_usage_mean", "kv_cache_usage_max",
            "running_at_full_kv", "swapped_max", "num_preemptions", "batch_tokens_mean", "batch_tokens_max",
            "batch_tokens_at_most", "batch_seqs_mean", "batch_seqs_max", "queue_time_mean_s", "server_ttft_mean_s",
            "server_itl_mean_s", "rejected", "engines", "seats",
        )
    ),
    "source": "none",
    "streams_mean": None,
    "streams_max": None,
    "arrivals_together_mean": None,
    "arrivals_together_max": None,
    "client_ttft_mean_s": None,  # from send: what server_ttft_mean_s is to be compared with
}  # fmt: skip


def engine_numbers(samples: Samples, start_ns: float, end_ns: float) -> dict[str, Any]:
    """The `engine` object of a cell from its samples. Gauges are held from each sample to the next; counters are
    increases from the last sample before the window to the last one inside. Null where the server does not tell.

    kv_cache_usage_max is of the fullest engine, running_at_full_kv the most that ran while it was full;
    batch_tokens_max and batch_seqs_max are of the fullest interval between two samples, a mean over its steps;
    batch_tokens_at_most is the bound of the server's own histogram that no step exceeded.
    """
    at = floats(samples["at_ns"])
    inside = (at >= start_ns) & (at < end_ns)
    grown = {name: increase(samples, name, start_ns, end_ns) for name in COUNTERS}
    sources = [s for s in samples["source"][inside] if s not in (None, "none")]
    preemptions, rejected = grown["num_preemptions_total"], grown["rejected_total"]
    fullest = fullest_kv(samples)
    running = floats(samples["running"])
    steps = _steps(samples, "iterations_total", start_ns, end_ns)
    return {
        "running_mean": _held_mean(at, running, start_ns, end_ns),
        "running_max": _max(running[inside]),
        "waiting_mean": _held_mean(at, floats(samples["waiting"]), start_ns, end_ns),
        "waiting_max": _max(floats(samples["waiting"])[inside]),
        "kv_cache_usage_mean": _held_mean(at, floats(samples["kv_cache_usage"]), start_ns, end_ns),
        "kv_cache_usage_max": _max(fullest[inside]),
        "running_at_full_kv": _max(running[inside & (fullest >= FULL_KV)]),
        "swapped_max": _max(floats(samples["swapped"])[inside]),
        "num_preemptions": None if preemptions is None else round(preemptions),
        "batch_tokens_mean": _ratio(grown["iteration_tokens_total"], grown["iterations_total"]),
        "batch_tokens_max": _most(_steps(samples, "iteration_tokens_total", start_ns, end_ns), steps),
        "batch_tokens_at_most": _no_step_above(samples, start_ns, end_ns),
        "batch_seqs_mean": _ratio(grown["iteration_seqs_total"], grown["iterations_total"]),
        "batch_seqs_max": _most(_steps(samples, "iteration_seqs_total", start_ns, end_ns), steps),
        "queue_time_mean_s": _ratio(grown["queue_time_s_total"], grown["queue_time_count"]),
        "server_ttft_mean_s": _ratio(grown["ttft_s_total"], grown["ttft_count"]),
        "server_itl_mean_s": _ratio(grown["itl_s_total"], grown["itl_count"]),
        "rejected": None if rejected is None else round(rejected),
        "engines": _whole(_max(floats(samples["engines"])[inside])),
        "seats": _whole(_max(floats(samples["seats"])[inside])),
        "source": sources[0] if sources else "none",
    }


def _no_step_above(samples: Samples, start_ns: float, end_ns: float) -> float | None:
    """The smallest bucket bound with all of the window's steps at or below it; null if only the last, endless one."""
    at, texts = floats(samples["at_ns"]), samples["iteration_tokens_buckets"].to_numpy(dtype=object)
    told = np.array([isinstance(t, str) for t in texts], dtype=bool)
    before, inside = np.flatnonzero(told & (at < start_ns)), np.flatnonzero(told & (at >= start_ns) & (at < end_ns))
    if not len(inside):
        return None
    last = json.loads(texts[inside[-1]])
    first = json.loads(texts[before[-1] if len(before) else inside[0]])
    grown = {float(bound): n - first.get(bound, 0.0) for bound, n in last.items()}
    if min(grown.values()) < 0:  # the server restarted in between
        grown = {float(bound): n for bound, n in last.items()}
    steps = grown.get(math.inf, 0.0)
    return min((bound for bound, n in grown.items() if steps > 0 and n >= steps and bound < math.inf), default=None)


def as_samples(frame: pd.DataFrame) -> Samples:
    """The columns of engine samples by name."""
    return {str(name): frame[name] for name in frame}


def fullest_kv(samples: Samples) -> Floats:
    """Share of the KV cache in use on the fullest engine, per sample; sweeps of an older version have the mean only."""
    most = floats(samples["kv_cache_usage_max"])
    return np.where(np.isnan(most), floats(samples["kv_cache_usage"]), most)


def increase(samples: Samples, name: str, start_ns: float, end_ns: float) -> float | None:
    """Growth of a counter over the window, never negative: after a reset (the server restarted) it counts on from 0."""
    steps = _steps(samples, name, start_ns, end_ns)
    return float(steps.sum()) if len(steps) and not np.isnan(steps).all() else None


def _steps(samples: Samples, name: str, start_ns: float, end_ns: float) -> Floats:
    """Growth from each sample to the next, from the last one before the window to the last one inside.

    A counter that a page does not show yet (many servers show it from its first event on) is 0 until it appears.
    When one of several engines restarts, the rest of their sum is no growth: such a step counts as 0.
    """
    at = floats(samples["at_ns"])
    values = _counter(samples, name)
    known = ~np.isnan(values) & (at < end_ns)
    chosen = np.concatenate([np.flatnonzero(known & (at < start_ns))[-1:], np.flatnonzero(known & (at >= start_ns))])
    steps = np.diff(values[chosen])
    several = floats(samples["engines"])[chosen][1:] > 1
    return np.where(steps >= 0, steps, np.where(several, 0.0, values[chosen][1:]))


def _counter(samples: Samples, name: str) -> Floats:
    values = floats(samples[name]).copy()
    shown = np.flatnonzero(~np.isnan(values))
    if len(shown):
        told = samples["source"].to_numpy(dtype=object) == "metrics"
        early = np.arange(len(values)) < shown[0]
        values[early & told] = 0.0
    return values


def restarted(samples: Samples) -> bool:
    """True if any counter fell, which lifetime totals only do when the server starts anew, or if the server dates the
    start of its process otherwise than before."""
    starts = floats(samples["server_start_s"])
    starts = starts[~np.isnan(starts)]
    if len(starts) and float(starts.max() - starts.min()) > START_JITTER_S:
        return True
    for name in COUNTERS:
        values = floats(samples[name])
        values = values[~np.isnan(values)]
        if (np.diff(values) < 0).any():
            return True
    return False


def share_at_least(samples: Samples, name: str, level: float, start_ns: float, end_ns: float) -> float | None:
    """Share of the window in which the gauge, held from sample to sample, was at that level or above."""
    values = floats(samples[name])
    return _held_mean(floats(samples["at_ns"]), np.where(np.isnan(values), np.nan, values >= level), start_ns, end_ns)


def concurrency(starts: Floats, ends: Floats, start_ns: float, end_ns: float) -> tuple[float, int]:
    """Time-weighted mean and maximum, over the window, of how many [start, end) are open; NaN ones never are."""
    at, open_now = _open_spans(starts, ends, start_ns, end_ns)
    if not len(at):
        return 0.0, 0
    return float((np.diff(at) * open_now[:-1]).sum() / (end_ns - start_ns)), int(open_now.max())


def full_step_share(samples: Samples, tokens: float, start_ns: float, end_ns: float) -> float | None:
    """Share of the window in intervals between samples whose steps held that many tokens or more on average; null where
    the server does not count both."""
    at = floats(samples["at_ns"])
    held, steps = _counter(samples, "iteration_tokens_total"), _counter(samples, "iterations_total")
    known = ~np.isnan(held) & ~np.isnan(steps)
    at, held, steps = at[known], np.diff(held[known]), np.diff(steps[known])
    if not len(steps):
        return None
    lengths = np.diff(np.clip(at, start_ns, end_ns))
    return float(lengths[(steps > 0) & (held >= tokens * steps)].sum() / (end_ns - start_ns))


def busy_share(starts: Floats, ends: Floats, level: float, start_ns: float, end_ns: float) -> float:
    """Share of the window in which at least `level` (1 or more) of the [start, end) were open at once."""
    at, open_now = _open_spans(starts, ends, start_ns, end_ns)
    return float(np.diff(at)[open_now[:-1] >= level].sum() / (end_ns - start_ns)) if len(at) else 0.0


def _open_spans(starts: Floats, ends: Floats, start_ns: float, end_ns: float) -> tuple[Floats, Ints]:
    """Times at which the number of open spans changes, in order, and the number from then on."""
    known = ~(np.isnan(starts) | np.isnan(ends))
    a, b = np.clip(starts[known], start_ns, end_ns), np.clip(ends[known], start_ns, end_ns)
    a, b = a[b > a], b[b > a]
    change = np.repeat([1, -1], len(a))
    # an end at the same instant as a start comes first: the place was free again
    order = np.lexsort((change, np.concatenate([a, b])))
    return np.concatenate([a, b])[order], np.cumsum(change[order])


def streams(rows: pd.DataFrame, start_ns: float, end_ns: float) -> dict[str, Any]:
    """Streams between first and last token: concurrency as the client sees it, whatever the server tells."""
    mean, most = concurrency(floats(rows["first_chunk_ns"]), floats(rows["last_chunk_ns"]), start_ns, end_ns)
    return {"streams_mean": mean, "streams_max": most}


def prefix_cache_hit_share(rows: pd.DataFrame, samples: Samples, start_ns: float, end_ns: float) -> float | None:
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


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _most(tops: Floats, bottoms: Floats) -> float | None:
    """The largest ratio of two growths over the same interval; null if they were not told together."""
    if len(tops) != len(bottoms) or not (bottoms > 0).any():
        return None
    return float((tops[bottoms > 0] / bottoms[bottoms > 0]).max())


def _ratio(top: float | None, bottom: float | None) -> float | None:
    return top / bottom if top is not None and bottom else None
