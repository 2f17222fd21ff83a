"""Chunk gaps of many requests as flat arrays. Gaps are between *chunks*: tokens that share a chunk have none."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

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

    gap_us: Ints  # (m,)
    start: Ints  # (rows,)
    count: Ints  # (rows,)
    first_ns: Floats  # (rows,) arrival of the first chunk, on the cell's clock

    @cached_property
    def row(self) -> Ints:
        """(m,) position in the request table."""
        return np.repeat(np.arange(len(self.count), dtype=np.int64), self.count)

    @cached_property
    def elapsed_us(self) -> Ints:
        """(m,) from the request's first chunk to the chunk that ends the gap."""
        return self.sums(self.gap_us)

    @cached_property
    def at_ns(self) -> Floats:
        """(m,) arrival of the chunk that ends the gap, on the cell's clock."""
        return np.repeat(self.first_ns, self.count) + self.elapsed_us * 1000.0

    @property
    def order(self) -> Ints:
        """(m,) 1-based place of the gap within its request: i in y_{i+1} - y_i."""
        return np.arange(1, len(self.gap_us) + 1, dtype=np.int64) - np.repeat(self.start, self.count)

    def sums(self, values: Ints) -> Ints:
        """(m,) running sums of one value a gap, anew from each request's first one."""
        total = np.cumsum(values)
        if not len(total):
            return total
        before = np.where(self.start > 0, total[np.maximum(self.start, 1) - 1], 0)
        sums: Ints = total - np.repeat(before, self.count)
        return sums

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
        mine, count = np.repeat(chosen, self.count), self.count[chosen]
        return Gaps(self.gap_us[mine], _starts(count), count, self.first_ns[chosen])


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
    first_ns = requests["first_chunk_ns"].to_numpy(dtype=np.float64, na_value=np.nan)
    return Gaps(gap_us, start, count, first_ns)


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
