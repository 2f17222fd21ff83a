"""What our own loop did to the times is told from what the server did."""

from collections.abc import Sequence

import pytest

from runner.analysis.own_stalls import hit_by_own_stalls
from runner.analysis.requests import request_table
from runner.analysis.result import build_result
from storage.records import ClientSample, RequestRecord
from tests.support.tables import SECOND, make_config, make_request, make_tables

STEADY = [20.0] * 30
OURS = [20.0] * 10 + [300.0, *[0.0] * 12, 300.0, *[0.0] * 14, *[20.0] * 5]  # what came meanwhile, in two reads
THEIRS = [20.0] * 10 + [600.0, *[20.0] * 20]


def samples(*lags_ms: float) -> list[ClientSample]:
    """One look a second, the first after a second."""
    return [ClientSample(0, (i + 1) * SECOND, lag, 0.1, 8) for i, lag in enumerate(lags_ms)]


def hits(rows: Sequence[RequestRecord], *lags_ms: float) -> list[bool]:
    tables = make_tables(rows, client=samples(*lags_ms))
    return [bool(hit) for hit in hit_by_own_stalls(request_table(tables, make_config()), tables.client)]


def test_a_long_gap_before_chunks_without_any_is_ours_while_we_stood_still() -> None:
    """At 2.3 s of the cell; in a second in which no timer was late it is the server's, which may send in bursts."""
    rows = [make_request(0, at_ms=2000, gaps_ms=OURS), make_request(1, at_ms=2001, gaps_ms=STEADY)]
    assert hits(rows, 1, 1, 650, 1, 1) == [True, False]
    assert hits(rows, 1, 1, 1, 1, 1) == hits(rows, 650, 1, 1, 1, 1) == [False, False]


def test_a_gap_with_its_own_stamp_at_the_end_is_the_server_s() -> None:
    """The server stood still: also while a timer of ours was late, nothing was read together."""
    assert hits([make_request(0, at_ms=2000, gaps_ms=THEIRS)], 1, 1, 650, 1) == [False]


def test_a_first_chunk_read_with_later_ones_is_dated_by_us() -> None:
    """Its TTFT is that of the last chunk of the read."""
    rows = [make_request(0, at_ms=2000, ttft_ms=400, gaps_ms=[0, 0, 0, 20, 20])]
    assert hits(rows, 1, 1, 450, 1) == [True]
    assert hits(rows, 1, 1, 1, 1) == [False]


@pytest.mark.parametrize(("hit", "flagged"), [(0, False), (1, False), (2, True)])
def test_a_single_stall_counts_when_it_met_more_than_one_answer_in_a_hundred(hit: int, flagged: bool) -> None:
    """One late second of a hundred is a hiccup, unless so many answers would be held against the server."""
    rows = [make_request(i, at_ms=1000 * i, gaps_ms=STEADY) for i in range(100 - hit)]
    rows += [make_request(100 + i, at_ms=50_000 + i, gaps_ms=OURS) for i in range(hit)]
    lags = [650.0 if i == 50 else 1.0 for i in range(100)]
    cell = build_result(make_tables(rows, client=samples(*lags)))["cells"][0]
    assert ("client_saturated" in cell["flags"]) is flagged
    assert any(w["values"].get("loop_lag_ms") == 650.0 for w in cell["warnings"]) is flagged


@pytest.mark.parametrize(("lag_ms", "told"), [(650.0, "client_saturated"), (1.0, "stream_buffered")])
def test_short_answers_read_in_one_piece_after_a_stall_of_ours_are_not_held_against_the_server(
    lag_ms: float, told: str
) -> None:
    """Ten of a hundred answers of four tokens have one stamp: while our loop stood still that is our doing, else the
    server or a proxy kept them back."""
    whole = [make_request(i, at_ms=50_000 + i, ttft_ms=400, gaps_ms=[0, 0, 0]) for i in range(10)]
    rows = [*whole, *(make_request(10 + i, at_ms=1000 * i, gaps_ms=[20, 20, 20]) for i in range(90))]
    lags = [lag_ms if i == 50 else 1.0 for i in range(100)]
    cell = build_result(make_tables(rows, client=samples(*lags)))["cells"][0]
    assert [f for f in ("client_saturated", "stream_buffered") if f in cell["flags"]] == [told]
