"""Steady state and overload, from streams whose truth is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.analysis.gaps import Floats
from runner.analysis.requests import request_table
from runner.analysis.steady import mser5, no_steady_state, overload_signs
from storage.records import RequestRecord
from tests.support.tables import SECOND, make_config, make_request, make_tables


def test_mser_cuts_a_transient_and_not_the_rest() -> None:
    """A start ten times as slow for 40 of 400 values is cut (within one batch), and the rest is steady."""
    values = np.where(np.arange(400) < 40, 10.0, 1.0) + np.tile([0.1, -0.1], 200)
    assert mser5(values) == 40
    assert not no_steady_state(values)


def test_a_drift_has_no_steady_state() -> None:
    """A value that rises through the whole series is cut at its half: nothing to cut away."""
    assert no_steady_state(np.arange(400.0))
    assert mser5(np.arange(400.0)) == 200


def test_mser_worked_by_hand() -> None:
    """Twenty batch means 19, 1, -1, 1, …: of all the score is (361 + 19 - 20) / 400 = .9, without the first (19 - 1/19)
    / 361 = .0525, without two 18 / 324 = .0556, and it rises from there: one batch of five is cut."""
    means = np.array([19.0] + [1.0, -1.0] * 9 + [1.0])
    spread = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])  # within a batch: it does not count
    assert mser5((means[:, None] + spread).ravel()) == 5
    assert mser5(means.repeat(5)[5:]) is None  # 95 values


@pytest.mark.parametrize("start", [np.arange(10.0), np.arange(20.0, 10.0, -1.0)])
def test_a_ramp_to_a_plateau_is_cut_whichever_way_it_goes(start: Floats) -> None:
    """The examples of the kim-convergence library: ten values from 0 up or from 20 down to 10, then a thousand within
    a half of it: cut behind the ramp, and long before the half. A climb over more than half of them is no start."""
    noise = np.random.default_rng(12345).random(2000) - 0.5
    cut = mser5(np.concatenate([start, 10.0 + noise[:1000]]))
    assert cut is not None
    assert 10 <= cut < 250
    climb = np.minimum(np.arange(2000) / 120.0, 10.0) + noise
    assert no_steady_state(climb)


def test_equal_values_are_steady_and_few_values_say_nothing() -> None:
    """A constant is cut nowhere; below 100 values the check is silent."""
    assert mser5(np.full(400, 0.1)) == 0
    assert mser5(np.arange(99.0)) is None
    assert not no_steady_state(np.arange(99.0))


def test_independent_values_are_rarely_called_drifting() -> None:
    """Under 6 % of pure-noise series of 100 values, and under 3 % of 200, are cut at the half."""
    rng = np.random.default_rng(1)
    for n, most in ((100, 0.06), (200, 0.03)):
        assert np.mean([no_steady_state(rng.exponential(1.0, n)) for _ in range(500)]) < most


@settings(max_examples=30)
@given(st.lists(st.integers(0, 50), min_size=100, max_size=300))
def test_the_cut_is_that_of_the_formula(values: list[int]) -> None:
    """White's rule term by term: of all cuts d up to half of the m batch means the one with the smallest
    sum((Y_i - mean of the rest)^2, i > d) / (m - d)^2."""
    means = np.array(values[: len(values) // 5 * 5], dtype=float).reshape(-1, 5).mean(axis=1)
    m = len(means)
    if np.ptp(values) == 0:
        assert mser5(np.array(values, dtype=float)) == 0
        return
    scores = [((means[d:] - means[d:].mean()) ** 2).sum() / (m - d) ** 2 for d in range(m // 2 + 1)]
    cut = mser5(np.array(values, dtype=float))
    assert cut is not None
    assert scores[cut // 5] == pytest.approx(min(scores), abs=1e-9)


def queue(rate: float, service_s: float, window_s: int = 100) -> list[RequestRecord]:
    """A single server, first come first served, deterministic: arrivals each 1/rate s, each served service_s."""
    free, records = 0.0, []
    for i in range(int(rate * window_s)):
        at = i / rate
        start = max(free, at)
        free = start + service_s
        records.append(make_request(i, at_ms=at * 1000, ttft_ms=(free - at) * 1000))
    return records


def test_twice_the_capacity_is_overload_by_all_signs() -> None:
    """2 req/s at a server that does 1 req/s: the queue grows, half completes, waits are long, the drain is endless."""
    rows = request_table(make_tables(queue(2.0, 1.0)), make_config())
    signs = overload_signs(rows, 0, 100 * SECOND)
    assert (signs.in_system_grows, signs.completions_behind, signs.late_start, signs.long_drain) == (True,) * 4
    assert signs.verdict


def test_half_the_capacity_is_no_overload_by_any_sign() -> None:
    """0.5 req/s at a server that does 1 req/s shows none of the signs."""
    rows = request_table(make_tables(queue(0.5, 1.0)), make_config())
    signs = overload_signs(rows, 0, 100 * SECOND)
    assert (signs.in_system_grows, signs.completions_behind, signs.late_start, signs.long_drain) == (False,) * 4
    assert not signs.verdict


def test_a_long_queue_time_told_by_the_server_is_one_sign_and_not_enough() -> None:
    """One sign alone is no verdict."""
    rows = request_table(make_tables(queue(0.5, 1.0)), make_config())
    signs = overload_signs(rows, 0, 100 * SECOND, queue_time_s=2.5)
    assert signs.late_start
    assert not signs.verdict


def test_random_arrivals_below_capacity_are_rarely_overload() -> None:
    """At 60 % load with Poisson arrivals at most 1 of 40 windows of 100 s is called overloaded."""
    rng = np.random.default_rng(5)
    verdicts = []
    for _ in range(40):
        at = np.cumsum(rng.exponential(1 / 0.6, 100))
        free, records = 0.0, []
        for i, t in enumerate(at[at < 100]):
            free = max(free, t) + 1.0
            records.append(make_request(i, at_ms=t * 1000, ttft_ms=(free - t) * 1000))
        rows = request_table(make_tables(records), make_config())
        verdicts.append(overload_signs(rows, 0, 100 * SECOND).verdict)
    assert sum(verdicts) <= 1


def test_few_long_answers_on_an_idle_server_are_no_overload() -> None:
    """As many seats as it wants (M/G/inf, answers of 4 s on average) can't be overloaded: at 1.2 requests/s in windows
    of 60 s at most 3 of 100 are called so."""
    rng = np.random.default_rng(7)
    verdicts = []
    for _ in range(100):
        at = np.cumsum(rng.exponential(1 / 1.2, 120))
        records = [
            make_request(i, at_ms=t * 1000, ttft_ms=100, gaps_ms=[rng.exponential(4000)])
            for i, t in enumerate(at[at < 60])
        ]
        rows = request_table(make_tables(records), make_config())
        verdicts.append(overload_signs(rows, 0, 60 * SECOND, queue_time_s=0.0).verdict)
    assert sum(verdicts) <= 3
