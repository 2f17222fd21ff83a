"""Gaps as flat arrays, and the request's own P99 gap."""

import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.analysis import gaps as gaps_module
from runner.analysis.gaps import gap_blocks, gap_sums, gap_table

MICROS = st.lists(st.integers(0, 2**32 - 1), max_size=150)


def frame(deltas: list[list[int]]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "first_chunk_ns": pd.array([1_000_000 * i for i in range(len(deltas))], dtype="Int64"),
            "chunk_deltas_us": pd.Series([np.asarray(d, dtype=np.uint32) for d in deltas], dtype=object),
        }
    )


def test_flat_arrays_of_three_requests() -> None:
    """Each gap knows its row, its place, the time since its request's first chunk and its arrival on the cell clock."""
    gaps = gap_table(frame([[10, 20], [], [5]]))
    assert gaps.row.tolist() == [0, 0, 2]
    assert gaps.order.tolist() == [1, 2, 1]
    assert gaps.gap_us.tolist() == [10, 20, 5]
    assert gaps.elapsed_us.tolist() == [10, 30, 5]
    assert gaps.at_ns.tolist() == [10_000, 30_000, 2_005_000]
    assert gaps.start.tolist() == [0, 2, 2]
    assert gaps.count.tolist() == [2, 0, 1]
    assert gaps.per_row(gaps.gap_us, np.add, -1.0).tolist() == [30, -1, 5]


def test_no_requests_and_no_gaps() -> None:
    """An empty table and a table of single-chunk answers give empty arrays, not errors."""
    for deltas in ([], [[], []]):
        gaps = gap_table(frame(deltas))
        assert len(gaps.gap_ms) == 0
        assert len(gaps.count) == len(deltas)
        assert np.isnan(gap_sums(frame(deltas)).p99_ms).all()


def test_p99_is_the_largest_gap_up_to_99_gaps_and_then_one_may_stall() -> None:
    """Nearest rank: of 99 gaps the 99th, of 100 gaps the 99th too, of 200 the 198th."""
    for n, expected in ((1, 1), (99, 99), (100, 99), (101, 100), (200, 198)):
        assert gap_sums(frame([list(range(n * 1000, 0, -1000))])).p99_ms.tolist() == [expected]


@settings(max_examples=40)
@given(st.lists(MICROS, min_size=1, max_size=6))
def test_p99_is_the_least_gap_that_99_percent_do_not_exceed(deltas: list[list[int]]) -> None:
    """At least 99 % of a request's own gaps are at or below its P99 gap, and fewer are below any smaller gap."""
    for own, p99 in zip(deltas, gap_sums(frame(deltas)).p99_ms, strict=True):
        if not own:
            assert np.isnan(p99)
            continue
        below = [sum(g <= limit for g in own) for limit in sorted(set(own))]
        least = next(g for g, k in zip(sorted(set(own)), below, strict=True) if 100 * k >= 99 * len(own))
        assert p99 == least / 1000


@settings(max_examples=40)
@given(st.lists(MICROS, min_size=1, max_size=5))
def test_elapsed_is_the_running_sum_within_a_request(deltas: list[list[int]]) -> None:
    """elapsed_us starts anew with each request."""
    gaps = gap_table(frame(deltas))
    assert gaps.elapsed_us.tolist() == [int(v) for d in deltas for v in np.cumsum(np.asarray(d, dtype=np.int64))]


def test_a_million_gaps_are_quick() -> None:
    """Flattening and the P99 of a million gaps take a fraction of a second, not a loop over tokens."""
    block = np.full(100, 40_000, dtype=np.uint32)
    requests = pd.DataFrame(
        {"first_chunk_ns": pd.array([0] * 10_000, dtype="Int64"), "chunk_deltas_us": [block] * 10_000}
    )
    begin = time.process_time()
    assert gap_sums(requests).p99_ms.tolist() == [40.0] * 10_000
    assert time.process_time() - begin < 5.0


def test_blocks_hold_few_gaps_and_every_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut before the row that would be too much; a row that is too much alone stands alone."""
    monkeypatch.setattr(gaps_module, "_BLOCK_GAPS", 4)
    table = frame([[1] * n for n in (2, 2, 1, 9, 0, 4, 1)])
    assert [(b.start, b.stop) for b in gap_blocks(table)] == [(0, 2), (2, 3), (3, 4), (4, 6), (6, 7)]
    assert list(gap_blocks(frame([]))) == []
    whole = gap_sums(table)
    monkeypatch.setattr(gaps_module, "_BLOCK_GAPS", 10**9)
    at_once = gap_sums(table)
    for name in ("count", "spread_us", "p99_ms", "longest_ms"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(at_once, name))


@settings(max_examples=40)
@given(st.lists(st.tuples(MICROS, st.booleans()), max_size=6))
def test_a_part_of_the_table_is_the_table_of_the_part(rows: list[tuple[list[int], bool]]) -> None:
    """Choosing rows before flattening or after it is the same."""
    requests, chosen = frame([own for own, _ in rows]), np.array([c for _, c in rows], dtype=bool)
    part, alone = gap_table(requests).of_rows(chosen), gap_table(requests[chosen])
    for name in ("row", "order", "gap_us", "elapsed_us", "at_ns", "start", "count"):
        np.testing.assert_array_equal(getattr(part, name), getattr(alone, name))
