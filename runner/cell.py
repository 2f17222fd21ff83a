"""One cell: warm-up, measured window, drain. Everything that is measured here goes to the writer as raw rows."""

import asyncio
import contextlib
import hashlib
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runner.analysis.hopeless import Hopes
from runner.config import Scalar, SweepConfig
from runner.cores import usable_cores
from runner.engines.silence import silence
from runner.errors import SettingFailed
from runner.live import LiveFeed
from runner.load.event_rate import load_processes
from runner.load.garbage import freeze, thaw
from runner.load.generator import run_load
from runner.load.loop_health import watch_loop
from runner.load.messages import Job
from runner.load.sender import Pending
from runner.load.trace_file import TraceRow
from runner.load.workers import Workers
from runner.load.workload import RequestSpec, Trace, build_trace, in_flight_caps, split_trace
from runner.measured import Measured
from runner.other_programs import OtherPrograms, beside
from runner.plan import PlannedCell, is_search, trace_seed
from runner.writer import Writer
from storage.records import CellRecord, ClientSample, EngineSample, RequestRecord

LEAD_NS = 50_000_000  # the first arrival must not be late because tasks are still being made
WATCH_S = 0.5


def _processes_for(config: SweepConfig, load: Mapping[str, Scalar], rows: Mapping[str, Sequence[TraceRow]]) -> int:
    return load_processes(config, load, usable_cores(), rows)


@dataclass(frozen=True)
class CellTools:
    """What a sweep lends to each of its cells."""

    sweep_id: str
    config: SweepConfig
    writer: Writer
    live: LiveFeed
    stop: asyncio.Event  # end the sweep
    skip: Callable[[], bool]  # the user asked to skip this cell
    server_failure: Callable[[], Awaitable[SettingFailed | None]]
    server_pids: Callable[[], list[int] | None]  # null: not known, or on another machine
    traces: Mapping[str, Sequence[TraceRow]]  # rows of classes that replay a recorded trace, by class name
    processes: Callable[[SweepConfig, Mapping[str, Scalar], Mapping[str, Sequence[TraceRow]]], int] = _processes_for


async def run_cell(plan: PlannedCell, started: CellRecord, measured: Measured, tools: CellTools) -> CellRecord:
    """Runs the load of one cell and returns its finished row; requests and samples are written as they come.

    Raises StorageError (lost disk). A server that dies, a skip and a stop end the cell early and are in its row.
    """
    run = tools.config.run
    total_s = run.warmup + run.duration_s
    trace = build_trace(
        tools.config.classes,
        plan.load,
        total_s,
        trace_seed(tools.config, plan),
        salt=prompt_salt(tools.sweep_id, plan.cell),
        rows=tools.traces,
    )
    await tools.writer.begin_cell()
    ending = _Ending(tools, _hopes(tools.config, trace) if run.stops_hopeless else None)
    kept = _Kept(tools, ending.note_record)
    cell = _Cell(plan, measured, tools, trace, ending, kept, round(total_s * 1e9), round(run.drain * 1e9))
    steps_before = measured.clock.steps
    processes = tools.processes(tools.config, plan.load, tools.traces)
    freeze()
    try:
        await (cell.run_in_workers(processes) if processes else cell.run_here())
    except SettingFailed as failure:
        ending.note(failure)
    finally:
        thaw()
    finished = replace(
        started,
        started_unix_ns=cell.started_unix_ns,
        window_start_ns=round(run.warmup * 1e9),
        window_end_ns=round(total_s * 1e9),
        end_ns=time.monotonic_ns() - cell.origin_ns,
        clock_steps=measured.clock.steps - steps_before + cell.clock_steps,
    )
    return await ending.verdict(finished, kept.kinds)


class _Kept:
    """Where everything that a cell sees goes: to the writer as raw rows, and to the live page."""

    def __init__(self, tools: CellTools, look_at: Callable[[RequestRecord], None]) -> None:
        self.kinds: Counter[str] = Counter()
        self._look_at = look_at
        self._rows = tools.writer.rows
        self._live = tools.live
        self.others: OtherPrograms | None = None

    def record(self, record: RequestRecord) -> None:
        self.kinds[kind_of_end(record)] += 1
        self._rows.requests.append(record)
        self._live.note_record(record)
        self._look_at(record)

    def engine(self, sample: EngineSample) -> None:
        self._rows.engine.append(sample)
        self._live.note_engine(sample)

    def client(self, sample: ClientSample) -> None:
        if self.others and (share := self.others.share()) is not None:
            sample = replace(sample, others_share=share)
        self._rows.client.append(sample)
        self._live.note_client(sample)


