"""Percentiles that are only given where n can carry them.

Definition: nearest rank (the smallest observed value that at least a share q of the values does not exceed), so each
percentile is a value that really happened. One is given only if a two-sided 95 % interval for it exists between two
order statistics. With B ~ Binomial(n, q) values below the true quantile, the widest such interval [x_1, x_n] leaves
q^n above and (1 - q)^n below (David and Nagaraja, Order Statistics, section 7.1): both must be at most 2.5 %.
"""

import math
from typing import Any

import numpy as np

from runner.analysis.gaps import Floats

LEVELS = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}
TAIL = 0.025


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


def interval(values: Floats, q: float) -> tuple[float, float] | None:
    """The 95 % order-statistic interval of percentile q; null where none exists."""
    known = np.sort(values[~np.isnan(values)])
    n = len(known)
    if n < needs(q):
        return None
    below = np.cumsum(binomial(n, q))  # below[k] = P(B <= k)
    low = int(np.searchsorted(below, TAIL, side="right"))  # largest l with P(B <= l - 1) <= 2.5 %
    high = int(np.searchsorted(below, 1.0 - TAIL, side="left")) + 1  # smallest u with P(B >= u) <= 2.5 %
    return float(known[max(low, 1) - 1]), float(known[min(high, n) - 1])


def binomial(n: int, q: float) -> Floats:
    """P(B = k) for k = 0..n."""
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    k = np.arange(n + 1)
    choose = log_factorial[n] - log_factorial - log_factorial[::-1]
    out: Floats = np.exp(choose + k * math.log(q) + (n - k) * math.log1p(-q))
    return out
