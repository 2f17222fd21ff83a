"""Chunk gaps of many requests as flat arrays. Gaps are between *chunks*: tokens that share a chunk have none."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Gaps:
    """All gaps of a request table, in the table's row order; m gaps in all, one entry of `count` and `start` a row.

    A request of k chunks has k - 1 gaps; those of row r are the flat slice start[r] : start[r] + count[r].
    """

    row: Ints  # (m,) position in the request table
    order: Ints  # (m,) 1-based place of the gap within its request: i in y_{i+1} - y_i
    gap_us: Ints  # (m,)
    elapsed_us: Ints  # (m,) from the request's first chunk to the chunk that ends the gap
    at_ns: Floats  # (m,) arrival of the chunk that ends the gap, on the cell's clock
    start: Ints  # (rows,)
    count: Ints  # (rows,)

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


def gap_table(requests: pd.DataFrame) -> Gaps:
    """Flattens `chunk_deltas_us` (microseconds) of every row. Cost is linear in the number of chunks."""
    deltas = requests["chunk_deltas_us"].tolist()
    count = np.fromiter((len(d) for d in deltas), dtype=np.int64, count=len(deltas))
    start = np.concatenate([[0], np.cumsum(count)[:-1]]).astype(np.int64) if len(count) else count
    gap_us = np.concatenate(deltas).astype(np.int64) if count.any() else np.zeros(0, dtype=np.int64)
    row = np.repeat(np.arange(len(count), dtype=np.int64), count)
    total = np.cumsum(gap_us)
    before = np.concatenate([[0], total])[start] if len(count) else count
    elapsed_us = total - before[row]
    first_ns = requests["first_chunk_ns"].to_numpy(dtype=np.float64, na_value=np.nan)
    return Gaps(
        row=row,
        order=np.arange(1, len(row) + 1, dtype=np.int64) - start[row],
        gap_us=gap_us,
        elapsed_us=elapsed_us,
        at_ns=first_ns[row] + elapsed_us * 1000.0,
        start=start,
        count=count,
    )


def nearest_rank_p99(gaps: Gaps) -> Floats:
    """Per row, in ms: the smallest of its own gaps that at least 99 % of them do not exceed; NaN without gaps.

    With at most 99 gaps that is the largest one.
    """
    out = np.full(len(gaps.count), np.nan)
    filled = gaps.count > 0
    if not filled.any():
        return out
    # one sort of (row, gap) packed into an integer is several times faster than lexsort
    bits = int(gaps.gap_us.max()).bit_length() + 1
    packed = np.sort((gaps.row << bits) | gaps.gap_us)
    rank = (99 * gaps.count[filled] + 99) // 100
    out[filled] = (packed[gaps.start[filled] + rank - 1] & ((1 << bits) - 1)) / 1000.0
    return out
