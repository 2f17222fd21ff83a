"""Arrivals: one seed is one relative trace, at every rate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.load.arrivals import Process, arrival_offsets_ns, random_stream

PROCESSES: list[Process] = ["constant", "poisson", "gamma"]


def offsets(process: Process, rate: float, total_s: float, seed: int = 1, name: str = "chat", cv: float = 2.0):
    return arrival_offsets_ns(process, rate, total_s, random_stream(seed, name, "arrivals"), cv)


def test_constant_sends_in_the_middle_of_each_interval():
    """A constant 2 req/s for 3 s is exactly 6 requests, 0.5 s apart, the first at 0.25 s."""
    assert offsets("constant", 2.0, 3.0).tolist() == [250_000_000 + 500_000_000 * k for k in range(6)]


@pytest.mark.parametrize(("rate", "total_s", "count"), [(10.0, 60.0, 600), (0.1, 4.0, 0), (0.1, 6.0, 1), (3.0, 0.5, 1)])
def test_constant_count_is_rate_times_time(rate: float, total_s: float, count: int):
    """The number of constant arrivals is rate x time, rounded to the nearest half-interval."""
    assert len(offsets("constant", rate, total_s)) == count


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("rate", [1e-11, 1e-300, 0.0])
def test_a_rate_too_low_for_the_run_sends_nothing(process: Process, rate: float):
    """An offset that fits no 64-bit integer is behind the end, not before the start."""
    assert offsets(process, rate, 10.0).tolist() == []


@pytest.mark.parametrize("process", PROCESSES)
@given(rate=st.floats(0.05, 300), seed=st.integers(-3, 2**64), total_s=st.floats(0.1, 20))
def test_offsets_ascend_inside_the_run(process: Process, rate: float, seed: int, total_s: float):
    """Offsets never go back, start at or after 0 and end before the total."""
    got = offsets(process, rate, total_s, seed)
    assert np.all(np.diff(got) >= 0)
    assert np.all((got >= 0) & (got < round(total_s * 1e9)))


@pytest.mark.parametrize("process", PROCESSES)
@given(rate=st.floats(0.1, 100), factor=st.floats(1.01, 20), seed=st.integers(0, 1000))
def test_rates_share_one_relative_trace(process: Process, rate: float, factor: float, seed: int):
    """The k-th offset times its rate is the same at every rate, to the rounding of half a nanosecond."""
    slow, fast = offsets(process, rate, 10.0, seed), offsets(process, rate * factor, 10.0, seed)
    n = min(len(slow), len(fast))
    assert n == len(slow)
    np.testing.assert_allclose(fast[:n] * factor, slow[:n], atol=0.51 * (1 + factor), rtol=1e-12)


@pytest.mark.parametrize("process", PROCESSES)
@given(seed=st.integers(0, 1000), more_s=st.floats(0, 200))
def test_more_time_only_appends(process: Process, seed: int, more_s: float):
    """A longer run begins with exactly the shorter run's arrivals, also across blocks of draws."""
    short, long = offsets(process, 20.0, 50.0, seed), offsets(process, 20.0, 50.0 + more_s, seed)
    assert np.array_equal(long[: len(short)], short)
    assert np.all(long[len(short) :] >= 50e9)


def test_seed_and_class_name_each_give_another_trace():
    """The trace depends on the seed and on the class's name, and is the same on every call."""
    first = offsets("poisson", 5.0, 20.0)
    assert np.array_equal(first, offsets("poisson", 5.0, 20.0))
    assert not np.array_equal(first[:5], offsets("poisson", 5.0, 20.0, seed=2)[:5])
    assert not np.array_equal(first[:5], offsets("poisson", 5.0, 20.0, seed=-1)[:5])
    assert not np.array_equal(first[:5], offsets("poisson", 5.0, 20.0, name="rag")[:5])


@pytest.mark.parametrize("cv", [0.5, 2.0, 3.0])
def test_gamma_gaps_have_the_asked_variation(cv: float):
    """Gamma gaps have mean 1/rate and the asked coefficient of variation, within 5 standard errors of 40,000 draws."""
    gaps = np.diff(offsets("gamma", 100.0, 400.0, cv=cv)) / 1e7
    n = len(gaps)
    assert gaps.mean() == pytest.approx(1.0, abs=5 * cv / np.sqrt(n))
    # gamma: excess kurtosis 6 cv^2, so the variance's relative standard error is sqrt((2 + 6 cv^2) / n)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(cv**2, rel=5 * np.sqrt((2 + 10 * cv**2) / n))


def test_gamma_with_cv_one_is_poisson():
    """Gamma with cv = 1 draws the very trace of the Poisson process."""
    assert np.array_equal(offsets("gamma", 7.0, 30.0, cv=1.0), offsets("poisson", 7.0, 30.0))
