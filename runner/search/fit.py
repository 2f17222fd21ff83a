"""At which load does the share cross the target? A logistic curve of the share against the log of the load. PURE.

    share(r) = (1 - e) * logistic(logit(alpha / (1 - e)) - b * ln(r / r0))

r0: the load at which the share is alpha. b: how steeply it falls. e: the part that misses at any load (a long prompt
that always freezes a chat), so that a plateau below 1 is not taken for a slope; psychometrics calls it the lapse rate
(Wichmann & Hill 2001, Perception & Psychophysics 63). The posterior is summed on a grid (flat in ln r0, ln b and e):
unlike a maximum it also answers when all probes on one side pass and all on the other miss.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from runner.analysis.gaps import Floats

BEYOND = 4.0  # the grid goes so many times below the lowest and above the highest load
STEEPNESS = np.geomspace(0.5, 60.0, 24)
LAPSES = np.array([0.0, 0.25, 0.5, 0.75])  # of 1 - alpha
STEPS = 400
RISE = 1.5
MOST = 300.0  # effective requests a probe counts for: the curve is no truer than that
Point = tuple[float, float, float]  # load, share, effective number of requests


@dataclass(frozen=True)
class Crossing:
    """Median and 95 % interval of the largest load at which every class keeps its share."""

    load: float
    low: float
    high: float
    fall: float  # by how much the share of the class that gives way first is lower at 1.5 times that load

    @property
    def spread(self) -> float:
        return self.high / self.low


def crossing(points: Mapping[str, Sequence[Point]], alpha: float) -> Crossing:
    """`points`: by class, all of positive load and with at least one probe in all. The class that crosses first rules.

    Raises ValueError without any point.
    """
    loads = [math.log(load) for own in points.values() for load, _, _ in own]
    if not loads:
        raise ValueError("a fit needs at least one probe")
    at = np.linspace(min(loads) - math.log(BEYOND), max(loads) + math.log(BEYOND), STEPS)
    posteriors = [_posterior(at, own, alpha) for own in points.values() if own]
    # the crossing of all classes is the first of theirs: later than x if each of theirs is
    later = np.prod([1.0 - np.cumsum(p.sum(axis=(1, 2))) for p in posteriors], axis=0)
    low, middle, high = (float(np.exp(np.interp(q, 1.0 - later, at))) for q in (0.025, 0.5, 0.975))
    first = min(posteriors, key=lambda p: float((p.sum(axis=(1, 2)) * at).sum()))
    return Crossing(middle, low, high, _fall(first, alpha))


def _shares(distance: Floats, alpha: float) -> Floats:
    """Share at a log distance from the crossing, for every steepness and lapse: distance x STEEPNESS x LAPSES."""
    top = 1.0 - LAPSES * (1.0 - alpha)
    odds = np.log(alpha / (top - alpha))
    raised = odds[None, None, :] - distance[:, None, None] * STEEPNESS[None, :, None]
    shares: Floats = top[None, None, :] / (1.0 + np.exp(-np.clip(raised, -40.0, 40.0)))
    return shares


def _posterior(at: Floats, points: Sequence[Point], alpha: float) -> Floats:
    likelihood = np.zeros((len(at), len(STEEPNESS), len(LAPSES)))
    for load, share, n_eff in points:
        p = np.clip(_shares(math.log(load) - at, alpha), 1e-9, 1 - 1e-9)
        likelihood += min(n_eff, MOST) * (share * np.log(p) + (1.0 - share) * np.log1p(-p))
    weights: Floats = np.exp(likelihood - likelihood.max())
    posterior: Floats = weights / weights.sum()
    return posterior


def _fall(posterior: Floats, alpha: float) -> float:
    """Mean over the posterior of what the share loses when the load rises from the crossing by half."""
    lost = alpha - _shares(np.array([math.log(RISE)]), alpha)[0]
    return float((posterior.sum(axis=0) * lost).sum())
