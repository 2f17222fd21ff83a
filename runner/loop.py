"""The loop over the cells of a sweep: each measured, failed or skipped, and why it ends before the last one."""

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from runner.analysis.result import cell_row, targets_of
from runner.cell import CellTools, failed_cell, run_cell
from runner.deadline import Deadline
from runner.engines.running import Running
from runner.engines.server import Server
from runner.errors import SettingFailed, SettingSkipped
from runner.estimate import longest_cell_seconds, owns_server, start_seconds, sweep_seconds
from runner.live import LiveFeed
from runner.load.clock import Clock
from runner.measured import Measured
from runner.plan import PlannedCell, cell_config
from runner.search.course import Course
from runner.search.ended import ended_cell
from runner.writer import Rows
from storage.in_memory import tables_of
from storage.records import CellRecord, SweepMeta
from storage.side_files import append_line, asked, withdraw

LOOK_S = 0.5
IDLE_LIMIT_S = 30.0
MOST_STRIKES = 2  # a setting that failed so often in a row is not tried again in this repeat
# of cells in which the server was not there any more, or not for us: the next cell would meet the same
GONE = ("server_hung", "unreachable", "connect", "unauthorized", "model_not_found")
LOST = ("connect", "truncated", "empty_stream", "timeout", "http_error")
DYING_S = 1.0
T = TypeVar("T")


@dataclass
class FailedInRow:
    """Failed cells since the last one that gave numbers, and why the last of them failed."""

    cells: int = 0
    reason: str = ""

    def note(self, record: CellRecord) -> None:
        """A cell has ended; one that was skipped says nothing."""
        if record.status != "skipped":
            self.cells = self.cells + 1 if record.status == "failed" else 0
            self.reason = record.error_detail or ""


def too_many_failures(live: LiveFeed, sweep_id: str, allowed: int | None, failed: FailedInRow) -> bool:
    """True when the sweep has to end for its failures in a row; the state then says so."""
    if allowed is None or failed.cells < allowed:
        return False
    why = f"stopped after {failed.cells} failed cells in a row as asked ({failed.reason})"
    _end_early(live, sweep_id, "failures", why)
    return True


def _end_early(live: LiveFeed, sweep_id: str, stopped_by: str, why: str) -> None:
    live.stopped_by = stopped_by
    live.message = f"{why}: {live.cells_done} of {live.cells_total} cells are done; goodput resume {sweep_id} goes on"