@dataclass
class _Cell:
    """One cell's load on its way: made by this process, or by others."""

    plan: PlannedCell
    measured: Measured
    tools: CellTools
    trace: Trace
    ending: "_Ending"
    kept: _Kept
    total_ns: int
    drain_ns: int
    origin_ns: int = field(default_factory=time.monotonic_ns)
    started_unix_ns: int = field(default_factory=time.time_ns)
    clock_steps: int = 0  # seen by other processes

    async def run_here(self) -> None:
        live, sender = self.tools.live, self.measured.sender
        await sender.open_ahead(self.trace)
        await self._begin()

        async def send(spec: RequestSpec, scheduled_ns: int) -> RequestRecord | Pending:
            live.open_streams += 1
            try:
                return await sender.send(spec, self.plan.cell, scheduled_ns, self.origin_ns)
            finally:
                live.open_streams -= 1

        watch = watch_loop(
            self.plan.cell,
            origin_ns=self.origin_ns,
            now_ns=time.monotonic_ns,
            open_streams=lambda: live.open_streams,
            on_sample=self.kept.client,
        )
        load = run_load(
            self.trace,
            send,
            origin_ns=self.origin_ns,
            end_ns=self.origin_ns + self.total_ns,
            drain_ns=self.drain_ns,
            now_ns=time.monotonic_ns,
            on_record=self.kept.record,
            stop=self.ending.event,
            max_in_flight=in_flight_caps(self.tools.config.classes, self.plan.load),
            cell=self.plan.cell,
        )
        await self._watched(load, watch, sender.keep_ahead())

    async def run_in_workers(self, processes: int) -> None:
        """Raises SettingFailed when a load process dies. They are started before the cell's origin."""
        live = self.tools.live
        facts = self.measured.sender_facts
        jobs = [
            Job(part, facts, self.plan.cell, self.total_ns, self.drain_ns)
            for part in split_trace(self.trace, processes)
        ]

        def note_open(streams: int) -> None:
            live.open_streams = streams

        workers = Workers(jobs, self.kept.record, self.kept.client, note_open)
        try:
            await workers.start()
            await self._begin(workers.pids)
            await self._watched(workers.run(self.origin_ns, self.ending.event))
        finally:
            live.open_streams = 0
            self.clock_steps = workers.clock_steps
            await workers.close()

    async def _begin(self, load_pids: Sequence[int] = ()) -> None:
        server_pids = await asyncio.to_thread(self.tools.server_pids)
        self.kept.others = beside([os.getpid(), *load_pids, *server_pids]) if server_pids is not None else None
        self.origin_ns = time.monotonic_ns() + LEAD_NS
        self.started_unix_ns = time.time_ns() + LEAD_NS

    async def _watched(self, load: Coroutine[Any, Any, object], *more: Coroutine[Any, Any, None]) -> None:
        """The load to its end, with the server, the wish to stop and whatever else watched beside it."""
        run = self.tools.config.run
        helpers = [
            self.measured.scrape(self.plan.cell, self.origin_ns, self.kept.engine),
            self.ending.watch(),
            _show_phases(self.tools.live, run.warmup, run.duration_s),
            *more,
        ]
        tasks = [asyncio.create_task(h) for h in helpers]
        try:
            await load
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with contextlib.suppress(asyncio.CancelledError):
                    await task


def _hopes(config: SweepConfig, trace: Trace) -> Hopes:
    """Of the classes with targets that come by an open loop: how many of each the window plans is known beforehand."""
    start_ns, end_ns = config.run.warmup * 1e9, (config.run.warmup + config.run.duration_s) * 1e9
    planned = Counter(s.class_name for s in trace.open_loop if start_ns <= (s.offset_ns or 0) < end_ns)
    targets = {c.name: c.slo for c in config.classes if c.slo is not None and c.name in planned}
    wanted = {name: planned[name] for name in targets}
    return Hopes(targets, wanted, config.run.share_target, start_ns, end_ns, is_search(config))


def prompt_salt(sweep_id: str, cell: int) -> int:
    """Other prompts in every cell of every sweep, so that no cell is served from a cache another one filled."""
    return int.from_bytes(hashlib.blake2b(f"{sweep_id}/{cell}".encode(), digest_size=6).digest())


