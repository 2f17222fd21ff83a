"""Percentiles: published sample sizes, nearest rank, and intervals between order statistics."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.analysis.percentiles import interval, needs, percentiles


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
    assert interval(np.arange(5.0), 0.5) is None


def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    """Over 1000 uniform samples of 100 the interval of P90 holds 0.9 in at least 94 % (it is conservative)."""
    rng = np.random.default_rng(7)
    found = [interval(rng.random(100), 0.9) for _ in range(1000)]
    assert np.mean([f is not None and f[0] <= 0.9 <= f[1] for f in found]) >= 0.94


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=368, max_size=500))
def test_percentiles_are_observed_ordered_and_inside_their_interval(values: list[float]) -> None:
    """Each percentile is one of the values, they rise with q, and each lies within its own interval."""
    array = np.array(values)
    found = percentiles(array)
    told = [found[k] for k in ("p50", "p90", "p95", "p99")]
    assert set(told) <= set(values)
    assert told == sorted(told)
    for q, value in zip((0.5, 0.9, 0.95, 0.99), told, strict=True):
        bounds = interval(array, q)
        assert bounds is not None
        assert bounds[0] <= value <= bounds[1]
