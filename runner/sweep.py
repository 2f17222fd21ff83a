"""A sweep: settings and cells in order, each finished one kept, stop and resume at any moment."""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from runner.analysis.result import build_result, targets_of
from runner.brief import brief_of
from runner.by_hand import user_of
from runner.cell import CellTools
from runner.config import SweepConfig
from runner.deadline import Now, deadline_of, local_now
from runner.engines.orphan import end_orphan
from runner.engines.server import Server
from runner.environment import describe_machine
from runner.errors import ConfigError
from runner.kept_result import forget_result, keep_result
from runner.live import LiveFeed, Progress
from runner.loop import LOOK_S, Cells, FailedInRow, cell_line, too_many_failures
from runner.plan import is_search, plan_cells
from runner.preflight import check_before
from runner.protocols.scrub import scrub
from runner.queue import read_config, sweep_folder
from runner.search.course import Course
from runner.search.ended import Ended, ended_cell
from runner.simulated_sweep import VirtualSweep, virtual_sweep
from runner.trace_texts import trace_rows
from runner.version import tool_version
from runner.writer import Rows, Writer, store_opener
from storage.errors import GoodputError
from storage.json_files import read_json
from storage.queries import read_sweep
from storage.records import CellRecord, SweepMeta
from storage.side_files import SWEEP, Wish, append_line, asked, read_lines, withdraw
from storage.sweep_store import DATABASE, FINISHED, SCHEMA_VERSION, SweepStore


def _silent(line: Mapping[str, Any]) -> None:
    return None


async def run_sweep(
    data_dir: Path,
    sweep_id: str,
    *,
    stop: asyncio.Event,
    on_progress: Progress = _silent,
    on_result: Callable[[dict[str, Any]], None] | None = None,
    now: Now = local_now,
) -> str:
    """Measures every cell that is not finished yet; returns the final status: done or stopped.

    A sweep that stopped says in its state by whom (`stopped_by`: user, stop_by, failures) and, unless it was the user,
    in `message` why. `on_result` is given the result object of all that was measured (its status is that which follows
    from the cells), so that nobody has to judge it twice. `now` is the clock that `stop_by` is held against.

    The caller holds the lock of `data_dir`. Raises GoodputError for what stops a sweep (a broken config, a lost disk,
    a server that cannot be reached); the state then says `failed` with that sentence. Everything finished is kept.
    """
    folder = sweep_folder(data_dir, sweep_id)
    config = read_config(folder)
    course = Course(config, {})
    closed = [c.name for c in config.classes if c.closed or "max_concurrency" in config.grid]
    live = LiveFeed(folder, len(course.left()), on_progress, closed)
    for wish in get_args(Wish):
        withdraw(folder, wish)
    forget_result(folder)
    live.write_state()
    asked_for = read_json(folder / SWEEP) or {}
    try:
        if asked_for.get("simulated") is True:
            course = await _simulate(folder, sweep_id, config, live, stop, asked_for)
        else:
            course = await _measure(folder, sweep_id, config, live, stop, now)
        left = len(course.left())
        live.cells_total, live.status = live.cells_done + left, "stopped" if left else "done"
        if live.status == "stopped" and live.stopped_by is None:
            live.stopped_by = "user"
        result = await asyncio.to_thread(_conclude, folder)
        live.verdict, live.brief = str(result["choice"]["reason"]), brief_of(result)
        if on_result:
            on_result(result)
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
    sweep_id: str,
    config: SweepConfig,
    environment: Mapping[str, object],
    created_unix_ns: int,
    *,
    simulated: bool = False,
) -> SweepMeta:
    """What is stored about a sweep. The key is known by its variable's name, user info in URLs is removed.

    `simulated`: in virtual time; the built-in engine behind real HTTP is measured like any server.
    """
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
        simulated=simulated,
        config=config.model_dump_json(),
        backend=json.dumps(backend),
        environment=json.dumps(environment),
    )


async def _measure(
    folder: Path,
    sweep_id: str,
    config: SweepConfig,
    live: LiveFeed,
    stop: asyncio.Event,
    now: Now,
) -> Course:
    deadline = deadline_of(config.run.stop_by, now)
    if deadline and deadline.left_s() <= 0:
        if not (folder / DATABASE).exists():
            raise ConfigError(f"run.stop_by is {deadline.wanted}, which is past; write a later one, or a time of day")
        deadline = None  # it held for the run that it was written for; what is resumed later has no limit
    await asyncio.to_thread(end_orphan, folder)  # before the check: it would hold the port
    await check_before(config)
    environment = await asyncio.to_thread(describe_machine)
    asked_for = read_json(folder / SWEEP) or {}
    meta = sweep_meta(sweep_id, config, environment, asked_for.get("created_unix_ns", time.time_ns()))
    writer = Writer(store_opener(folder, lambda: SweepStore.create(folder, meta)))
    known = await asyncio.to_thread(_known_rows, folder, config)  # the writer lets nobody else look into its file
    await writer.open()
    server = Server(config, folder, user=user_of(folder, live))
    try:
        finished = await writer.finished_cells()
        course = _course_of(config, finished, known)
        await asyncio.to_thread(_mend_cell_lines, folder, finished, known)
        live.cells_done, live.status = len(finished), "running"
        tools = CellTools(
            sweep_id, config, writer, live, stop, lambda: asked(folder, "skip"), server.alive, server.pids,
            trace_rows(asked_for),
        )  # fmt: skip
        first_is_ok = 0 in finished and finished[0].status == "ok"
        work = Cells(folder, meta, server, tools, course, deadline, first_is_ok=first_is_ok)
        await _with_helpers(
            work.run(), live.tick_every_second(), writer.flush_every_second(), _watch_stop(folder, stop)
        )
    finally:
        try:
            await server.stop()
        finally:
            await writer.close()
    return course