@dataclass
class Cells:
    """One server start serves all the cells of a setting that stand together.

    A setting that did not start, or whose server died in two cells running, fails its remaining cells of the same
    repeat with that reason, untried; after one death its server is started again.
    """

    folder: Path
    meta: SweepMeta
    server: Server
    tools: CellTools
    course: Course
    deadline: Deadline | None = None
    start_s: float | None = None  # seconds of the last server start
    measured: Measured | None = None
    applied: Mapping[str, Any] | None = None  # the setting that the server runs with
    strikes: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, SettingFailed] = field(default_factory=dict)
    failed: FailedInRow = field(default_factory=FailedInRow)
    warm: bool = False  # a cell has run since the last pause to cool down
    first_is_ok: bool = False  # cell 0 gave numbers that the drift check can be compared with

    async def run(self) -> None:
        """Returns when all cells have ended, or early with `live.stopped_by` and `live.message` saying why."""
        clock = Clock()
        try:
            while left := self.course.left():
                plan = left[0]
                self.tools.live.expect(len(left), sweep_seconds(self.tools.config, left, self.start_s))
                if self._must_end(plan):
                    return
                await self._cool_down(plan)
                await self._while_paused()
                if self._must_end(plan):
                    return
                withdraw(self.folder, "skip")  # asked for while the cell before was ending, and meant for that one
                self.tools.live.begin_cell(plan.cell, "starting", plan)
                await self._one(plan, clock)
        finally:
            withdraw(self.folder, "skip")
            await self._forget_server()

    def _must_end(self, plan: PlannedCell) -> bool:
        live, run = self.tools.live, self.tools.config.run
        if self.tools.stop.is_set():
            live.stopped_by = "user"
            return True
        if too_many_failures(self.tools.live, self.tools.sweep_id, run.stop_after_failures, self.failed):
            return True
        if self.deadline and not self._fits(plan):
            self._end_by_hour()
            return True
        return False

    def _fits(self, plan: PlannedCell) -> bool:
        """Whether the cell would end in time: a server start if it needs one, and the longest a cell may take."""
        config = cell_config(self.tools.config, plan)
        start = 0.0 if self.applied == plan.setting else start_seconds(config, self.start_s)
        return self.deadline is None or start + longest_cell_seconds(config) <= self.deadline.left_s()

    def _end_by_hour(self) -> None:
        if self.deadline:
            why = f"stopped by {self.deadline.wanted} as asked"
            _end_early(self.tools.live, self.tools.sweep_id, "stop_by", why)

    async def _one(self, plan: PlannedCell, clock: Clock) -> None:
        record = CellRecord(
            plan.cell,
            json.dumps(plan.setting),
            json.dumps(plan.load),
            plan.repeat,
            "running",
            started_unix_ns=time.time_ns(),
        )
        if untried := self._untried(plan, record):
            await self._finish(untried)
            return
        try:
            running = await self._until_told(self._apply(plan, clock))
        except SettingSkipped as skipped:
            await self._finish(replace(record, status="skipped", error_detail=str(skipped)))
            return
        except SettingFailed as told:
            failure = await self._death_behind(told)
            self._strike(plan, failure, MOST_STRIKES if owns_server(self.tools.config) else 1)
            await self._finish(failed_cell(record, failure))
            return
        if running is None or self.measured is None:
            await self._cut(record)
            return
        if await self._until_told(self.measured.wait_idle(IDLE_LIMIT_S)) is None:
            await self._cut(record)
            return
        if not self._fits(plan):  # the start took longer than was thought
            self._end_by_hour()
            return
        server = json.dumps(self.measured.facts())
        record = replace(record, start_line=running.start_line, server=server, started_unix_ns=time.time_ns())
        await self.tools.writer.put_cell(record)
        self.warm = True
        own = replace(self.tools, config=cell_config(self.tools.config, plan))
        done = await run_cell(plan, record, self.measured, own)
        if done.status == "running":
            return
        done = replace(done, server=json.dumps(self.measured.facts()))  # its metrics may have gone meanwhile
        await self._look_after(plan, done)
        await self._finish(done)

    async def _death_behind(self, told: SettingFailed) -> SettingFailed:
        """The server may have died of the test request; its connections end a moment before it does."""
        end = time.monotonic() + DYING_S
        while told.error_kind in LOST and owns_server(self.tools.config):
            if dead := await self.server.alive():
                return dead
            if time.monotonic() >= end:
                break
            await asyncio.sleep(0.05)
        return told

    def _untried(self, plan: PlannedCell, record: CellRecord) -> CellRecord | None:
        key = _key(plan)
        if plan.drift and not self.first_is_ok:
            why = "not measured: it would be compared with the first cell, which gave no numbers"
            return replace(record, status="skipped", error_detail=why)
        if self.strikes[key] < MOST_STRIKES:
            return None
        reason = self.reasons[key]
        return replace(
            failed_cell(record, reason), error_detail=f"not tried again, its setting failed before: {reason}"
        )

    async def _cut(self, record: CellRecord) -> None:
        """The person skipped the cell before its load began (a start may take minutes), or the sweep ends."""
        self.tools.live.status, self.tools.live.waiting_for = "running", None
        if self.tools.stop.is_set():
            return
        if self.tools.skip():
            await self._finish(replace(record, status="skipped", error_detail="skipped by the user"))
        else:
            self._end_by_hour()

    async def _look_after(self, plan: PlannedCell, done: CellRecord) -> None:
        """Counts deaths of the server, and ends one that hangs, so that the next cell starts it anew."""
        died = await self.server.alive() is not None
        if died or done.error_kind == "server_hung":
            self.applied = None
        if done.status == "failed" and (died or done.error_kind in GONE):
            kind, detail = done.error_kind or "exited", done.error_detail or "the server died"
            self._strike(plan, SettingFailed(kind, detail, exit_code=done.exit_code, log_tail=done.log_tail), 1)
        elif done.status == "ok":
            self.strikes[_key(plan)] = 0
        if done.error_kind == "server_hung" and owns_server(self.tools.config):
            await self._forget_server()
            await self.server.stop()

    def _strike(self, plan: PlannedCell, failure: SettingFailed, weight: int) -> None:
        self.strikes[_key(plan)] += weight
        self.reasons[_key(plan)] = failure

    async def _apply(self, plan: PlannedCell, clock: Clock) -> Running:
        began = time.monotonic()
        if self.applied != plan.setting:
            self.applied = None
        running = await self.server.apply(plan.setting)
        if running.started_new or self.measured is None:
            await self._forget_server()
            self.measured = await Measured.find(self.tools.config, plan.setting, running, clock)
            self.start_s = time.monotonic() - began
        self.applied = plan.setting
        return running

    async def _forget_server(self) -> None:
        measured, self.measured = self.measured, None
        if measured:
            await measured.close()

    async def _finish(self, record: CellRecord) -> None:
        """Commits the cell's row; then its line for the live page (which resume can make again)."""
        await self.tools.writer.put_cell(record)
        row = await asyncio.to_thread(cell_line, self.meta, record, self.tools.writer.rows)
        await asyncio.to_thread(append_line, self.folder, "cells.jsonl", row)
        self.first_is_ok = self.first_is_ok or (record.cell == 0 and record.status == "ok")
        self.failed.note(record)
        self.course.note(record.cell, ended_cell(row, targets_of(self.tools.config), record))
        self.tools.live.cells_done += 1
        await self.tools.live.tick()

    async def _cool_down(self, plan: PlannedCell) -> None:
        """An idle wait between two cells with load; a wish to stop or to pause ends it."""
        wait_s, live = self.tools.config.run.cool_down_s, self.tools.live
        if not wait_s or not self.warm or self.strikes[_key(plan)] >= MOST_STRIKES:
            return
        self.warm = False
        live.cell, live.phase = None, "cooldown"
        end = time.monotonic() + wait_s
        while (left_s := end - time.monotonic()) > 0 and not self.tools.stop.is_set():
            if asked(self.folder, "pause"):
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.tools.stop.wait(), min(LOOK_S, left_s))

    async def _while_paused(self) -> None:
        live = self.tools.live
        while asked(self.folder, "pause") and not self.tools.stop.is_set():
            if self.deadline and self.deadline.left_s() <= 0:
                break
            live.status, live.phase = "paused", "idle"
            await asyncio.sleep(LOOK_S)
        live.status = "running"

    async def _until_told(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of `work`, or None when it is cut: the sweep ends, this cell is skipped, the hour has come."""
        task, stop = asyncio.create_task(work), asyncio.create_task(self.tools.stop.wait())
        try:
            while True:
                await asyncio.wait([task, stop], timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
                if task.done():
                    return task.result()
                late = self.deadline is not None and self.deadline.left_s() <= 0
                if stop.done() or late:
                    return None
                if self.tools.skip():  # what waits for the user says by itself what a skip means there
                    await asyncio.wait([task], timeout=LOOK_S)
                    return task.result() if task.done() else None
        finally:
            stop.cancel()
            task.cancel()
            await asyncio.gather(task, stop, return_exceptions=True)


def _key(plan: PlannedCell) -> str:
    """A setting in one repeat: the next repeat gives it a new chance."""
    return json.dumps([plan.setting, plan.repeat], sort_keys=True)


def cell_line(meta: SweepMeta, record: CellRecord, rows: Rows) -> dict[str, Any]:
    """One ended cell as it stands in the result object, from the rows in memory."""
    mine = [r for r in rows.requests if r.cell == record.cell]
    return cell_row(tables_of(meta, [record], mine, rows.engine, rows.client), record.cell)
