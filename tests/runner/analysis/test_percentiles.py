"""Percentiles: published sample sizes, nearest rank, and intervals between order statistics."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.analysis.gaps import Floats
from runner.analysis.percentiles import LEVELS, bounds, needs, percentiles, percentiles_with_intervals, ranks


def interval(values: Floats, q: float) -> tuple[float | None, float | None]:
    """Of independent values."""
    return bounds(np.sort(values), q)


@pytest.mark.parametrize(("q", "n"), [(0.50, 6), (0.90, 36), (0.95, 72), (0.99, 368)])
def test_published_sample_sizes(q: float, n: int) -> None:
    """A two-sided 95 % order-statistic interval exists from n = 6, 36, 72 and 368 on, and not one earlier."""
    assert needs(q) == n
    assert q**n <= 0.025 < q ** (n - 1)


def test_a_percentile_appears_exactly_where_n_carries_it() -> None:
    """35 values give P50 only, 36 add P90; the missing ones are null, never a number."""
    assert percentiles(np.arange(35.0)) == {"p50": 17, "p90": None, "p95": None, "p99": None, "n": 35}
    assert percentiles(np.arange(36.0)) == {"p50": 17, "p90": 32, "p95": None, "p99": None, "n": 36}
    assert percentiles(np.arange(1.0, 369.0))["p99"] == 365


def test_warm_requests_of_a_known_case() -> None:
    """Sixteen requests of 0.7 s after the warm-up: the median is 0.7 s and higher percentiles are not told."""
    assert percentiles(np.full(16, 0.7)) == {"p50": 0.7, "p90": None, "p95": None, "p99": None, "n": 16}


def test_nulls_are_not_values() -> None:
    """NaN entries neither count nor sort."""
    assert percentiles(np.array([math.nan] * 50 + [1.0] * 6)) == {
        "p50": 1.0, "p90": None, "p95": None, "p99": None, "n": 6,
    }  # fmt: skip
    assert percentiles(np.zeros(0))["n"] == 0


def test_interval_ranks_of_the_literature() -> None:
    """The 95 % interval of the median of 10 values is (x_2, x_9), of 20 values (x_6, x_15) (Conover, sign test)."""
    assert interval(np.arange(1.0, 11.0), 0.5) == (2, 9)
    assert interval(np.arange(1.0, 21.0), 0.5) == (6, 15)
    assert interval(np.arange(5.0), 0.5) == (None, None)
    assert interval(np.zeros(0), 0.5) == (None, None)


def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    """Over 1000 uniform samples of 100 the interval of P90 holds 0.9 in at least 94 % (it is conservative)."""
    rng = np.random.default_rng(7)
    found = [interval(rng.random(100), 0.9) for _ in range(1000)]
    assert np.mean([low is not None and high is not None and low <= 0.9 <= high for low, high in found]) >= 0.94


@settings(max_examples=40)
@given(st.lists(st.floats(-1e6, 1e6), min_size=368, max_size=500))
def test_percentiles_are_observed_ordered_and_inside_their_interval(values: list[float]) -> None:
    """Each percentile is one of the values, they rise with q, and each lies within its own interval."""
    array = np.array(values)
    found = percentiles(array)
    told = [found[k] for k in ("p50", "p90", "p95", "p99")]
    assert set(told) <= set(values)
    assert told == sorted(told)
    for q, value in zip((0.5, 0.9, 0.95, 0.99), told, strict=True):
        low, high = interval(array, q)
        assert low is not None
        assert high is not None
        assert low <= value <= high


@pytest.mark.parametrize(
    ("n", "low", "high"), [(6, 1, 6), (10, 2, 9), (20, 6, 15), (25, 8, 18), (50, 18, 33), (100, 40, 61)]
)
def test_ranks_of_the_median_are_those_of_the_sign_test(n: int, low: int, high: int) -> None:
    """Two-sided 5 % points of the sign test (Dixon and Mood 1946): 0, 1, 5, 7, 17 and 39, each one below the rank."""
    assert ranks(n, 0.5) == (low, high)


def test_ranks_of_a_high_percentile_are_those_of_the_binomial_table() -> None:
    """P90 of 100: P(B <= 83) = .021 and P(B <= 84) = .040, P(B >= 96) = .024 and P(B >= 95) = .058."""
    assert ranks(100, 0.9) == (84, 96)
    assert ranks(35, 0.9) == (28, 36)  # no 36th of 35: that side is open
    assert ranks(36, 0.9) == (29, 36)


def independent(n: int) -> Floats:
    """0..n-1 so mixed that neighbours have nothing to do with each other."""
    return (np.arange(n) * 0.6180339887498949) % 1.0 * n // 1.0


def test_intervals_of_independent_values_are_the_plain_ones() -> None:
    """Values spread evenly in time have no design effect; sides that n cannot carry are null, and how many could."""
    found = percentiles_with_intervals(independent(100))
    assert (found["p50_low"], found["p50_high"]) == interval(independent(100), 0.5)
    assert (found["p90_low"], found["p90_high"]) == interval(independent(100), 0.9)
    assert (found["p99"], found["p99_low"], found["p99_high"]) == (None, None, None)
    assert found["needs"]["p99"] == 368
    assert "p50" not in found["needs"]


def test_too_few_values_say_how_many_are_needed() -> None:
    """Nothing at all, and five values among failed requests: every level is null and wants 6, 36, 72, 368."""
    for n in (0, 5):
        values = np.concatenate([np.arange(float(n)), np.full(400, math.nan)])  # as of requests that all failed
        found = percentiles_with_intervals(values)
        assert {found[f"{name}{side}"] for name in LEVELS for side in ("", "_low", "_high")} == {None}
        assert found["needs"] == {"p50": 6, "p90": 36, "p95": 72, "p99": 368}
        assert found["n"] == n


def test_values_that_come_in_bunches_count_less() -> None:
    """Each value 10 times in a row is hardly more than one: a wider interval, and sides that are open."""
    bunched = np.repeat(independent(40), 10)
    (low, high), found = interval(bunched, 0.5), percentiles_with_intervals(bunched)
    assert low is not None
    assert high is not None
    assert found["p50_high"] - found["p50_low"] > 1.5 * (high - low)
    assert found["p95_low"] is not None
    assert found["p95_high"] is None
    assert found["needs"]["p95"] > 400


def test_equal_values_have_no_width() -> None:
    """All the same: every level and both its sides are that value, and nothing is needed."""
    found = percentiles_with_intervals(np.full(400, 0.7))
    assert {found[f"{name}{side}"] for name in LEVELS for side in ("", "_low", "_high")} == {0.7}
    assert found["needs"] == {}


@settings(max_examples=40)
@given(st.lists(st.floats(0, 1e6), min_size=6, max_size=500))
def test_each_percentile_lies_between_its_sides(values: list[float]) -> None:
    """In any order of arrival; an open side is named with what would close it, a closed level is not."""
    found = percentiles_with_intervals(np.array(values))
    for name in LEVELS:
        low, at, high = found[f"{name}_low"], found[name], found[f"{name}_high"]
        assert (None in (low, high)) == (name in found["needs"])
        if at is not None:
            assert (at if low is None else low) <= at <= (at if high is None else high)
