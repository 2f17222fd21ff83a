"""Server samples of a window, and concurrency as the streams show it."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.analysis.engine import (
    busy_share,
    concurrency,
    engine_numbers,
    increase,
    prefix_cache_hit_share,
    restarted,
    share_at_least,
    streams,
)
from runner.analysis.requests import request_table
from storage.records import EngineSample
from tests.support.tables import SECOND, make_config, make_request, make_tables


def sample(at_s: float, **values: float | str) -> EngineSample:
    return EngineSample(cell=0, at_ns=round(at_s * SECOND), source="metrics", scrape_ms=1.0, **values)  # type: ignore[arg-type]


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


def test_one_engine_of_several_that_restarts_adds_nothing() -> None:
    """Of two engines at 100 and 50 the second starts anew: the 102 that are left are no growth, and it is noticed."""
    values = (148.0, 150.0, 102.0, 105.0)
    samples = frame(*[sample(i, rejected_total=v, engines=2.0) for i, v in enumerate(values)])
    assert increase(samples, "rejected_total", 0, 10 * SECOND) == 2 + 0 + 3
    assert restarted(samples)


def test_a_process_that_dates_its_start_anew_has_restarted() -> None:
    """Its counters may have passed the old ones by then; a second's difference is the same start told twice."""
    assert restarted(frame(sample(0, server_start_s=1000.0), sample(1, server_start_s=1060.0)))
    assert not restarted(frame(sample(0, server_start_s=1000.0), sample(1), sample(2, server_start_s=1001.0)))


def test_a_counter_is_nothing_until_the_page_shows_it() -> None:
    """Many servers show a counter from its first event on: 3 rejections since a page that did not have it."""
    samples = frame(sample(0, running=1.0), sample(1, running=1.0), sample(2, rejected_total=3.0))
    assert increase(samples, "rejected_total", SECOND, 10 * SECOND) == 3
    assert increase(samples, "num_preemptions_total", SECOND, 10 * SECOND) is None
    unseen = frame(replace(sample(0), source="slots"), sample(2, rejected_total=3.0))
    assert increase(unseen, "rejected_total", 0, 10 * SECOND) is None


def test_the_servers_own_times_are_means_of_what_was_added() -> None:
    """10 first tokens in 4.1 s and 100 gaps in 2 s since the sample before the window."""
    before = sample(9, ttft_s_total=100.0, ttft_count=50.0, itl_s_total=7.0, itl_count=900.0)
    after = sample(19, ttft_s_total=104.1, ttft_count=60.0, itl_s_total=9.0, itl_count=1000.0)
    found = engine_numbers(frame(before, after), 10 * SECOND, 20 * SECOND)
    assert found["server_ttft_mean_s"] == pytest.approx(0.41)
    assert found["server_itl_mean_s"] == pytest.approx(0.02)


def test_the_fullest_interval_is_the_largest_mean_step() -> None:
    """1,000 tokens in 10 steps, then 300 in 100: at most 100 a step although 11.8 on average."""
    totals = ((0.0, 0.0), (1000.0, 10.0), (1300.0, 110.0))
    samples = frame(*[sample(i, iteration_tokens_total=t, iterations_total=n) for i, (t, n) in enumerate(totals)])
    found = engine_numbers(samples, 0, 10 * SECOND)
    assert found["batch_tokens_max"] == 100
    assert found["batch_tokens_mean"] == pytest.approx(1300 / 110)
    assert found["batch_seqs_max"] is None


@pytest.mark.parametrize(
    ("last", "most"),
    [
        ({"8.0": 85, "512.0": 100, "1024.0": 110, "+Inf": 110}, 512),  # ten steps more, none above 512
        ({"8.0": 85, "512.0": 99, "1024.0": 109, "+Inf": 110}, None),  # one above every bound
        ({"8.0": 5, "512.0": 5, "1024.0": 5, "+Inf": 5}, 8),  # started anew: five steps in all
        ({"8.0": 80, "512.0": 90, "1024.0": 100, "+Inf": 100}, None),  # no step at all
    ],
)
def test_no_step_held_more_than_the_bucket_that_all_are_in(last: dict[str, float], most: float | None) -> None:
    """The histogram tells the fullest step only to its next bound; what was before the window does not count."""
    before = {"8.0": 80, "512.0": 90, "1024.0": 100, "+Inf": 100}
    samples = frame(*[sample(i, iteration_tokens_buckets=json.dumps(b)) for i, b in ((5, before), (15, last))])
    assert engine_numbers(samples, 10 * SECOND, 20 * SECOND)["batch_tokens_at_most"] == most


def test_kv_use_is_the_fullest_engines_and_what_ran_then() -> None:
    """The mean over engines is kept apart; 41 ran when one of them was full."""
    samples = frame(
        sample(0, kv_cache_usage=0.5, kv_cache_usage_max=0.97, running=41.0),
        sample(1, kv_cache_usage=0.3, kv_cache_usage_max=0.4, running=60.0),
    )
    found = engine_numbers(samples, 0, 2 * SECOND)
    assert (found["kv_cache_usage_max"], found["running_at_full_kv"]) == (0.97, 41)
    assert found["kv_cache_usage_mean"] == pytest.approx(0.4)
    old = engine_numbers(frame(sample(0, kv_cache_usage=0.6)), 0, SECOND)
    assert (old["kv_cache_usage_max"], old["running_at_full_kv"]) == (0.6, None)


def test_share_of_the_window_at_a_level() -> None:
    """At 4 for 3 s of 10; the same from spans, where 2 overlap for 1 s of 10."""
    samples = frame(sample(0, running=2.0), sample(5, running=4.0), sample(8, running=3.0))
    assert share_at_least(samples, "running", 4, 0, 10 * SECOND) == pytest.approx(0.3)
    assert busy_share(np.array([0.0, 4.0]), np.array([5.0, 8.0]), 2, 0, 10) == pytest.approx(0.1)
    assert busy_share(np.array([]), np.array([]), 1, 0, 10) == 0


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


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=20))
def test_concurrency_equals_counting_every_instant(spans: list[tuple[int, int]]) -> None:
    """Mean and maximum over [10, 40) equal a count at each unit of time."""
    starts = np.array([min(s) for s in spans], dtype=np.float64)
    ends = np.array([max(s) for s in spans], dtype=np.float64)
    open_at = [int(((starts <= t) & (ends > t)).sum()) for t in range(10, 40)]
    assert concurrency(starts, ends, 10.0, 40.0) == (pytest.approx(sum(open_at) / 30), max(open_at))
