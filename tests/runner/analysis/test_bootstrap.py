"""Windows made anew from blocks: against closed forms, and where nothing can be told."""

import math

import numpy as np
import pytest

from runner.analysis.bootstrap import (
    SLICES,
    blocks_of,
    counted,
    rate_interval,
    resampled,
    slices_at,
    window_needed_s,
)


@pytest.mark.parametrize(("blocks", "t"), [(5, 2.7764), (6, 2.5706), (10, 2.2622)])
def test_independent_slices_have_the_width_of_student(blocks: int, t: float) -> None:
    """Half width t sd / sqrt(n) with blocks - 1 degrees of freedom, on average over 200 series of normal noise."""
    random = np.random.default_rng(9)
    halves = []
    for _ in range(200):
        low, high = rate_interval(random.normal(100.0, 1.0, SLICES), blocks, SLICES)
        halves.append((high - low) / 2)
    assert np.mean(halves) == pytest.approx(t / math.sqrt(SLICES), rel=0.1)


def test_what_repeats_within_a_block_is_no_doubt() -> None:
    """Every block of a series that alternates holds the same: the interval is the rate itself. So for a constant, and
    for nothing at all."""
    alternating = np.tile([0.0, 2.0], SLICES // 2)
    assert rate_interval(alternating, 10, 30.0) == (2.0, 2.0)
    assert rate_interval(np.ones(SLICES), 6, 120.0) == (0.5, 0.5)
    assert rate_interval(np.zeros(SLICES), 5, 120.0) == (0.0, 0.0)


def test_a_rate_is_never_below_nothing() -> None:
    """One burst in an empty window: the lower bound is 0, and the rate lies inside."""
    slices = np.zeros(SLICES)
    slices[7] = 60.0
    low, high = rate_interval(slices, 5, 60.0)
    assert low == 0.0
    assert high > 1.0


def test_series_are_made_anew_from_the_same_moments() -> None:
    """Twice the series gives twice each draw, and the same call the same draws: a difference keeps its sign."""
    series = np.random.default_rng(1).random(SLICES)
    drawn = resampled(np.vstack([series, 2 * series]), 6, 100)
    assert drawn[1] == pytest.approx(2 * drawn[0])
    assert np.array_equal(drawn, resampled(np.vstack([series, 2 * series]), 6, 100))


@pytest.mark.parametrize(
    ("window_s", "answer_s", "blocks"),
    [(300, 2.5, 10), (200, 2.5, 10), (199, 2.5, 6), (120, 2.5, 6), (110, 2.5, 5), (99, 2.5, None), (60, 0.0, 10),
     (60, math.nan, None)],
)  # fmt: skip
def test_a_block_lasts_as_long_as_eight_answers(window_s: float, answer_s: float, blocks: int | None) -> None:
    """As many blocks as fit, of 10, 6 or 5; nothing below five, and nothing where nobody was answered."""
    assert blocks_of(window_s, answer_s) == blocks
    assert window_needed_s(2.5) == 100.0


def test_moments_fall_into_slices() -> None:
    """Equal parts from the window's start; what lies outside, or nowhere, goes to an end and is never counted."""
    at = np.array([10.0, 11.0, 69.9, 5.0, 70.0, math.nan])
    place = slices_at(at, 10.0, 70.0)
    assert place.tolist() == [0, 1, 59, 0, 59, 0]
    inside = np.array([True, True, True, False, False, False])
    assert counted(place, inside).tolist() == [1.0, 1.0, *[0.0] * 57, 1.0]
