"""Distributions as few points, and the live reading."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.analysis.timeline import ecdf, live_summary
from tests.support.tables import make_request


@settings(max_examples=50)
@given(st.lists(st.floats(0, 1e6), max_size=400))
def test_ecdf_is_bounded_rising_and_true(values: list[float]) -> None:
    """At most 120 points, both ends included, and each share is that of the values up to its value."""
    array = np.array(values)
    found = ecdf(array)
    assert len(found) <= 120
    assert found["share"].is_monotonic_increasing
    if values:
        assert (found["value"].iloc[0], found["value"].iloc[-1]) == (min(values), max(values))
        assert found["share"].iloc[-1] == 1.0
    for value, share in zip(found["value"], found["share"], strict=True):
        assert share <= np.mean(array <= value) + 1e-12


def test_live_reading_has_no_rule_on_n() -> None:
    """Two answered requests give a reading; errors do not enter; nothing gives nulls."""
    records = [
        make_request(0, ttft_ms=200, gaps_ms=[40]),
        make_request(1, ttft_ms=220, gaps_ms=[60]),
        make_request(2, ttft_ms=1, outcome="error", error_kind="http_error"),
        make_request(3, ttft_ms=None, outcome="error", error_kind="empty_stream"),
    ]
    assert live_summary(records) == {"ttft_p50_ms": 200, "ttft_p95_ms": 220, "gap_p50_ms": 40, "gap_p95_ms": 60}
    assert set(live_summary([]).values()) == {None}


def test_live_reading_of_a_closed_loop_counts_from_the_send() -> None:
    """The same definition as the result's: closed loops from the send, open loops from the schedule."""
    record = make_request(ttft_ms=300, sent_ns=100_000_000)
    assert live_summary([record])["ttft_p50_ms"] == pytest.approx(300)
    assert live_summary([record], ["chat"])["ttft_p50_ms"] == pytest.approx(200)
