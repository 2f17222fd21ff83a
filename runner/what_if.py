"""Whole sweeps in virtual time that stay in memory: for a look at what another scheduler would have done."""

from dataclasses import dataclass

import numpy as np

from runner.analysis.goodput import judge, verdicts
from runner.analysis.prepare import Prepared, prepare
from runner.config import GapRule, Slo
from runner.plan import plan_cells
from runner.simulated_sweep import CellRows, VirtualSweep
from runner.simulator.step_log import StepLog
from runner.sweep import sweep_meta
from storage.in_memory import tables_of


@dataclass(frozen=True)
class Misses:
    """Why requests with targets missed them, as shares (0–1) of the judged ones; a request may count in both."""

    late: float  # no first token in time, or no answer
    stalled: float  # the gap rule is broken


def in_memory(virtual: VirtualSweep) -> Prepared:
    """Every cell, ready to be scored as a measured sweep is. Raises ConfigError."""
    config = virtual.config
    rows = [_whole(virtual.run(plan, lambda: True)) for plan in plan_cells(config)]
    meta = sweep_meta("what-if", config, virtual.environment(), 0, simulated=True)
    requests = [r for cell in rows for r in cell.requests]
    return prepare(tables_of(meta, [c.record for c in rows], requests, [e for c in rows for e in c.engine], []))


def _whole(rows: CellRows | None) -> CellRows:
    assert rows is not None  # nobody said no
    return rows


def cell_steps(virtual: VirtualSweep, cell: int, from_ns: int, until_ns: int) -> StepLog:
    """The iterations of one cell that overlap [from_ns, until_ns), by running it once more up to there."""
    log = StepLog(from_ns, until_ns)
    virtual.run(plan_cells(virtual.config)[cell], lambda: not log.over, log)
    return log


def misses_by_cell(prepared: Prepared, targets: dict[str, Slo], rule: GapRule | None) -> dict[int, Misses]:
    """Of each cell with judged requests. `rule` null: each class's own."""
    judged = judge(prepared.requests, targets)
    words = verdicts(prepared.requests, judged, rule).to_numpy(dtype=object)
    counted = prepared.requests["in_window"].to_numpy(dtype=bool) & np.isin(words.astype(str), ["met", "missed"])
    own = judged.own_rule.to_numpy(dtype=object)
    stalled = np.zeros(len(counted), dtype=bool)
    for name, kept in judged.gap_ok.items():
        stalled |= ~kept & (np.equal(own, name).astype(bool) if rule is None else np.full(len(own), rule == name))
    out = {}
    for facts in prepared.cells:
        mine = counted[facts.rows]
        if mine.any():
            late = ~judged.ttft_ok[facts.rows][mine]
            out[facts.cell] = Misses(float(late.mean()), float(stalled[facts.rows][mine].mean()))
    return out
