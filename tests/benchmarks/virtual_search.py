"""A whole sweep in virtual time as the queue would run it, cell after cell, also one that chooses its cells."""

from dataclasses import dataclass

from runner.analysis.result import targets_of
from runner.config import SweepConfig
from runner.loop import cell_line
from runner.plan import is_search
from runner.search.course import Course
from runner.search.ended import Ended, ended_cell
from runner.simulated_sweep import CellRows, VirtualSweep
from runner.simulator.virtual_server import for_virtual_time
from runner.sweep import sweep_meta
from runner.writer import Rows
from storage.records import SweepMeta


@dataclass(frozen=True)
class Searched:
    """`ended`: what a search knew of each cell; empty for a sweep whose cells were fixed."""

    config: SweepConfig
    meta: SweepMeta
    cells: list[CellRows]
    ended: list[Ended]


def searched(config: SweepConfig) -> Searched:
    """Every cell to the end. Raises ConfigError for a config that virtual time cannot take."""
    virtual = VirtualSweep(for_virtual_time(config), None, {})
    config, meta = virtual.config, sweep_meta("benchmark", virtual.config, {}, 0, simulated=True)
    course, cells, known, targets = Course(config, {}), [], [], targets_of(config)
    while left := course.left():
        rows = virtual.run(left[0], lambda: True)
        assert rows is not None  # nobody said no
        cells.append(rows)
        ended = None
        if is_search(config):
            line = cell_line(meta, rows.record, Rows(rows.requests, rows.engine))
            ended = ended_cell(line, targets, rows.record, simulated=True)
            known.append(ended)
        course.note(left[0].cell, ended)
    return Searched(config, meta, cells, known)
