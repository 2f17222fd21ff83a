"""Requests that pass on their mean and freeze in practice: which, for how long, and when."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from runner.analysis.gaps import Bools, Floats, Ints, gap_table
from runner.analysis.goodput import judge, stalled_but_fine_on_average
from runner.analysis.prepare import Prepared
from runner.config import Slo

COLUMNS = (
    "cell", "request", "class_name", "scheduled_s", "longest_gap_ms", "at_s", "tpot_ms", "gap_target_ms", "long_gaps",
    "stalled_ms",
)  # fmt: skip


def stalled_requests(prepared: Prepared, targets: Mapping[str, Slo], cell: int | None = None) -> pd.DataFrame:
    """Answered requests of the window whose first token and mean TPOT are in target and whose own P99 gap is not; the
    longest freeze first. `cell`: only of this one. Columns:

    cell, request, class_name        scheduled_s      arrival, s since the cell's origin
    longest_gap_ms, at_s             the longest gap, and when it began (s since the cell's origin)
    tpot_ms, gap_target_ms           its mean and its target
    long_gaps, stalled_ms            gaps over the target: how many, and their sum
    """
    rows = prepared.requests
    kept = [f.cell for f in prepared.cells if cell in (None, f.cell)]
    wanted = rows["in_window"].to_numpy(dtype=bool) & np.isin(rows["cell"].to_numpy(dtype=np.int64), kept)
    judged = judge(rows, targets)
    found = rows[wanted & stalled_but_fine_on_average(rows, judged)].reset_index(drop=True)
    limit = np.asarray(found["class_name"].map({n: s.gap_ms for n, s in targets.items()}), dtype=np.float64)
    gaps = gap_table(found)
    long: Bools = gaps.gap_ms > limit[gaps.row]
    longest, at_ns = _longest(gaps.gap_ms, gaps.at_ns, gaps.row, len(found))
    out = found.assign(
        scheduled_s=found["scheduled_ns"].to_numpy(dtype=np.float64) / 1e9,
        longest_gap_ms=longest,
        at_s=at_ns / 1e9 - longest / 1e3,
        gap_target_ms=limit,
        long_gaps=np.bincount(gaps.row[long], minlength=len(found)),
        stalled_ms=np.bincount(gaps.row[long], weights=gaps.gap_ms[long], minlength=len(found)),
    )[list(COLUMNS)]
    return out.sort_values("longest_gap_ms", ascending=False, kind="stable", ignore_index=True)


def _longest(gap_ms: Floats, at_ns: Floats, row: Ints, rows: int) -> tuple[Floats, Floats]:
    """Of each row the longest gap and the arrival that ends it."""
    order = np.lexsort((gap_ms, row))
    last = np.searchsorted(row[order], np.arange(rows), side="right") - 1
    chosen = order[last] if rows else np.zeros(0, dtype=np.int64)
    return gap_ms[chosen], at_ns[chosen]
