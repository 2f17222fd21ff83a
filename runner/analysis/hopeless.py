"""Can a cell that is still running meet its targets at all? Its misses so far against the most that a pass allows."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from runner.analysis.intervals import allowed_misses
from runner.config import Slo
from storage.records import RequestRecord

SPARE = 3  # misses more that a search bears with, or a small cell would be cut by one crowd


@dataclass
class Hopes:
    """Told of every request of a cell as it ends. `planned`: by class with targets, how many requests of an open loop
    are scheduled in the window; a class that is not in it is not looked at. Window in ns on the cell's clock.
    `searching`: cells are pooled, and what one of them cannot prove several may: only twice the misses of a share at
    the target are too many.
    """

    targets: Mapping[str, Slo]
    planned: Mapping[str, int]
    share_target: float
    start_ns: float
    end_ns: float
    searching: bool = False
    missed: Counter[str] = field(default_factory=Counter)

    def note(self, record: RequestRecord) -> str | None:
        """Once no outcome of the rest can prove the share any more: why, in a sentence; else null.

        A class of which too few are planned to prove anything is never given up.
        """
        name = record.class_name
        if name not in self.planned or not self.start_ns <= record.scheduled_ns < self.end_ns:
            return None
        if not surely_missed(record, self.targets[name]):
            return None
        self.missed[name] += 1
        planned, misses = self.planned[name], (1.0 - self.share_target) * self.planned[name]
        allowed = int(misses + 1e-9) if self.searching else allowed_misses(planned, self.share_target)
        if not 0 <= allowed < self.missed[name] or (self.searching and self.missed[name] <= SPARE + 2 * misses):
            return None
        return (
            f"cut short: {self.missed[name]} of the {planned} requests of class {name} had missed their "
            f"targets already, and no more than {allowed} may for a share of {self.share_target:.0%}".replace("%", " %")
        )


def surely_missed(record: RequestRecord, slo: Slo) -> bool:
    """A miss whatever the whole table may say of it. Of the gap rules those are looked at that need no deadlines."""
    if record.outcome == "error":
        return True
    if record.first_chunk_ns is None:
        return False
    if record.first_chunk_ns - record.scheduled_ns > slo.ttft_ms * 1e6:
        return True
    gaps = record.chunk_deltas_us
    if record.outcome != "ok" or not len(gaps):
        return False
    if slo.rule == "mean_tpot":
        tokens = record.output_tokens or 0
        return tokens > 1 and sum(gaps) / 1000.0 / (tokens - 1) > slo.gap_ms
    if slo.rule not in ("p99_gap", "every_gap") or max(gaps) / 1000.0 <= slo.gap_ms:
        return False
    excused = len(gaps) - math.ceil(round(0.99 * len(gaps), 9)) if slo.rule == "p99_gap" else 0
    return sum(gap / 1000.0 > slo.gap_ms for gap in gaps) > excused
