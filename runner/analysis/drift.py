"""Did the machine change while the sweep ran? The first cell, measured again at the end, against itself.

Both had the same arrivals and lengths, so shares are compared request by request, at the design effect of the less
certain one, and throughput tenth by tenth of the window. A difference counts when it lies beyond its 95 % interval and
is large enough to matter.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from runner.analysis.gaps import Bools, Floats, gap_table
from runner.analysis.goodput import Judged
from runner.analysis.intervals import paired_shares
from runner.analysis.percentiles import percentiles_with_intervals
from runner.analysis.prepare import ENDED, CellFacts, Prepared
from runner.analysis.requests import floats
from runner.analysis.score import Verdicts, crowd_of, score_cells, verdicts_of
from runner.analysis.student import t95
from runner.analysis.throughput import throughput
from runner.config import GapRule, Slo

TENTHS = 10
SMALLEST_PART = 0.05  # of TTFT and throughput; a simulated engine differs by nothing, and by that every time
SMALLEST_SHARE = 0.02


@dataclass(frozen=True)
class Side:
    """One of the two measurements. `met`: by index in the trace and class, only requests that could be judged."""

    met: Mapping[tuple[int, str], bool]
    output_tok_per_s: Floats  # in each tenth of the window
    ttft_ms: Floats  # of the answers that count, in order of arrival
    deff: float = 1.0  # design effect of the share


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
    before, after = (np.array([side.met[k] for k in both], dtype=bool) for side in (first, again))
    mean, low, high = paired_shares(after, before, max(first.deff, again.deff))
    beyond = not low <= 0.0 <= high and abs(mean) >= SMALLEST_SHARE
    return Change("share", float(before.mean()), float(after.mean()), beyond)


def _throughput(first: Floats, again: Floats) -> Change | None:
    before, difference = float(first.mean()), again - first
    if before <= 0:
        return None
    half = t95(TENTHS - 1) * float(difference.std(ddof=1)) / TENTHS**0.5
    mean = float(difference.mean())
    return Change(
        "output_tok_per_s", before, float(again.mean()), abs(mean) > half and abs(mean) >= SMALLEST_PART * before
    )


def _ttft(first: Side, again: Side) -> Change | None:
    before, after = (percentiles_with_intervals(side.ttft_ms) for side in (first, again))
    a, b = before["p50"], after["p50"]
    if a is None or b is None:
        return None
    apart = _below(before, after) or _below(after, before)
    return Change("ttft_p50_ms", a, b, apart and abs(b - a) >= SMALLEST_PART * a)


def _below(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> bool:
    """Whether one median is surely below the other; a side that is open leaves it in doubt."""
    high, low = lower["p50_high"], upper["p50_low"]
    return high is not None and low is not None and bool(high < low)


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
        changes = compare(*(_side(prepared, facts, own, targets) for facts in (first, again)))
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


def _side(prepared: Prepared, facts: CellFacts, own: Verdicts, targets: Mapping[str, Slo]) -> Side:
    rows = prepared.requests.iloc[facts.rows].reset_index(drop=True)
    gaps = gap_table(rows)
    record = prepared.tables.cells[prepared.tables.cells["cell"] == facts.cell].iloc[0]
    edges = np.linspace(float(record["window_start_ns"]), float(record["window_end_ns"]), TENTHS + 1)
    tokens = [throughput(rows, gaps, a, b)["output_tok_per_s"] for a, b in pairwise(edges.tolist())]
    counted: Bools = rows["in_window"].to_numpy(dtype=bool) & rows["latency_counts"].to_numpy(dtype=bool)
    part = Verdicts(own.met[facts.rows], own.judged[facts.rows], own.names[facts.rows])
    numbers = rows["request"].to_numpy(dtype=np.int64)
    return Side(
        {(int(numbers[i]), str(part.names[i])): bool(part.met[i]) for i in np.flatnonzero(part.judged)},
        np.array(tokens),
        floats(rows["ttft_ms"])[counted],
        part.share(part.judged, crowd_of(facts, targets)).deff,
    )