async def _simulate(
    folder: Path,
    sweep_id: str,
    config: SweepConfig,
    live: LiveFeed,
    stop: asyncio.Event,
    asked_for: Mapping[str, Any],
) -> Course:
    """The cells in virtual time: no server, no waiting; kept, stopped and resumed as measured ones are.

    Nothing can be paused, no cell skipped, and no hour is waited for: a cell is over before anybody could ask.
    """
    virtual = virtual_sweep(config, asked_for)
    created = asked_for.get("created_unix_ns", time.time_ns())
    meta = sweep_meta(sweep_id, config, virtual.environment(), created, simulated=True)
    writer = Writer(store_opener(folder, lambda: SweepStore.create(folder, meta)))
    known = await asyncio.to_thread(_known_rows, folder, config)  # the writer lets nobody else look into its file
    await writer.open()
    try:
        finished = await writer.finished_cells()
        course = _course_of(config, finished, known, simulated=True)
        live.cells_done, live.status = len(finished), "running"
        await _with_helpers(
            _virtual_cells(meta, virtual, course, writer, live, stop),
            live.tick_every_second(),
            _watch_stop(folder, stop),
        )
    finally:
        await writer.close()
    return course


async def _virtual_cells(
    meta: SweepMeta,
    virtual: VirtualSweep,
    course: Course,
    writer: Writer,
    live: LiveFeed,
    stop: asyncio.Event,
) -> None:
    failed, config = FailedInRow(), virtual.config
    while left := course.left():
        plan, live.cells_total = left[0], live.cells_done + len(left)
        if too_many_failures(live, meta.sweep_id, config.run.stop_after_failures, failed):
            return
        if stop.is_set():  # a short cell is over before it asks
            return
        live.begin_cell(plan.cell, "measure", plan)
        rows = await asyncio.to_thread(virtual.run, plan, lambda: not stop.is_set())
        if rows is None:
            return
        await writer.begin_cell()
        writer.rows.requests += rows.requests
        writer.rows.engine += rows.engine
        await writer.put_cell(rows.record)
        failed.note(rows.record)
        course.note(plan.cell, await asyncio.to_thread(_ended, meta, config, rows.record, writer.rows))
        live.cells_done += 1


def _ended(meta: SweepMeta, config: SweepConfig, record: CellRecord, rows: Rows) -> Ended | None:
    """What a search goes by; a fixed plan needs none of it."""
    if not is_search(config):
        return None
    return ended_cell(cell_line(meta, record, rows), targets_of(config), record, simulated=True)


def _known_rows(folder: Path, config: SweepConfig) -> list[dict[str, Any]]:
    """`cells[]` of what an earlier run finished, if a search has to go on from it or a line of it is missing."""
    if not (folder / DATABASE).exists():
        return []
    tables = read_sweep(folder)
    finished = set(tables.cells["cell"][tables.cells["status"].isin(FINISHED)])
    told = {row.get("cell") for row in read_lines(folder, "cells.jsonl")}
    return list(build_result(tables)["cells"]) if is_search(config) or finished - told else []


def _course_of(
    config: SweepConfig,
    finished: Mapping[int, CellRecord],
    known: Sequence[Mapping[str, Any]],
    *,
    simulated: bool = False,
) -> Course:
    """What is left to run. Raises GoodputError for a sweep that was begun by a version that numbered its cells
    otherwise.
    """
    if is_search(config):
        rows, targets = {row["cell"]: row for row in known}, targets_of(config)
        return Course(
            config, {n: ended_cell(rows[n], targets, r, simulated=simulated) for n, r in finished.items() if n in rows}
        )
    for plan in plan_cells(config):
        record = finished.get(plan.cell)
        if record and (json.loads(record.setting), json.loads(record.load)) != (plan.setting, plan.load):
            raise GoodputError("this sweep was begun by a version that measured in another order; run it anew")
    return Course(config, dict.fromkeys(finished))


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
        await asyncio.sleep(LOOK_S)


def _mend_cell_lines(folder: Path, finished: Mapping[int, CellRecord], known: Sequence[Mapping[str, Any]]) -> None:
    """After a kill between a cell's commit and its line in cells.jsonl: writes the missing lines."""
    told = {row.get("cell") for row in read_lines(folder, "cells.jsonl")}
    for row in known:
        if row["cell"] in finished and row["cell"] not in told:
            append_line(folder, "cells.jsonl", dict(row))


def _conclude(folder: Path) -> dict[str, Any]:
    """The result object; lines that cells.jsonl lacks (all of a simulated sweep) are added."""
    tables = read_sweep(folder)
    result = build_result(tables)
    keep_result(folder, tables.meta["config"], result)
    told = {row.get("cell") for row in read_lines(folder, "cells.jsonl")}
    for row in result["cells"]:
        if row["cell"] not in told and row["status"] in FINISHED:
            append_line(folder, "cells.jsonl", row)
    return result
