"""Chunk gaps of many requests as flat arrays. Gaps are between *chunks*: tokens that share a chunk have none."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
_BLOCK_GAPS = 500_000  # looked at together: a few MB an array stay near the processor


@dataclass(frozen=True)
class Gaps:
    """All gaps of a request table, in the table's row order; m gaps in all, one entry of `count` and `start` a row.

    A request of k chunks has k - 1 gaps; those of row r are the flat slice start[r] : start[r] + count[r].
    """

    row: Ints  # (m,) position in the request table
    gap_us: Ints  # (m,)
    elapsed_us: Ints  # (m,) from the request's first chunk to the chunk that ends the gap
    at_ns: Floats  # (m,) arrival of the chunk that ends the gap, on the cell's clock
    start: Ints  # (rows,)
    count: Ints  # (rows,)

    @property
    def order(self) -> Ints:
        """(m,) 1-based place of the gap within its request: i in y_{i+1} - y_i."""
        return np.arange(1, len(self.row) + 1, dtype=np.int64) - self.start[self.row]

    @property
    def gap_ms(self) -> Floats:
        return self.gap_us / 1000.0

    def per_row(self, values: npt.NDArray[np.generic], reduce: np.ufunc, empty: float) -> Floats:
        """Reduces one flat array to one number a row; `empty` for rows without gaps."""
        out = np.full(len(self.count), empty, dtype=np.float64)
        filled = self.count > 0
        if filled.any():
            out[filled] = reduce.reduceat(values, self.start[filled])
        return out

    def of_rows(self, chosen: Bools) -> "Gaps":
        """The table of the chosen rows alone (booleans over the rows)."""
        mine, place = chosen[self.row], np.cumsum(chosen) - 1
        count = self.count[chosen]
        return Gaps(
            row=place[self.row[mine]],
            gap_us=self.gap_us[mine],
            elapsed_us=self.elapsed_us[mine],
            at_ns=self.at_ns[mine],
            start=_starts(count),
            count=count,
        )


def gap_blocks(requests: pd.DataFrame) -> Iterator[slice]:
    """Rows in order, cut so that the gaps of one piece are few enough to be flattened together: a whole sweep's gaps
    would take a hundred bytes a token."""
    ends = np.cumsum(_counts(requests["chunk_deltas_us"].tolist()))
    first = 0
    while first < len(ends):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + _BLOCK_GAPS, side="right")))
        yield slice(first, last)
        first = last


def _counts(deltas: "list[Ints]") -> Ints:
    return np.fromiter(map(len, deltas), dtype=np.int64, count=len(deltas))


def _starts(count: Ints) -> Ints:
    return np.cumsum(count) - count


def gap_table(requests: pd.DataFrame) -> Gaps:
    """Flattens `chunk_deltas_us` (microseconds) of every row. Cost is linear in the number of chunks."""
    deltas = requests["chunk_deltas_us"].tolist()
    count = _counts(deltas)
    start = _starts(count)
    gap_us = np.concatenate(deltas).astype(np.int64) if count.any() else np.zeros(0, dtype=np.int64)
    row = np.repeat(np.arange(len(count), dtype=np.int64), count)
    total = np.cumsum(gap_us)
    before = np.concatenate([[0], total])[start] if len(count) else count
    elapsed_us = total - before[row]
    first_ns = requests["first_chunk_ns"].to_numpy(dtype=np.float64, na_value=np.nan)
    return Gaps(
        row=row,
        gap_us=gap_us,
        elapsed_us=elapsed_us,
        at_ns=first_ns[row] + elapsed_us * 1000.0,
        start=start,
        count=count,
    )


@dataclass(frozen=True)
class GapSums:
    """What is told of each request's own gaps, one entry a row."""

    count: Ints
    spread_us: Floats  # their sum: from the first chunk to the last; 0 without gaps
    p99_ms: Floats  # nearest rank: the smallest that at least 99 % of them do not exceed; NaN without gaps
    longest_ms: Floats  # NaN without gaps


def gap_sums(requests: pd.DataFrame) -> GapSums:
    """Of every row of a request table, a block of rows at a time. With at most 99 gaps the P99 is the longest one."""
    count = _counts(requests["chunk_deltas_us"].tolist())
    spread, p99, longest = np.zeros(len(count)), np.full(len(count), np.nan), np.full(len(count), np.nan)
    for block in gap_blocks(requests):
        deltas = requests["chunk_deltas_us"].iloc[block].tolist()
        filled = np.flatnonzero(count[block])
        if not len(filled):
            continue
        flat = np.concatenate(deltas)
        start = _starts(count[block])[filled]
        spread[block][filled] = np.add.reduceat(flat, start, dtype=np.int64)
        longest[block][filled] = np.maximum.reduceat(flat, start) / 1000.0
        p99[block] = longest[block]
        for row in np.flatnonzero(count[block] > 99).tolist():
            own = np.array(deltas[row])
            place = (99 * len(own) + 99) // 100 - 1
            own.partition(place)
            p99[block.start + row] = own[place] / 1000.0
    return GapSums(count, spread, p99, longest)
