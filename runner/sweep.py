"""A sweep: settings and cells in order, each finished one kept, stop and resume at any moment."""

import asyncio
import contextlib
import json
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, get_args

from runner.analysis.result import build_result, cell_row
from runner.by_hand import user_of
from runner.cell import CellTools, failed_cell, run_cell
from runner.config import SweepConfig
from runner.engines.orphan import end_orphan
from runner.engines.running import Running
from runner.engines.server import Server
from runner.environment import describe_machine
from runner.errors import SettingFailed, SettingSkipped
from runner.estimate import sweep_seconds
from runner.live import LiveFeed, Progress
from runner.load.clock import Clock
from runner.measured import Measured
from runner.plan import PlannedCell, plan_cells
from runner.preflight import check_before
from runner.protocols.scrub import scrub
from runner.queue import read_config, sweep_folder
from runner.trace_texts import trace_rows
from runner.writer import Rows, Writer, store_opener
from storage.errors import GoodputError
from storage.in_memory import tables_of
from storage.json_files import read_json
from storage.queries import read_sweep
from storage.records import CellRecord, SweepMeta
from storage.side_files import SWEEP, Wish, append_line, asked, read_lines, withdraw
from storage.sweep_store import SCHEMA_VERSION, SweepStore

PAUSE_LOOK_S = 0.5
IDLE_LIMIT_S = 30.0


def _silent(line: Mapping[str, Any]) -> None:
    return None


async def run_sweep(data_dir: Path, sweep_id: str, *, stop: asyncio.Event, on_progress: Progress = _silent) -> str:
    """Measures every cell that is not finished yet; returns the final status: done or stopped.

    The caller holds the lock of `data_dir`. Raises GoodputError for what stops a sweep (a broken config, a lost disk,
    a server that cannot be reached); the state then says `failed` with that sentence. Everything finished is kept.
    """
    folder = sweep_folder(data_dir, sweep_id)
    config = read_config(folder)
    plans = plan_cells(config)
    closed = [c.name for c in config.classes if c.closed or "max_concurrency" in config.grid]
    live = LiveFeed(folder, len(plans), on_progress, closed)
    for wish in get_args(Wish):
        withdraw(folder, wish)
    live.write_state()
    try:
        await _measure(folder, sweep_id, config, plans, live, stop)
        live.status = "stopped" if live.cells_done < len(plans) else "done"
        live.verdict = await asyncio.to_thread(_verdict, folder)
    except GoodputError as e:
        live.status, live.message = "failed", str(e)
        raise
    except BaseException as e:
        live.status, live.message = "failed", f"unexpected {type(e).__name__}: {e}"
        raise
    finally:
        live.phase, live.cell = "stopping", None
        with contextlib.suppress(GoodputError):  # a full disk must not hide why the sweep ended
            live.write_state()
    return live.status


def sweep_meta(
    sweep_id: str, config: SweepConfig, environment: Mapping[str, object], created_unix_ns: int
) -> SweepMeta:
    """What is stored about a sweep. The key is known by its variable's name, user info in URLs is removed."""
    backend = config.backend.model_dump(mode="json", exclude_none=True)
    for key in ("url", "metrics_url"):
        if key in backend:
            backend[key] = scrub(backend[key])
    return SweepMeta(
        sweep_id=sweep_id,
        name=config.name,
        schema_version=SCHEMA_VERSION,
        tool_version=tool_version(),
        created_unix_ns=created_unix_ns,
        simulated=False,  # virtual time only; the built-in engine behind real HTTP is measured like any server
        config=config.model_dump_json(),
        backend=json.dumps(backend),
        environment=json.dumps(environment),
    )


def tool_version() -> str:
    try:
        return version("goodput-lab")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"


async def _measure(
    folder: Path, sweep_id: str, config: SweepConfig, plans: Sequence[PlannedCell], live: LiveFeed, stop: asyncio.Event
) -> None:
    await asyncio.to_thread(end_orphan, folder)  # before the check: it would hold the port
    await check_before(config)
    environment = await asyncio.to_thread(describe_machine)
    asked_for = read_json(folder / SWEEP) or {}
    meta = sweep_meta(sweep_id, config, environment, asked_for.get("created_unix_ns", time.time_ns()))
    writer = Writer(store_opener(folder, lambda: SweepStore.create(folder, meta)))
    await writer.open()
    server = Server(config, folder, user=user_of(folder, live))
    try:
        finished = await writer.finished_cells()
        await asyncio.to_thread(_mend_cell_lines, folder, finished)
        live.cells_done, live.status = len(finished), "running"
        tools = CellTools(
            sweep_id, config, writer, live, stop, lambda: asked(folder, "skip"), server.alive, trace_rows(asked_for)
        )
        left = [p for p in plans if p.cell not in finished]
        work = _Cells(folder, meta, server, tools, left)
        await _with_helpers(
            work.run(), live.tick_every_second(), writer.flush_every_second(), _watch_stop(folder, stop)
        )
    finally:
        try:
            await server.stop()
        finally:
            await writer.close()


