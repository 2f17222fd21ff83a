"""What a search knows of a cell that has ended. PURE: the same stored cell always gives the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.analysis.intervals import Share
from runner.config import Scalar, Slo
from storage.records import CellRecord


@dataclass(frozen=True, slots=True)
class Ended:
    """One finished cell. `shares`: of the classes with targets whose requests could be judged."""

    cell: int
    setting: dict[str, Scalar]
    load: dict[str, Scalar]
    repeat: int
    status: str  # ok | failed | skipped
    why: str  # of a failed cell
    began: bool  # its load was sent, at least in part
    overload: bool
    client_limited: bool  # our own load generator was the doubt
    shares: dict[str, Share]
    window_s: float
    work_per_s: float  # output tokens of the classes without targets
    took_s: float  # from the first arrival to the end of the drain
    drain_s: float  # of that, behind the window
    began_unix_s: float | None  # null in virtual time, which has no clock on the wall
    strain: float  # P90 of TTFT and P95 of the gaps against their targets, the larger of them; 1 at the target

    @property
    def goodput_per_s(self) -> float:
        return sum(s.met for s in self.shares.values()) / self.window_s if self.window_s else 0.0


OURS = frozenset({"client_saturated", "send_lag", "rate_not_reached"})


def ended_cell(
    row: Mapping[str, Any], targets: Mapping[str, Slo], record: CellRecord | None = None, *, simulated: bool = False
) -> Ended:
    """From a `cells[]` row of the result object. `record` knows the times; without it they are 0."""
    start, end = (record.window_start_ns, record.window_end_ns) if record else (None, None)
    classes: Mapping[str, Mapping[str, Any]] = row["classes"]
    # cut at a miss: without that one the share is an honest estimate (inverse sampling, Haldane 1945)
    cut = int(row.get("error_kind") == "hopeless")
    shares = {
        name: Share(int(c["met"]), max(int(c["met"]), int(c["judged"]) - cut), float(c["design_effect"] or 1.0))
        for name, c in classes.items()
        if c.get("judged")
    }
    flags = set(row["flags"])
    clock = record.started_unix_ns if record and not simulated else None
    return Ended(
        cell=int(row["cell"]),
        setting=dict(row["setting"]),
        load=dict(row["load"]),
        repeat=int(row["repeat"]),
        status=str(row["status"]),
        why=str(row.get("error_detail") or row.get("error_kind") or ""),
        began=bool(row["scheduled"]),
        overload="overload" in flags,
        client_limited=bool(flags & OURS),
        shares=shares,
        window_s=(end - start) / 1e9 if start is not None and end is not None else 0.0,
        work_per_s=sum(float(c["output_tok_per_s"] or 0) for c in classes.values() if not c.get("judged")),
        took_s=(record.end_ns or 0) / 1e9 if record else 0.0,
        drain_s=((record.end_ns or 0) - end) / 1e9 if record and end is not None else 0.0,
        began_unix_s=clock / 1e9 if clock is not None else None,
        strain=max((_strain(classes[name], slo) for name, slo in targets.items() if name in classes), default=0.0),
    )


def _strain(numbers: Mapping[str, Any], slo: Slo) -> float:
    ttft, gap = numbers["ttft_ms"]["p90"], numbers["gap_ms"]["p95"]
    return max((ttft or 0.0) / slo.ttft_ms, (gap or 0.0) / slo.gap_ms)
