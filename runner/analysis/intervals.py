"""Intervals of shares: Wilson at the effective number of requests, and paired differences."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from runner.analysis.dependence import Z95, as_series, batch_effect
from runner.analysis.gaps import Bools
from runner.analysis.percentiles import binomial

BATCHES = 10
SMALLEST_BATCH = 5
CROWD_SHARE = 0.7  # targets are missed in the worst moments of a crowd, which are shorter than the crowd
PAIRED_CROWD = 1.25  # times the design effect of a share: two settings differ in those moments alone


def wilson(k: float, n: float, deff: float = 1.0) -> tuple[float, float]:
    """95 % interval of the share k/n, 0..1, with n_eff = n / deff (Wilson 1927). (0, 1) for n = 0."""
    if n <= 0:
        return 0.0, 1.0
    p, n_eff = k / n, n / max(deff, 1.0)
    z2 = Z95 * Z95 / n_eff
    centre = (p + z2 / 2) / (1 + z2)
    half = Z95 / (1 + z2) * math.sqrt(p * (1 - p) / n_eff + z2 / (4 * n_eff))
    # at k = 0 and k = n the bound is exactly 0 or 1; rounding must not push the share out of its own interval
    return min(max(0.0, centre - half), p), max(min(1.0, centre + half), p)


def design_effect(met: Bools, crowd: float = 1.0) -> float:
    """By how much n must be divided for Wilson's interval of a share to cover, >= 1. `met` in order of arrival.

    The larger of what 10 consecutive batches of the outcomes show and of CROWD_SHARE of `crowd`, the `crowd_effect`
    of the requests: outcomes that all agree say nothing about how misses would come in bunches.
    """
    outcomes = float(batch_effect(as_series(met), BATCHES)[0]) if len(met) else 1.0
    return max(outcomes, CROWD_SHARE * crowd)


@lru_cache(maxsize=1024)
def allowed_misses(n: int, share_target: float, doubt: float = 0.05) -> int:
    """Most misses among n requests that still prove, one-sided at 1 - doubt, a share of at least share_target; -1 if
    even none would. A running cell with more can be given up: it cannot pass any more.
    """
    proof = np.cumsum(binomial(n, 1.0 - share_target)) <= doubt
    return int(proof.sum()) - 1


@dataclass(frozen=True)
class Share:
    """Met requests out of those that could be judged (censored ones could not), with its interval."""

    met: int
    judged: int
    deff: float = 1.0

    @property
    def value(self) -> float | None:
        return self.met / self.judged if self.judged else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        return wilson(self.met, self.judged, self.deff) if self.judged else None


def pool(shares: Sequence[Share]) -> Share:
    """Counts added; the design effect such that the effective numbers of requests add."""
    judged = sum(s.judged for s in shares)
    effective = sum(s.judged / s.deff for s in shares)
    return Share(sum(s.met for s in shares), judged, judged / effective if effective else 1.0)


def paired_shares(a: Bools, b: Bools, deff: float = 1.0) -> tuple[float, float, float]:
    """Share of a minus share of b over the same requests (in order of arrival) and its 95 % interval.

    Agresti and Min (2005), half a request added to each of the four cells of the table, at the effective number of
    requests; `deff`: the larger one of the two shares. Where no pair differs the interval is not empty: n equal pairs
    do not prove that the next one is. Raises ValueError for arrays of different or zero length.
    """
    mean, centre, error = _adjusted(a, b, deff)
    return mean, min(max(centre - Z95 * error, -1.0), mean), max(min(centre + Z95 * error, 1.0), mean)


def paired_shares_p_value(a: Bools, b: Bools, deff: float = 1.0) -> float:
    """Two-sided p value of "both shares are equal", from the same numbers as the interval of `paired_shares`."""
    _, centre, error = _adjusted(a, b, deff)
    return math.erfc(abs(centre) / error / math.sqrt(2.0))


def holm(p_values: Sequence[float]) -> list[float]:
    """P values adjusted for how many were asked, in their order: one below .05 stays a finding although the others
    were tried too (Holm 1979, step-down: (m - j + 1) times the j-th smallest, never falling, at most 1).
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, floor = [0.0] * len(p_values), 0.0
    for place, index in enumerate(order):
        floor = max(floor, min(1.0, (len(order) - place) * p_values[index]))
        adjusted[index] = floor
    return adjusted


def _adjusted(a: Bools, b: Bools, deff: float) -> tuple[float, float, float]:
    """The plain difference of two paired shares, and centre and standard error of its adjusted interval."""
    if len(a) != len(b) or not len(a):
        raise ValueError("paired values need the same requests on both sides")
    d = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    mean, n = float(d.mean()), len(d)
    effect = max(float(batch_effect(d[None, :], BATCHES)[0]), PAIRED_CROWD * deff if deff > 1.0 else 1.0)
    total = n / effect + 2.0
    centre = mean * (n / effect) / total
    unequal = int(np.count_nonzero(d)) / effect
    return mean, centre, math.sqrt(((unequal + 1.0) / total - centre * centre) / total)
