"""Derived numbers of single requests, worked out by hand."""

import math

import numpy as np
import pytest

from runner.analysis.requests import request_table
from tests.support.tables import CHAT, MS, make_cell, make_config, make_request, make_tables


def test_times_of_one_request() -> None:
    """TTFT and E2E run from the scheduled arrival, ttft_from_send from the send; the difference is the send lag."""
    record = make_request(at_ms=1000, ttft_ms=400, gaps_ms=[40, 60], sent_ns=1100 * MS, connect_ns=2 * MS, tls_ns=MS)
    row = request_table(make_tables([record]), make_config()).iloc[0]
    assert row["ttft_ms"] == 400
    assert row["ttft_from_send_ms"] == 300
    assert row["ttft_answer_ms"] == 400
    assert row["send_lag_ms"] == 100
    assert row["connect_ms"] == 3
    assert row["e2e_ms"] == 500
    assert row["end_ms"] == 500
    assert row["tpot_ms"] == 50
    assert (row["gap_mean_ms"], row["gap_p99_ms"], row["gap_max_ms"]) == (50, 60, 60)


def test_closed_loop_counts_from_the_send() -> None:
    """A closed-loop request has no arrival of its own: its TTFT runs from the send."""
    config = make_config(classes=[{**CHAT, "weight": None, "closed": {"concurrency": 2}}], grid={"max_num_seqs": [4]})
    record = make_request(ttft_ms=400, sent_ns=100 * MS)
    assert request_table(make_tables([record], config=config), config).iloc[0]["ttft_ms"] == 300


def test_a_weighted_class_under_max_concurrency_is_a_closed_loop() -> None:
    """max_concurrency turns the weighted classes into closed loops, so TTFT runs from the send there too."""
    config = make_config(grid={"max_num_seqs": [4], "max_concurrency": [2]})
    cells = [make_cell(load={"max_concurrency": 2})]
    record = make_request(ttft_ms=400, sent_ns=100 * MS)
    assert request_table(make_tables([record], cells=cells, config=config), config).iloc[0]["ttft_ms"] == 300


def test_tpot_divides_by_told_tokens_not_by_chunks() -> None:
    """12 tokens in 3 chunks over 120 ms are 120/11 ms a token, and two gaps of 60 ms."""
    record = make_request(ttft_ms=200, gaps_ms=[60, 60], output_tokens=12)
    row = request_table(make_tables([record]), make_config()).iloc[0]
    assert row["tpot_ms"] == pytest.approx(120 / 11)
    assert row["gap_mean_ms"] == 60


def test_one_token_and_no_token_have_no_tpot_and_no_gap() -> None:
    """n <= 1 leaves TPOT and gaps null instead of dividing by zero (five tokens in 200 ms: 50 ms)."""
    records = [
        make_request(0, ttft_ms=300),
        make_request(1, ttft_ms=None, outcome="error", error_kind="empty_stream"),
        make_request(2, ttft_ms=300, gaps_ms=[50] * 4),
    ]
    rows = request_table(make_tables(records), make_config())
    assert rows["tpot_ms"].isna().tolist() == [True, True, False]
    assert rows["tpot_ms"][2] == 50
    assert rows["gap_p99_ms"].isna().tolist() == [True, True, False]


def test_a_buffered_stream_has_a_ttft_but_no_gaps() -> None:
    """40 tokens in one block say nothing about gaps: TPOT and gaps are null, never zero."""
    row = request_table(make_tables([make_request(ttft_ms=3000, gaps_ms=[0] * 39)]), make_config()).iloc[0]
    assert row["buffered"]
    assert row["ttft_ms"] == 3000
    assert all(math.isnan(row[k]) for k in ("tpot_ms", "gap_mean_ms", "gap_p99_ms", "gap_max_ms"))


def test_every_request_has_exactly_one_fate() -> None:
    """429 and 503 are rejected, other errors failed, our own end cancelled; the four add up to all rows."""
    kinds = ["rate_limited", "overloaded", "timeout", "truncated", "something_new", None]
    records = [make_request(i, outcome="error", error_kind=kind) for i, kind in enumerate(kinds)]
    records += [make_request(6), make_request(7, outcome="cancelled", error_kind="cancelled")]
    rows = request_table(make_tables(records), make_config()).sort_values("request")
    fates = rows[["completed", "failed", "rejected", "cancelled"]].to_numpy(dtype=int)
    assert fates.sum(axis=1).tolist() == [1] * 8
    assert rows["rejected"].tolist() == [True, True] + [False] * 6
    assert rows["failed"].tolist() == [False, False, True, True, True, True, False, False]


def test_the_window_is_by_scheduled_arrival() -> None:
    """Start included, end excluded; what arrives inside and ends after it counts."""
    records = [make_request(i, at_ms=at, ttft_ms=90_000) for i, at in enumerate((9_999, 10_000, 19_999, 20_000))]
    cells = [make_cell(window_start_ns=10_000 * MS, window_end_ns=20_000 * MS)]
    rows = request_table(make_tables(records, cells=cells), make_config())
    assert rows["in_window"].tolist() == [False, True, True, False]


def test_a_cold_model_load_stays_out_of_latencies() -> None:
    """More than 500 ms of loading keeps the row (TTFT 6200) but not as a latency of the steady server."""
    records = [make_request(0, ttft_ms=6200, load_ms=6000.0), make_request(1, load_ms=400.0), make_request(2)]
    rows = request_table(make_tables(records), make_config())
    assert rows["latency_counts"].tolist() == [False, True, True]
    assert rows["ttft_ms"][0] == 6200


def test_an_empty_table_keeps_its_columns() -> None:
    """No request at all gives no rows, and every derived column."""
    rows = request_table(make_tables(), make_config())
    assert len(rows) == 0
    assert {"ttft_ms", "tpot_ms", "in_window", "completed"} <= set(rows.columns)
    assert rows["ttft_ms"].dtype == np.float64