async def _with_helpers(work: Coroutine[Any, Any, None], *helpers: Coroutine[Any, Any, None]) -> None:
    """Runs `work` beside endless helpers. A helper that fails (a lost disk) ends the work with its error."""
    tasks = [asyncio.create_task(c) for c in (work, *helpers)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended = [t for t in tasks if t.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in ended:
        task.result()


async def _watch_stop(folder: Path, stop: asyncio.Event) -> None:
    """The page asks by a file; a signal sets the event itself. Endless: helpers end only by being cancelled."""
    while True:
        if asked(folder, "stop"):
            stop.set()
        await asyncio.sleep(PAUSE_LOOK_S)


@dataclass
class _Cells:
    """The loop over cells; one server start serves all the cells of a setting."""

    folder: Path
    meta: SweepMeta
    server: Server
    tools: CellTools
    left: list[PlannedCell]
    start_s: float | None = None  # seconds of the last server start
    measured: Measured | None = None
    failure: SettingFailed | None = None
    failed_setting: Mapping[str, Any] | None = None

    async def run(self) -> None:
        clock = Clock()
        try:
            for i, plan in enumerate(self.left):
                await self._while_paused()
                if self.tools.stop.is_set():
                    return
                left = self.left[i:]
                self.tools.live.eta_s = round(sweep_seconds(self.tools.config, left, self.start_s), 1)
                withdraw(self.folder, "skip")  # asked for while the cell before was ending, and meant for that one
                self.tools.live.begin_cell(plan.cell, "starting")
                await self._one(plan, clock)
        finally:
            withdraw(self.folder, "skip")
            if self.measured:
                await self.measured.close()

    async def _one(self, plan: PlannedCell, clock: Clock) -> None:
        record = CellRecord(
            plan.cell,
            json.dumps(plan.setting),
            json.dumps(plan.load),
            plan.repeat,
            "running",
            started_unix_ns=time.time_ns(),
        )
        if self.failure and self.failed_setting == plan.setting:  # it did not start a moment ago: same reason
            await self._finish(failed_cell(record, self.failure))
            return
        try:
            running = await self._until_stop(self._apply(plan, clock))
        except SettingFailed as failure:
            self.failure, self.failed_setting = failure, plan.setting
            await self._finish(failed_cell(record, failure))
            return
        except SettingSkipped as skipped:
            withdraw(self.folder, "skip")
            await self._finish(replace(record, status="skipped", error_detail=str(skipped)))
            return
        if running is None or self.measured is None:
            return
        server = json.dumps(self.measured.facts())
        record = replace(record, start_line=running.start_line, server=server, started_unix_ns=time.time_ns())
        await self.tools.writer.put_cell(record)
        await self.measured.wait_idle(IDLE_LIMIT_S)
        done = await run_cell(plan, record, self.measured, self.tools)
        if done.status != "running":
            await self._finish(done)

    async def _apply(self, plan: PlannedCell, clock: Clock) -> Running:
        began = time.monotonic()
        running = await self.server.apply(plan.setting)
        if running.started_new or self.measured is None:
            if self.measured:
                await self.measured.close()
            self.start_s = time.monotonic() - began
            self.measured = await Measured.find(self.tools.config, plan.setting, running, clock)
        return running

    async def _finish(self, record: CellRecord) -> None:
        """Commits the cell's row; then its line for the live page (which resume can make again)."""
        await self.tools.writer.put_cell(record)
        row = await asyncio.to_thread(cell_line, self.meta, record, self.tools.writer.rows)
        await asyncio.to_thread(append_line, self.folder, "cells.jsonl", row)
        self.tools.live.cells_done += 1
        await self.tools.live.tick()

    async def _while_paused(self) -> None:
        live = self.tools.live
        while asked(self.folder, "pause") and not self.tools.stop.is_set():
            live.status, live.phase = "paused", "idle"
            await asyncio.sleep(PAUSE_LOOK_S)
        live.status = "running"

    async def _until_stop(self, work: Coroutine[Any, Any, Running]) -> Running | None:
        """The result of `work`, or None when the user stops the sweep first (a server may take minutes to start)."""
        task, stop = asyncio.create_task(work), asyncio.create_task(self.tools.stop.wait())
        try:
            await asyncio.wait([task, stop], return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            stop.cancel()
            task.cancel()
            await asyncio.gather(task, stop, return_exceptions=True)


def cell_line(meta: SweepMeta, record: CellRecord, rows: Rows) -> dict[str, Any]:
    """One ended cell as it stands in the result object, from the rows in memory."""
    mine = [r for r in rows.requests if r.cell == record.cell]
    return cell_row(tables_of(meta, [record], mine, rows.engine, rows.client), record.cell)


def _mend_cell_lines(folder: Path, finished: Mapping[int, CellRecord]) -> None:
    """After a kill between a cell's commit and its line in cells.jsonl: writes the missing lines."""
    told = {row.get("cell") for row in read_lines(folder, "cells.jsonl")}
    missing = [c for c in finished if c not in told]
    if missing:
        for row in build_result(read_sweep(folder))["cells"]:
            if row["cell"] in missing:
                append_line(folder, "cells.jsonl", row)


def _verdict(folder: Path) -> str:
    return str(build_result(read_sweep(folder))["choice"]["reason"])
