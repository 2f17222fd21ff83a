"""Intervals of rates: a window cut into equal slices, put together anew from blocks of neighbouring slices.

The circular block bootstrap (Politis and Romano 1992): blocks of consecutive slices are drawn with replacement until
they are as many as the window holds, which keeps what lasts shorter than a block. With so few blocks the spread of
the results is too small; it is widened as Student's t and the divisor n - 1 widen it for independent values.
"""

import math
from functools import cache

import numpy as np

from runner.analysis.dependence import Z95
from runner.analysis.gaps import Bools, Floats, Ints
from runner.analysis.student import t95

SLICES = 60  # of a window: divisible by every number of blocks in use
BLOCKS = (10, 6, 5)  # as many as the window holds blocks of BLOCK_ANSWERS mean answers
BLOCK_ANSWERS = 8.0  # a block lasts so many times as long as a mean answer: longer than the crowd at the start of it
DRAWS = 1000
SEED = 20_240_229


def blocks_of(window_s: float, answer_s: float) -> int | None:
    """How many blocks a window is cut into, given the mean time of an answer (NaN: there was none); null: the window
    is too short to tell how far a rate may be off.
    """
    return next((blocks for blocks in BLOCKS if window_s >= blocks * BLOCK_ANSWERS * answer_s), None)


def window_needed_s(answer_s: float) -> float:
    """The shortest window from which a rate's interval can be told, s."""
    return BLOCKS[-1] * BLOCK_ANSWERS * answer_s


def rate_interval(slices: Floats, blocks: int, window_s: float) -> tuple[float, float]:
    """The 95 % interval of sum(slices) per second. `slices`: (SLICES,) amounts in equal parts of the window."""
    mean = float(slices.mean())
    low, high = np.quantile(resampled(slices[None, :], blocks, DRAWS)[0] - mean, (0.025, 0.975))
    per_s = SLICES / window_s
    return max(0.0, mean + float(low)) * per_s, max(mean, mean + float(high)) * per_s


def resampled(series: Floats, blocks: int, draws: int) -> Floats:
    """(m, draws) means of (m, SLICES) series made anew, already widened. All series take the same blocks each time, so
    what one trace did to all of them stays together."""
    size = SLICES // blocks
    total = np.cumsum(np.concatenate([np.zeros((len(series), 1)), series, series[:, :size]], axis=1), axis=1)
    means = (total[:, size : size + SLICES] - total[:, :SLICES]) / size
    around = series.mean(axis=1, keepdims=True)
    drawn = means[:, _starts(blocks, draws)].mean(axis=2)
    out: Floats = around + (drawn - around) * _widening(blocks)
    return out


def slices_at(at_ns: Floats, start_ns: float, end_ns: float) -> Ints:
    """The slice of the window each moment falls into; for those outside the nearest one."""
    place = np.floor((at_ns - start_ns) / (end_ns - start_ns) * SLICES)
    inside: Ints = np.clip(np.nan_to_num(place), 0, SLICES - 1).astype(np.int64)
    return inside


def counted(slice_of: Ints, chosen: Bools) -> Floats:
    """(SLICES,) how many of the chosen ones fall into each slice."""
    return np.bincount(slice_of[chosen], minlength=SLICES).astype(np.float64)


@cache
def _starts(blocks: int, draws: int) -> Ints:
    """(draws, blocks) first slices. The same in every run, on every machine."""
    starts: Ints = np.random.default_rng(SEED).integers(0, SLICES, (draws, blocks))
    return starts


def _widening(blocks: int) -> float:
    return t95(blocks - 1) / Z95 * math.sqrt(blocks / (blocks - 1))
