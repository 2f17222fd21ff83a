"""A point's measured windows cut into sections of time, and what resampling whole sections tells of its numbers.

Requests that are close in time share a queue and a batch, so they are not independent; sections of several seconds
nearly are (block bootstrap with non-overlapping blocks, Carlstein 1986). Where two sides had the same arrivals the same
sections are drawn on both, and what the arrivals do to both drops out of the difference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from runner.analysis.gaps import Bools, Floats, Ints, gap_table
from runner.analysis.percentiles import nearest_rank, needs
from runner.analysis.requests import floats
from runner.analysis.sides import Run
from runner.analysis.throughput import output_arrivals

MOST_SECTIONS, FEWEST_SECTIONS = 20, 6
REQUESTS_EACH = 3
RESAMPLES = 400
STEPS = 256  # places between which a resampled percentile is read
QUANTILES = {"ttft_p50_ms": ("ttft", 0.50), "ttft_p95_ms": ("ttft", 0.95), "gap_p95_ms": ("gap", 0.95)}
METRICS = ("share", "goodput_per_s", *QUANTILES, "output_tok_per_s")
FEWEST_REQUESTS = FEWEST_SECTIONS * REQUESTS_EACH
Weights = Floats  # (times, sections): how often each section counts


@dataclass(frozen=True)
class Sections:
    """K sections of one side, run after run. Values lie flat beside the section they belong to."""

    run: Ints  # (K,)
    seconds: Floats
    met: Floats
    judged: Floats
    tokens: Floats
    values: Mapping[str, Floats]  # "ttft": ms of the answers that count; "gap": ms of their gaps
    places: Mapping[str, Ints]  # section of each value

    def count(self, metric: str) -> int:
        """What a metric is of: requests, or gaps."""
        if metric in QUANTILES:
            return len(self.values[QUANTILES[metric][0]])
        return int(self.judged.sum())

    def needed(self, metric: str, has_targets: bool) -> int:
        """Fewest of those for anything to be said."""
        if metric in QUANTILES:
            return needs(QUANTILES[metric][1])
        return FEWEST_REQUESTS if has_targets and metric != "output_tok_per_s" else 0

    def number(self, metric: str) -> float | None:
        """The metric over everything; null where there is nothing."""
        if metric in QUANTILES:
            name, q = QUANTILES[metric]
            return nearest_rank(self.values[name], q) if len(self.values[name]) else None
        if metric == "output_tok_per_s":
            return float(self.tokens.sum() / self.seconds.sum())
        if not self.judged.sum():
            return None
        return float(self.met.sum() / (self.judged if metric == "share" else self.seconds).sum())


def section_count(runs: Sequence[Run], names: Sequence[str]) -> int:
    """Sections of each run: as many as the requests of the poorest one fill, at most 20 over all runs."""
    fewest = min(int((run.rows["in_window"].to_numpy(dtype=bool) & _of(run, names)).sum()) for run in runs)
    most = max(MOST_SECTIONS // len(runs), 2)
    least = max(FEWEST_SECTIONS // len(runs), 2)
    return int(np.clip(fewest // REQUESTS_EACH, least, most))


def cut(runs: Sequence[Run], spans: Sequence[tuple[float, float]], each: int, names: Sequence[str]) -> Sections:
    """`spans`: (from, to) in ns of each run's clock; `each`: sections of a run; `names`: the classes looked at, all
    when empty (tokens are always of everything). Requests belong to the section of their scheduled arrival, tokens to
    that of their own.
    """
    parts = [_cut(run, span, each, names) for run, span in zip(runs, spans, strict=True)]
    columns = {c: np.concatenate([getattr(p, c) for p in parts]) for c in ("seconds", "met", "judged", "tokens")}
    places = {
        name: np.concatenate([p.places[name] + i * each for i, p in enumerate(parts)]) for name in ("ttft", "gap")
    }
    values = {name: np.concatenate([p.values[name] for p in parts]) for name in ("ttft", "gap")}
    return Sections(run=np.repeat(np.arange(len(parts)), each), values=values, places=places, **columns)


def _of(run: Run, names: Sequence[str]) -> Bools:
    mine: Bools = np.isin(run.rows["class_name"].to_numpy(dtype=object).astype(str), list(names))
    return mine if names else np.ones(len(mine), dtype=bool)


def _cut(run: Run, span: tuple[float, float], each: int, names: Sequence[str]) -> Sections:
    rows = run.rows.reset_index(drop=True)
    gaps = gap_table(rows)
    edges = np.linspace(*span, each + 1)
    scheduled = floats(rows["scheduled_ns"])
    inside = (scheduled >= span[0]) & (scheduled < span[1]) & _of(run, names)
    place = np.clip(np.searchsorted(edges, scheduled, side="right") - 1, 0, each - 1)
    at_ns, tokens = output_arrivals(rows, gaps)
    met, judged = run.own.met[run.facts.rows] & inside, run.own.judged[run.facts.rows] & inside
    answered = inside & rows["latency_counts"].to_numpy(dtype=bool) & ~np.isnan(floats(rows["ttft_ms"]))
    streamed = gaps.of_rows(answered & ~rows["buffered"].to_numpy(dtype=bool))
    of_gap = place[answered & ~rows["buffered"].to_numpy(dtype=bool)]
    return Sections(
        run=np.zeros(each, dtype=np.int64),
        seconds=np.diff(edges) / 1e9,
        met=np.bincount(place[met], minlength=each).astype(np.float64),
        judged=np.bincount(place[judged], minlength=each).astype(np.float64),
        tokens=np.histogram(at_ns, bins=edges, weights=tokens)[0],
        values={"ttft": floats(rows["ttft_ms"])[answered], "gap": streamed.gap_ms},
        places={"ttft": place[answered], "gap": of_gap[streamed.row]},
    )


def draw(sections: Sections, seed: int) -> Weights:
    """Weights of resamples: sections of each run with replacement, every run as often as it was measured."""
    return _drawn(tuple(np.bincount(sections.run).tolist()), seed)


@lru_cache(maxsize=64)  # points of a sweep have the same number of sections
def _drawn(counts: tuple[int, ...], seed: int) -> Weights:
    rng = np.random.default_rng(seed)
    parts = [rng.multinomial(n, np.full(n, 1.0 / n), size=RESAMPLES) for n in counts]
    return np.concatenate(parts, axis=1).astype(np.float64)


def each_run(sections: Sections) -> Weights:
    """Weights that single out one run after the other."""
    runs = int(sections.run.max()) + 1
    alone: Weights = (sections.run[None, :] == np.arange(runs)[:, None]).astype(np.float64)
    return alone


def estimates(sections: Sections, weights: Weights, metric: str, steps: Floats) -> Floats:
    """The metric under each row of weights; NaN where that leaves nothing. `steps`: see `steps_of`."""
    with np.errstate(invalid="ignore", divide="ignore"):
        if metric == "share":
            return _parts(weights, sections.met, sections.judged)
        if metric not in QUANTILES:
            return _parts(weights, sections.tokens if metric == "output_tok_per_s" else sections.met, sections.seconds)
    name, q = QUANTILES[metric]
    kinds, k = len(steps), len(sections.seconds)
    step = np.searchsorted(steps, sections.values[name])
    counts = np.bincount(sections.places[name] * kinds + step, minlength=k * kinds).reshape(k, kinds)
    below = weights @ np.cumsum(counts, axis=1)
    rank = np.ceil(np.round(q * below[:, -1], 9))
    found = steps[np.minimum((below < rank[:, None]).sum(axis=1), kinds - 1)]
    out: Floats = np.where(below[:, -1] > 0, found, np.nan)
    return out


def _parts(weights: Weights, counts: Floats, of: Floats) -> Floats:
    parts: Floats = (weights @ counts) / (weights @ of)
    return parts


def steps_of(a: Sections, b: Sections, metric: str) -> Floats:
    """Values at which a percentile of either side is read: all of them, or enough of them evenly by rank."""
    if metric not in QUANTILES:
        return np.zeros(0)
    name = QUANTILES[metric][0]
    known = np.unique(np.concatenate([a.values[name], b.values[name]]))
    if len(known) <= STEPS:
        return known
    pooled = np.sort(np.concatenate([a.values[name], b.values[name]]))
    rank = np.unique(np.linspace(0, len(pooled) - 1, STEPS).round().astype(np.int64))
    return np.unique(pooled[rank])