async def _show_phases(live: LiveFeed, warmup_s: float, duration_s: float) -> None:
    live.phase = "warmup"
    await asyncio.sleep(warmup_s)
    live.phase = "measure"
    await asyncio.sleep(duration_s)
    live.phase = "drain"


class _Ending:
    """Why a cell ends early: the server died, it cannot hold a prompt, the user skips it, the sweep stops, it cannot
    meet its targets any more."""

    def __init__(self, tools: CellTools, hopes: Hopes | None) -> None:
        self.event = asyncio.Event()
        self._tools = tools
        self._hopes = hopes
        self._cut: tuple[str, int] | None = None  # why it is hopeless, and when that was known
        self._failure: SettingFailed | None = None
        self._own_failure: SettingFailed | None = None
        self._skipped = False

    def note(self, failure: SettingFailed) -> None:
        """What ended the cell from our own side; the server's death goes before it."""
        self._own_failure = failure

    def note_record(self, record: RequestRecord) -> None:
        """A prompt that this setting's context cannot hold ends the cell: its rest would be refused as well.

        A cache that ran full under load ends streams in mid-answer instead; that is measured.
        """
        if record.error_kind == "context_overflow" and record.token_events == 0 and not self._failure:
            detail = f"a prompt does not fit this setting's context ({record.error_detail})"
            self._failure = SettingFailed(
                "context_overflow", f"{detail}; raise the context per sequence or shorten the prompts"
            )
            self.event.set()
        if self._hopes and not self.event.is_set() and (why := self._hopes.note(record)):
            self._cut = why, record.end_ns or record.scheduled_ns
            self.event.set()

    async def watch(self) -> None:
        while not self.event.is_set():
            self._failure = await self._tools.server_failure() or self._failure
            self._skipped = self._tools.skip()
            if self._failure or self._skipped or self._tools.stop.is_set():
                self.event.set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._tools.stop.wait(), WATCH_S)

    async def verdict(self, cell: CellRecord, kinds: Counter[str]) -> CellRecord:
        """The cell's status. `running` when the sweep was stopped: such a cell is measured again on resume."""
        failure = self._failure or await self._tools.server_failure()
        if failure:
            return failed_cell(cell, failure)
        if self._skipped:
            return replace(cell, status="skipped", error_detail="skipped by the user")
        if self._tools.stop.is_set():
            return cell
        if self._own_failure:
            return failed_cell(cell, self._own_failure)
        rows = self._tools.writer.rows
        quiet = await asyncio.to_thread(silence, rows.requests, rows.engine, self._tools.config.run.request_timeout_s)
        if quiet:
            return failed_cell(cell, quiet)
        return judged_cell(cut_short(cell, *self._cut) if self._cut else cell, kinds)


def kind_of_end(record: RequestRecord) -> str:
    """`ok`, or the error kind; one that our own end of run cut short was answered, though not to its end."""
    cut = record.error_kind == "cancelled" and record.token_events > 0
    return "ok" if cut else record.error_kind or "ok"


def judged_cell(cell: CellRecord, kinds: Counter[str]) -> CellRecord:
    """The row of a cell that ran to its end, by how its requests ended: failed when none was answered."""
    if kinds["ok"] or not kinds.total():
        return replace(cell, status="ok")
    kind, count = next((k, n) for k, n in kinds.most_common() if k != "ok")
    detail = f"no request was answered: {count} of {kinds.total()} ended as {kind}"
    return replace(cell, status="failed", error_kind=kind, error_detail=detail)


def cut_short(cell: CellRecord, why: str, at_ns: int) -> CellRecord:
    """The row of a hopeless cell: what was measured counts, in a window that ends where it was cut."""
    begin_ns, end_ns = cell.window_start_ns or 0, cell.window_end_ns or at_ns
    return replace(cell, window_end_ns=max(begin_ns + 1, min(at_ns, end_ns)), error_kind="hopeless", error_detail=why)


def failed_cell(cell: CellRecord, failure: SettingFailed) -> CellRecord:
    """The row of a cell whose server did not start or died."""
    return replace(
        cell,
        status="failed",
        error_kind=failure.error_kind,
        error_detail=str(failure),
        exit_code=failure.exit_code,
        log_tail=failure.log_tail,
    )
