"""How far neighbouring requests share their fate: the design effect of a series in order of arrival.

A design effect d says that n values tell as much about their mean as n / d independent ones. Both estimates here look
at means of consecutive batches. Which of them an interval takes, and how much of it, was settled by simulation
(`python -m tests.benchmarks.coverage`), not by taste.
"""

import numpy as np
import numpy.typing as npt

from runner.analysis.gaps import Bools, Floats
from runner.analysis.student import t95

Z95 = 1.959963984540054  # two-sided 95 % point of the normal distribution
FEWEST = 20  # values, below which nothing can be told about their dependence
SMALLEST_BATCH = 5
LARGEST_CORRELATION = 0.95  # of neighbouring batches: what is called more is a trend


def batch_effect(values: npt.NDArray[np.generic], batches: int) -> Floats:
    """(levels,) design effects of (levels, n) series by the method of batch means, >= 1.

    The variance of the batches' means against that of as many independent values. What lies above 1 is widened by
    Student's t for so few batches, so that 1.96 standard errors at n / effect cover as they should. 1 where a batch
    would hold fewer than 5 values or all values are equal: nothing can be told then.
    """
    size = values.shape[1] // batches
    if size < SMALLEST_BATCH:
        return np.ones(len(values))
    means = values[:, : size * batches].reshape(len(values), batches, size).mean(axis=2)
    ratio = _ratio(means.var(axis=1, ddof=1) * size, values.var(axis=1))
    widened: Floats = np.where(ratio > 1.0, ratio * (t95(batches - 1) / Z95) ** 2, 1.0)
    return widened


def lasting_effect(values: npt.NDArray[np.generic]) -> Floats:
    """(levels,) design effects of (levels, n) series that forget as a first-order autoregression does, >= 1.

    Means of batches of up to 5 values, with correlation r between neighbours (bias of a short series taken out, after
    Kendall 1954): the variance of the mean of all is (1 + r) / (1 - r) times that of independent batches. That is up to
    two fifths too much, as neighbouring batches touch. 1 below 20 values and where all are equal.
    """
    n = values.shape[1]
    if n < FEWEST:
        return np.ones(len(values))
    size = min(max(n // FEWEST, 1), SMALLEST_BATCH)
    count = n // size
    means = values[:, : size * count].reshape(len(values), count, size).mean(axis=2)
    means -= means.mean(axis=1, keepdims=True)
    power = (means * means).sum(axis=1)
    r = _ratio((means[:, 1:] * means[:, :-1]).sum(axis=1), power)
    r = np.clip(r + (1 + 3 * r) / count, 0.0, LARGEST_CORRELATION)
    effect = _ratio(power / (count - 1) * size, values.var(axis=1)) * (1 + r) / (1 - r)
    at_least_one: Floats = np.maximum(effect, 1.0)
    return at_least_one


def in_system(at_ns: Floats, scheduled_ns: Floats, end_ns: Floats) -> Floats:
    """At each moment: how many requests were scheduled before it and have not ended. NaN: does not end."""
    ends = np.sort(np.where(np.isnan(end_ns), np.inf, end_ns))
    found = np.searchsorted(np.sort(scheduled_ns), at_ns) - np.searchsorted(ends, at_ns, side="right")
    return found.astype(np.float64)


def crowd_effect(found: Floats) -> float:
    """Design effect of the number in the system that arrivals find: how long a crowd lasts, counted in requests.

    It can be told from any run, also from one in which not a single request missed its target, where the outcomes
    themselves say nothing about how misses would come in bunches.
    """
    return float(lasting_effect(found[None, :])[0])


def _ratio(above: Floats, below: Floats) -> Floats:
    """0 where the denominator is no more than rounding."""
    out: Floats = np.divide(above, below, out=np.zeros(len(above)), where=below > 1e-12)
    return out


def as_series(values: Bools) -> npt.NDArray[np.generic]:
    """One series of outcomes as the (1, n) floats that the functions above take."""
    return values[None, :].astype(np.float64)
