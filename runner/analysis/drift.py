"""Did the machine change while the sweep ran? The first cell, measured again at the end, against itself.

Both had the same arrivals and lengths, so shares are compared request by request and throughput tenth by tenth of the
window. A difference counts when it lies beyond its 95 % interval and is large enough to matter.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from runner.analysis.gaps import Bools, Floats, gap_table
from runner.analysis.goodput import Judged
from runner.analysis.intervals import paired_difference
from runner.analysis.percentiles import interval, nearest_rank
from runner.analysis.prepare import ENDED, CellFacts, Prepared
from runner.analysis.requests import floats
from runner.analysis.score import Verdicts, score_cells, verdicts_of
from runner.analysis.throughput import throughput
from runner.config import GapRule, Slo

TENTHS = 10
T9 = 2.2621571628540993  # two-sided 95 % point of Student's t with 9 degrees of freedom
SMALLEST_PART = 0.05  # of TTFT and throughput; a simulated engine differs by nothing, and by that every time
SMALLEST_SHARE = 0.02


@dataclass(frozen=True)
class Side:
    """One of the two measurements. `met`: by index in the trace and class, only requests that could be judged."""

    met: Mapping[tuple[int, str], bool]
    output_tok_per_s: Floats  # in each tenth of the window
    ttft_ms: Floats  # of the answers that count


@dataclass(frozen=True)
class Change:
    """One metric; `differs`: beyond its interval and worth a word."""

    metric: str  # share | output_tok_per_s | ttft_p50_ms
    first: float
    again: float
    differs: bool

    @property
    def text(self) -> str:
        """ "TTFT P50 150 ms instead of 100 ms"."""
        if self.metric == "share":
            return f"{self.again:.0%} instead of {self.first:.0%} within the targets".replace("%", " %")
        if self.metric == "ttft_p50_ms":
            return f"TTFT P50 {self.again:.0f} ms instead of {self.first:.0f} ms"
        return f"{self.again:.1f} instead of {self.first:.1f} output tok/s"


def compare(first: Side, again: Side) -> list[Change]:
    """The metrics that both sides can tell: share (with targets), throughput, median TTFT (from 6 answers on)."""
    found = [_share(first, again), _throughput(first.output_tok_per_s, again.output_tok_per_s), _ttft(first, again)]
    return [change for change in found if change is not None]


def _share(first: Side, again: Side) -> Change | None:
    both = sorted(first.met.keys() & again.met.keys())
    if not both:
        return None
    before, after = (np.array([side.met[k] for k in both], dtype=np.float64) for side in (first, again))
    mean, low, high = paired_difference(after, before)
    beyond = not low <= 0.0 <= high and abs(mean) >= SMALLEST_SHARE
    return Change("share", float(before.mean()), float(after.mean()), beyond)


def _throughput(first: Floats, again: Floats) -> Change | None:
    before, difference = float(first.mean()), again - first
    if before <= 0:
        return None
    half = T9 * float(difference.std(ddof=1)) / math.sqrt(len(difference))
    mean = float(difference.mean())
    return Change(
        "output_tok_per_s", before, float(again.mean()), abs(mean) > half and abs(mean) >= SMALLEST_PART * before
    )


def _ttft(first: Side, again: Side) -> Change | None:
    before, after = interval(first.ttft_ms, 0.5), interval(again.ttft_ms, 0.5)
    if before is None or after is None:
        return None
    a, b = (nearest_rank(side.ttft_ms[~np.isnan(side.ttft_ms)], 0.5) for side in (first, again))
    apart = before[1] < after[0] or after[1] < before[0]
    return Change("ttft_p50_ms", a, b, apart and abs(b - a) >= SMALLEST_PART * a)


def drift_of(
    prepared: Prepared, targets: Mapping[str, Slo], judged: Judged, rule: GapRule | None
) -> tuple[dict[str, Any] | None, list[Change]]:
    """The `drift` of the result object, and what it found; null until the repeated cell has ended.

    Its `row` has the keys of a `cells[]` row. `metrics` is empty when one of the two gave no numbers.
    """
    again, first = prepared.drift, next((f for f in prepared.cells if f.cell == 0), None)
    if again is None or again.status not in ENDED:
        return None, []
    (row,), _ = score_cells(drift_alone(prepared), targets, judged, rule)
    changes = []
    if first is not None and first.window_s and again.window_s:
        own = verdicts_of(prepared, judged, rule)
        changes = compare(_side(prepared, first, own), _side(prepared, again, own))
    told = {
        "cell": again.cell,
        "first_cell": 0,
        "drifted": any(c.differs for c in changes),
        "metrics": {c.metric: {"first": c.first, "again": c.again, "differs": c.differs} for c in changes},
        "row": {**row, "drift": True},
    }
    return told, changes


def drift_alone(prepared: Prepared) -> Prepared:
    """With the repeated cell in place of the others: what is told of a cell can be told of it too."""
    return replace(prepared, cells=(prepared.drift,) if prepared.drift else ())


def _side(prepared: Prepared, facts: CellFacts, own: Verdicts) -> Side:
    rows = prepared.requests.iloc[facts.rows].reset_index(drop=True)
    gaps = gap_table(rows)
    record = prepared.tables.cells[prepared.tables.cells["cell"] == facts.cell].iloc[0]
    edges = np.linspace(float(record["window_start_ns"]), float(record["window_end_ns"]), TENTHS + 1)
    tokens = [throughput(rows, gaps, a, b)["output_tok_per_s"] for a, b in pairwise(edges.tolist())]
    counted: Bools = rows["in_window"].to_numpy(dtype=bool) & rows["latency_counts"].to_numpy(dtype=bool)
    met, could, names = own.met[facts.rows], own.judged[facts.rows], own.names[facts.rows]
    numbers = rows["request"].to_numpy(dtype=np.int64)
    return Side(
        {(int(numbers[i]), str(names[i])): bool(met[i]) for i in np.flatnonzero(could)},
        np.array(tokens),
        floats(rows["ttft_ms"])[counted],
    )
