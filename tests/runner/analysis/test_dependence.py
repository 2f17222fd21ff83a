"""Design effects of series whose dependence is known, and what arrivals find in the system."""

import math

import numpy as np
import pytest

from runner.analysis.dependence import as_series, batch_effect, crowd_effect, in_system, lasting_effect
from runner.analysis.gaps import Floats
from runner.analysis.student import t95

WIDENED = (t95(9) / 1.959964) ** 2  # for ten batches


def autoregressive(correlation: float, n: int, series: int) -> Floats:
    """(series, n) stationary first-order autoregressions, started long before."""
    noise = np.random.default_rng(2).normal(size=(series, n + 200))
    for i in range(1, n + 200):
        noise[:, i] += correlation * noise[:, i - 1]
    return noise[:, 200:]


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8, 0.9])
def test_an_autoregression_has_its_textbook_effect(correlation: float) -> None:
    """(1 + r) / (1 - r) for the variance of the mean of an AR(1): 1, 3, 9 and 19, on average over 40 series of 4,000
    values: by batches, without their widening, within a fifth; by the memory of means of five up to two fifths more,
    as the lag of such means is shorter than what they hold."""
    truth = (1 + correlation) / (1 - correlation)
    values = autoregressive(correlation, 4000, 40)
    assert 0.95 * truth < np.mean(lasting_effect(values)) < 1.4 * truth
    if correlation:
        assert np.mean(batch_effect(values, 10)) / WIDENED == pytest.approx(truth, rel=0.2)


def test_equal_values_and_few_values_tell_nothing() -> None:
    """Exactly 1 for constants, for batches of fewer than 5 and for fewer than 20 values."""
    for values in (np.ones((1, 500)), np.zeros((1, 500)), np.full((1, 500), 0.1)):
        assert batch_effect(values, 10).tolist() == lasting_effect(values).tolist() == [1.0]
    assert batch_effect(np.arange(49.0)[None, :], 10).tolist() == [1.0]
    assert lasting_effect(np.arange(19.0)[None, :]).tolist() == [1.0]
    assert lasting_effect(np.zeros((1, 0))).tolist() == [1.0]


def test_a_trend_is_large_but_not_endless() -> None:
    """A series that only rises has the largest correlation that is called one: about 39 batches of 5 for each."""
    (effect,) = lasting_effect(np.arange(1000.0)[None, :]).tolist()
    assert 150 < effect < 200


def test_series_are_judged_each_for_itself() -> None:
    """Two series in one call give what each gives alone."""
    values = np.vstack([autoregressive(0.8, 300, 1), autoregressive(0.2, 300, 1)])
    for estimate in (lasting_effect, lambda v: batch_effect(v, 6)):
        assert estimate(values).tolist() == [*estimate(values[:1]), *estimate(values[1:])]
    assert as_series(np.array([True, False])).tolist() == [[1.0, 0.0]]


def test_what_arrivals_find() -> None:
    """Three requests: the first ends as the third comes, the second never does; nobody finds himself."""
    scheduled, end = np.array([0.0, 1.0, 2.0]), np.array([2.0, math.nan, 9.0])
    assert in_system(scheduled, scheduled, end).tolist() == [0.0, 1.0, 1.0]
    assert in_system(np.array([8.0, 100.0]), scheduled, end).tolist() == [2.0, 1.0]
    assert in_system(scheduled, np.zeros(0), np.zeros(0)).tolist() == [0.0, 0.0, 0.0]


def test_a_crowd_that_never_changes_is_none() -> None:
    """A closed loop: each request finds the same number of others."""
    assert crowd_effect(np.full(500, 7.0)) == 1.0
