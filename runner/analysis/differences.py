"""Is the difference of two points more than noise? One answer a metric, with interval, p value and least size."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from runner.analysis.dependence import Z95
from runner.analysis.gaps import Floats
from runner.analysis.intervals import holm, paired_shares, paired_shares_p_value, wilson
from runner.analysis.sections import METRICS, Sections, cut, draw, each_run, estimates, section_count, steps_of
from runner.analysis.sides import Run, both_judged
from runner.analysis.student import p_value, t95

PROMISES = frozenset({"share", "goodput_per_s"})  # what is asked first
BETTER_WHEN_LESS = frozenset({"ttft_p50_ms", "ttft_p95_ms", "gap_p95_ms"})
OWN_INTERVALS = {"ttft_p50_ms": ("ttft_ms", "p50"), "ttft_p95_ms": ("ttft_ms", "p95")}
# What one start of a server differs from the next by, with nothing changed, is in no interval of one run each.
SMALLEST_PART = 0.05
SMALLEST_SHARE = 0.02
SMALLEST_MS = 1.0
RUNS_TELL = 3  # runs of each side from which their own spread is heeded as well
SIGNIFICANT = 0.05
SEED = 20_070_001


@dataclass(frozen=True)
class Difference:
    """b - a of one metric. p null: too little was measured to say anything; `needs` then says how much would do."""

    metric: str
    a: float | None
    b: float | None
    low: float | None
    high: float | None
    p: float | None
    smallest: float
    n_a: int
    n_b: int
    needs: int | None
    p_adjusted: float | None = None
    class_name: str | None = None  # null: over all classes that are looked at

    @property
    def difference(self) -> float | None:
        return self.b - self.a if self.a is not None and self.b is not None else None

    @property
    def verdict(self) -> str:
        d = self.difference
        if self.p is None or d is None:
            return "cant_tell"
        adjusted = self.p if self.p_adjusted is None else self.p_adjusted
        if adjusted >= SIGNIFICANT or abs(d) < self.smallest:
            return "noise"
        return "better" if (d < 0) == (self.metric in BETTER_WHEN_LESS) else "worse"

    def doubted(self) -> "Difference":
        """Without anything that follows from it: the measurement itself is in doubt."""
        return replace(self, low=None, high=None, p=None)

    def as_dict(self) -> dict[str, Any]:
        d = self.difference
        own = {k: getattr(self, k) for k in ("low", "high", "p", "p_adjusted", "n_a", "n_b", "needs", "smallest")}
        change = d / self.a if d is not None and self.a else None
        return {"a": self.a, "b": self.b, "difference": d, "change": change, **own, "verdict": self.verdict}


def differences(
    pairs: Sequence[tuple[Run, Run]],
    runs: tuple[Sequence[Run], Sequence[Run]],
    names: Sequence[str],
    unsteady: Mapping[str, float],
    metrics: Sequence[str] = METRICS,
) -> list[Difference]:
    """The metrics of one point. `pairs`: runs of the same trace, else empty and the sides are taken for themselves.

    `unsteady`: by metric, how much (as a part) a sweep's own first cell had changed when it was measured again.
    """
    if pairs:
        spans = [(max(a.start_ns, b.start_ns), min(a.end_ns, b.end_ns)) for a, b in pairs]
        both = [a for a, _ in pairs], [b for _, b in pairs]
        each = min(section_count(side, names) for side in both)
        a, b = (cut(side, spans, each, names) for side in both)
    else:
        a, b = (cut(s, [(r.start_ns, r.end_ns) for r in s], section_count(s, names), names) for s in runs)
    in_turns = [run.turn for run in runs[0]] == [run.turn for run in runs[1]]
    found = [_difference(a, b, metric, bool(pairs), in_turns, unsteady.get(metric, 0.0)) for metric in metrics]
    if not pairs:
        return [_no_surer(one, runs, names) for one in found]
    return [_as_shares(one, pairs, names) if one.metric == "share" else one for one in found]


def class_shares(
    pairs: Sequence[tuple[Run, Run]],
    runs: tuple[Sequence[Run], Sequence[Run]],
    names: Sequence[str],
    unsteady: Mapping[str, float],
) -> list[Difference]:
    """The share of each class by itself, where there are several: one that got better must not hide a worse one."""
    alone = {name: differences(pairs, runs, [name], unsteady, ("share",)) for name in names if len(names) > 1}
    return [replace(one, class_name=name) for name, found in alone.items() for one in found]


def _no_surer(one: Difference, runs: tuple[Sequence[Run], Sequence[Run]], names: Sequence[str]) -> Difference:
    """Of one run each: neither side's percentile is known better than by its own interval, which heeds how long crowds
    last; a run that changed in its middle has few sections that tell of it."""
    if one.p is None or one.metric not in OWN_INTERVALS or len(names) != 1 or any(len(side) != 1 for side in runs):
        return one
    key, q = OWN_INTERVALS[one.metric]
    of = [side[0].facts.classes.get(names[0], {}).get(key, {}) for side in runs]
    if not all(of):
        return one
    if any(numbers[f"{q}_low"] is None for numbers in of):
        return replace(one.doubted(), needs=max(numbers["needs"].get(q, 0) for numbers in of) or None)
    error = math.hypot(*(_half_width(numbers, q) for numbers in of)) / Z95
    d = one.difference or 0.0
    if one.low is None or one.high is None or error <= (one.high - one.low) / 2 / Z95:
        return one
    p = math.erfc(abs(d) / error / math.sqrt(2))
    return replace(one, low=d - Z95 * error, high=d + Z95 * error, p=max(one.p, p))


def _half_width(numbers: Mapping[str, Any], q: str) -> float:
    """Of a 95 % interval; where it has no upper end, its lower side twice."""
    low, high = float(numbers[f"{q}_low"]), numbers[f"{q}_high"]
    return (float(high) - low) / 2 if high is not None else float(numbers[q]) - low


def _as_shares(share: Difference, pairs: Sequence[tuple[Run, Run]], names: Sequence[str]) -> Difference:
    """By the table of requests met and missed on both sides as well: the more cautious of the two answers counts.

    Sections know how misses come together in time, the table that pairs which agree prove little.
    """
    met_a, met_b = both_judged(pairs, names)
    if share.p is None or share.low is None or share.high is None or not len(met_a):
        return share
    deff = max(run.deff for pair in pairs for run in pair)
    _, low, high = paired_shares(met_b, met_a, deff)
    p = max(share.p, paired_shares_p_value(met_b, met_a, deff))
    return replace(share, low=min(share.low, low), high=max(share.high, high), p=p)


def _difference(a: Sections, b: Sections, metric: str, paired: bool, in_turns: bool, unsteady: float) -> Difference:
    before, after = a.number(metric), b.number(metric)
    n_a, n_b = a.count(metric), b.count(metric)
    needed = max(a.needed(metric, n_a > 0), b.needed(metric, n_b > 0))
    enough = min(n_a, n_b) >= needed and before is not None and after is not None
    bare = Difference(
        metric, before, after, None, None, None, _smallest(metric, before, unsteady), n_a, n_b,
        None if enough or not needed else needed,
    )  # fmt: skip
    if not enough or before is None or after is None:
        return bare
    error, freedom = _error(a, b, metric, paired, in_turns)
    d = after - before
    half = t95(freedom) * error
    p = p_value(d / error, freedom) if error > 0 else 1.0 if d == 0 else 0.0
    return replace(bare, low=d - half, high=d + half, p=p)


def _smallest(metric: str, before: float | None, unsteady: float) -> float:
    if metric == "share":
        return max(SMALLEST_SHARE, unsteady * (before or 0.0))
    part = max(SMALLEST_PART, unsteady) * abs(before or 0.0)
    return max(part, SMALLEST_MS) if metric in BETTER_WHEN_LESS else part


def _error(a: Sections, b: Sections, metric: str, paired: bool, in_turns: bool) -> tuple[float, int]:
    """Standard error of the difference and its degrees of freedom: from resampled sections of every run, or, if that
    is more, from the spread between runs of the same setting."""
    steps = steps_of(a, b, metric)
    weights = draw(a, SEED), draw(b, SEED if paired else SEED + 1)
    drawn = estimates(b, weights[1], metric, steps) - estimates(a, weights[0], metric, steps)
    each, freedom = (min(f(s) for s in (a, b)) for f in (_sections_each, _freedom))
    error = float(np.nanstd(drawn)) * math.sqrt(each / (each - 1)) if not np.isnan(drawn).all() else math.inf
    if metric == "share" and not paired:
        error = max(error, math.hypot(_half(a), _half(b)) / 2)
    runs_a, runs_b = (estimates(s, each_run(s), metric, steps) for s in (a, b))
    if min(len(runs_a), len(runs_b)) < RUNS_TELL or np.isnan([*runs_a, *runs_b]).any():
        return error, freedom
    if not (paired or in_turns):
        return max((error, freedom), _apart(runs_a, runs_b))
    return max((error, freedom), _together(runs_a, runs_b, times=metric != "share"))


def _together(a: Floats, b: Floats, times: bool) -> tuple[float, int]:
    """From one number a run, turn by turn: what a turn does to both sides drops out. `times`: a busy machine makes all
    so many times slower, so the spread is that of the ratios, at the geometric mean of both sides.
    """
    n = len(a)
    if times and min(a.min(), b.min()) > 0:
        ratios = np.log(b / a)
        return math.sqrt(float(np.var(ratios, ddof=1)) / n) * math.exp(float(np.log(a * b).mean()) / 2), n - 1
    return math.sqrt(float(np.var(b - a, ddof=1)) / n), n - 1


def _apart(a: Floats, b: Floats) -> tuple[float, int]:
    """From one number a run, each side by itself."""
    return math.sqrt(sum(float(np.var(v, ddof=1)) / len(v) for v in (a, b))), len(a) + len(b) - 2


def _sections_each(sections: Sections) -> int:
    return int(np.bincount(sections.run).min())


def _freedom(sections: Sections) -> int:
    return len(sections.run) - int(sections.run.max()) - 1


def _half(sections: Sections) -> float:
    low, high = wilson(float(sections.met.sum()), float(sections.judged.sum()))
    return (high - low) / 2


def adjust(found: Sequence[Sequence[Difference]], paired: Sequence[bool]) -> list[list[Difference]]:
    """Holm over all points, for the promises and for the rest apart: each was a chance to see a difference where there
    is none. In a pair goodput follows from the share of the same requests: one question, which counts once.
    """
    flat = [(i, j, one) for i, point in enumerate(found) for j, one in enumerate(point) if one.p is not None]
    adjusted: dict[tuple[int, int], float] = {}
    for promises in (True, False):
        mine = [(i, j, one) for i, j, one in flat if (one.metric in PROMISES) == promises]
        asked = [(i, j, one) for i, j, one in mine if not (paired[i] and _follows(one, found[i]))]
        values = holm([one.p or 0.0 for _, _, one in asked])
        adjusted |= {(i, j): p for (i, j, _), p in zip(asked, values, strict=True)}
    for i, j, _ in flat:
        if (i, j) not in adjusted:
            adjusted[i, j] = adjusted[i, next(k for k, other in enumerate(found[i]) if other.metric == "share")]
    return [
        [replace(one, p_adjusted=adjusted.get((i, j))) for j, one in enumerate(point)] for i, point in enumerate(found)
    ]


def _follows(one: Difference, point: Sequence[Difference]) -> bool:
    return one.metric == "goodput_per_s" and any(d.metric == "share" and d.p is not None for d in point)
