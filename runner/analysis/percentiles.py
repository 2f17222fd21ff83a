"""Percentiles that are only given where n can carry them, and their intervals.

Definition: nearest rank (the smallest observed value that at least a share q of the values does not exceed), so each
percentile is a value that really happened. One is given only if a two-sided 95 % interval for it exists between two
order statistics. With B ~ Binomial(n, q) values below the true quantile, the widest such interval [x_1, x_n] leaves
q^n above and (1 - q)^n below (David and Nagaraja, Order Statistics, section 7.1): both must be at most 2.5 %.

Neighbouring requests share their fate, so the ranks of the interval are those for n / design effect independent values
(the design effect of "at most this percentile", in order of arrival). When these are too few for a bound, that bound is
null: the value is known to be at least (or at most) the other one, and the run was too short to tell more.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from runner.analysis.dependence import batch_effect, lasting_effect
from runner.analysis.gaps import Floats

LEVELS = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}
TAIL = 0.025
BATCHES = 6  # for the design effect of a percentile
CROWD_PART = 0.4  # of the crowd effect: at least so much for the upper side of P90 and above
HIGH = 0.9
BORROWED = 0.25  # of its design effect, by logarithm, P99 borrows from P95 for its upper side


def needs(q: float) -> int:
    """Smallest n for which percentile q (0..1) is given: 6 for .50, 36 for .90, 72 for .95, 368 for .99."""
    rarest = max(q, 1.0 - q)
    n = math.ceil(math.log(TAIL) / math.log(rarest))
    return n if rarest**n <= TAIL else n + 1


def nearest_rank(values: Floats, q: float) -> float:
    """Percentile q of at least one value, without any rule on n."""
    rank = _rank(len(values), q)
    return float(np.partition(values, rank - 1)[rank - 1])


def _rank(n: int, q: float) -> int:
    return max(1, math.ceil(round(q * n, 9)))


def percentiles(values: Floats) -> dict[str, Any]:
    """p50, p90, p95, p99 (null where n is too small, see `needs`) and n. NaN entries are not values."""
    known = values[~np.isnan(values)]
    n, below = len(known), 0
    out: dict[str, Any] = {}
    for name, q in LEVELS.items():
        if n < needs(q):
            out[name] = None
            continue
        # each level is looked for among the values from the one before on: only these are put in order again
        place = _rank(n, q) - 1
        known = np.partition(known, place - below)[place - below :]
        out[name], below = float(known[0]), place
    return {**out, "n": n}


def percentiles_with_intervals(values: Floats, crowd: float = 1.0) -> dict[str, Any]:
    """`percentiles` of values in order of arrival, with p50_low, p50_high, … (95 %; null where n / design effect
    cannot carry that side) and `needs`: by level, how many values would carry both sides where these did not.

    A P99 rests on few bunches of values, in a lucky run on too few to see how large they are: its upper side borrows
    from the design effect of P95.

    `crowd`: the `crowd_effect` of the requests. A run that has not seen the worst crowd yet does not show it in its
    values either; the upper side of a high percentile heeds how long crowds last.
    """
    out = percentiles(values)
    known = np.sort(values[~np.isnan(values)])
    needed, before = {}, 1.0
    for (name, q), effect in zip(LEVELS.items(), _effects(values[~np.isnan(values)], out), strict=True):
        upper = max(effect, CROWD_PART * crowd) if q >= HIGH else effect
        if q > LEVELS["p95"]:
            upper = max(upper, effect ** (1 - BORROWED) * before**BORROWED)
        low, high = bounds(known, q, effect)[0], bounds(known, q, upper)[1]
        if out[name] is None:
            low, high, upper = None, None, 1.0
        if low is None or high is None:
            needed[name] = math.ceil(needs(q) * upper)
        out |= {f"{name}_low": low, f"{name}_high": high}
        before = effect
    return {**out, "needs": needed}


def _effects(values: Floats, found: dict[str, Any]) -> list[float]:
    """The design effect of "at most this percentile" of each level, 1 for those that are null."""
    if not len(values):
        return [1.0] * len(LEVELS)
    levels = np.array([np.nan if found[name] is None else found[name] for name in LEVELS])
    below = values <= levels[:, None]
    effects: list[float] = np.maximum(batch_effect(below, BATCHES), lasting_effect(below)).tolist()
    return effects


def bounds(ordered: Floats, q: float, effect: float = 1.0) -> tuple[float | None, float | None]:
    """The two sides of the 95 % order-statistic interval of percentile q from sorted values, at n / effect."""
    n = len(ordered)
    if not n:
        return None, None
    n_eff = max(1, int(n / effect))
    low, high = ranks(n_eff, q)
    # of n_eff values in place of n each stands for a stretch of n / n_eff: from its first to its last
    first, last = (low - 1) * n // n_eff, -(-high * n // n_eff) - 1
    return float(ordered[first]) if low >= 1 else None, float(ordered[last]) if high <= n_eff else None


@lru_cache(maxsize=8192)
def ranks(n: int, q: float) -> tuple[int, int]:
    """Order statistics l, u of n independent values such that [x_l, x_u] covers percentile q in at least 95 %, at most
    2.5 % missing on each side. l = 0 or u = n + 1: there is no such value."""
    below = np.cumsum(binomial(n, q))  # below[k] = P(B <= k)
    low = int(np.searchsorted(below, TAIL, side="right"))  # largest l with P(B <= l - 1) <= 2.5 %
    high = int(np.searchsorted(below, 1.0 - TAIL, side="left")) + 1  # smallest u with P(B >= u) <= 2.5 %
    return low, min(high, n + 1)


def binomial(n: int, q: float) -> Floats:
    """P(B = k) for k = 0..n."""
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    k = np.arange(n + 1)
    choose = log_factorial[n] - log_factorial - log_factorial[::-1]
    out: Floats = np.exp(choose + k * math.log(q) + (n - k) * math.log1p(-q))
    return out
