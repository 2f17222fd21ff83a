"""Server samples of a window, and concurrency as the streams show it."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.analysis.engine import concurrency, engine_numbers, increase, prefix_cache_hit_share, restarted, streams
from runner.analysis.requests import request_table
from storage.records import EngineSample
from tests.support.tables import SECOND, make_config, make_request, make_tables


def sample(at_s: float, **values: float) -> EngineSample:
    return EngineSample(cell=0, at_ns=round(at_s * SECOND), source="metrics", scrape_ms=1.0, **values)


def frame(*samples: EngineSample) -> pd.DataFrame:
    return make_tables(engine=samples).engine


def test_running_mean_is_weighted_by_time() -> None:
    """2 held for 1 s, 4 held for 3 s, 6 held for 6 s of a 10 s window: 5.0; the sample before it fills its start."""
    found = engine_numbers(
        frame(sample(9, running=2.0), sample(11, running=4.0), sample(14, running=6.0), sample(21, running=99.0)),
        10 * SECOND,
        20 * SECOND,
    )
    assert found["running_mean"] == pytest.approx(5.0)
    assert found["running_max"] == 6
    assert found["source"] == "metrics"


def test_counters_are_growth_inside_the_window() -> None:
    """From the last sample before the window to the last inside: 7 preemptions, 300 tokens in 100 steps."""
    found = engine_numbers(
        frame(
            sample(0, num_preemptions_total=1.0, iterations_total=0.0, iteration_tokens_total=0.0),
            sample(9, num_preemptions_total=3.0, iterations_total=100.0, iteration_tokens_total=1000.0),
            sample(19, num_preemptions_total=10.0, iterations_total=200.0, iteration_tokens_total=1300.0),
            sample(25, num_preemptions_total=50.0, iterations_total=900.0, iteration_tokens_total=9000.0),
        ),
        10 * SECOND,
        20 * SECOND,
    )
    assert found["num_preemptions"] == 7
    assert found["batch_tokens_mean"] == 3.0
    assert found["batch_seqs_mean"] is None


def test_a_counter_that_falls_starts_anew() -> None:
    """10 -> 12 -> 1 -> 3: a growth of 2, then 1 and 2 after the restart, which is noticed."""
    samples = frame(*[sample(i, rejected_total=v) for i, v in enumerate((10.0, 12.0, 1.0, 3.0))])
    assert increase(samples, "rejected_total", 0, 10 * SECOND) == 5.0
    assert restarted(samples)
    assert not restarted(samples.iloc[:2])


def test_one_sample_is_no_growth() -> None:
    """A counter seen once tells nothing about the window."""
    assert increase(frame(sample(1, rejected_total=10.0)), "rejected_total", 0, 10 * SECOND) is None


def test_without_samples_everything_is_null() -> None:
    """No metrics endpoint: nulls and source none, no zeros that look like measurements."""
    found = engine_numbers(frame(), 0, SECOND)
    assert found.pop("source") == "none"
    assert set(found.values()) == {None}


def test_prefix_cache_hit_share_of_a_known_case() -> None:
    """94 208 hits of 102 400 queries are 0.92; without counters the answers' cached tokens count."""
    before = sample(0, prefix_cache_queries_total=100_000.0, prefix_cache_hits_total=5_000.0)
    after = sample(9, prefix_cache_queries_total=202_400.0, prefix_cache_hits_total=99_208.0)
    records = [make_request(0, prompt_tokens=100, cached_prompt_tokens=25), make_request(1, prompt_tokens=100)]
    rows = request_table(make_tables(records), make_config())
    assert prefix_cache_hit_share(rows, frame(before, after), 0, 10 * SECOND) == pytest.approx(0.92)
    assert prefix_cache_hit_share(rows, frame(), 0, 10 * SECOND) == 0.25
    assert prefix_cache_hit_share(rows.iloc[:0], frame(), 0, 10 * SECOND) is None


def test_streams_between_first_and_last_token() -> None:
    """Two streams of 4 s, one after the other with 1 s overlap, in a 10 s window: 0.8 on average, 2 at most."""
    records = [
        make_request(0, at_ms=1000, ttft_ms=0, gaps_ms=[1000] * 4),
        make_request(1, at_ms=4000, ttft_ms=0, gaps_ms=[1000] * 4),
    ]
    rows = request_table(make_tables(records), make_config())
    assert streams(rows, 0, 10 * SECOND) == {"streams_mean": 0.8, "streams_max": 2}
    assert streams(rows.iloc[:0], 0, 10 * SECOND) == {"streams_mean": 0.0, "streams_max": 0}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=20))
def test_concurrency_equals_counting_every_instant(spans: list[tuple[int, int]]) -> None:
    """Mean and maximum over [10, 40) equal a count at each unit of time."""
    starts = np.array([min(s) for s in spans], dtype=np.float64)
    ends = np.array([max(s) for s in spans], dtype=np.float64)
    open_at = [int(((starts <= t) & (ends > t)).sum()) for t in range(10, 40)]
    assert concurrency(starts, ends, 10.0, 40.0) == (pytest.approx(sum(open_at) / 30), max(open_at))
