"""Answers whose gaps our own event loop made: it stood still, and what came meanwhile was read in one go."""

import numpy as np
import pandas as pd

from runner.analysis.gaps import Bools, gap_table
from runner.analysis.requests import floats

STALL_MS = 100.0  # so late a timer of ours was
LEAST_GAP_MS = 100.0  # no usual target is shorter
SAMPLE_NS = 1.05e9  # from one client sample to the next, without what the stall itself adds


def hit_by_own_stalls(rows: pd.DataFrame, client: pd.DataFrame) -> Bools:
    """Per row of `rows`, one cell's requests: whether its times are ours and not the server's.

    Several packets that are read together carry the stamp of the last one. So what came while our loop stood still is
    a long gap and then chunks without any, or a first chunk that is dated to a later one. When the server itself
    stands still, its next chunk has a stamp of its own, and no timer of ours is late.
    """
    hit = np.zeros(len(rows), dtype=bool)
    late = client[floats(client["loop_lag_ms"]) >= STALL_MS]
    if late.empty or rows.empty:
        return hit
    gaps = gap_table(rows)
    shares = np.zeros(len(gaps.gap_us), dtype=bool)  # the chunk that ends the gap is stamped like the next one
    shares[:-1] = (gaps.gap_us[1:] == 0) & (gaps.row[1:] == gaps.row[:-1])
    some = np.flatnonzero(gaps.count > 0)
    dated_late = some[gaps.gap_us[gaps.start[some]] == 0]
    made = np.flatnonzero(shares & (gaps.gap_us >= LEAST_GAP_MS * 1000))
    for end_ns, lag_ms in zip(floats(late["at_ns"]), floats(late["loop_lag_ms"]), strict=True):
        begin_ns = end_ns - SAMPLE_NS - lag_ms * 1e6
        at_ns, first_ns = gaps.at_ns[made], gaps.first_ns[dated_late]
        hit[gaps.row[made[(at_ns >= begin_ns) & (at_ns <= end_ns)]]] = True
        hit[dated_late[(first_ns >= begin_ns) & (first_ns <= end_ns)]] = True
    return hit
