"""One cell: warm-up, measured window, drain. Everything that is measured here goes to the writer as raw rows."""

import asyncio
import contextlib
import hashlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runner.config import PlannedCell, SweepConfig
from runner.errors import SettingFailed
from runner.live import LiveFeed
from runner.load.garbage import freeze, thaw
from runner.load.generator import run_load
from runner.load.loop_health import watch_loop
from runner.load.trace_file import TraceRow
from runner.load.workload import RequestSpec, build_trace, in_flight_caps
from runner.measured import Measured
from runner.writer import Writer
from storage.records import CellRecord, ClientSample, EngineSample, RequestRecord

LEAD_NS = 50_000_000  # the first arrival must not be late because tasks are still being made
WATCH_S = 0.5


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
    traces: Mapping[str, Sequence[TraceRow]]  # rows of classes that replay a recorded trace, by class name


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
        run.seed + plan.repeat,
        salt=prompt_salt(tools.sweep_id, plan.cell),
        rows=tools.traces,
    )
    await tools.writer.begin_cell()
    rows = tools.writer.rows
    ending = _Ending(tools)
    kinds: Counter[str] = Counter()
    steps_before = measured.clock.steps
    freeze()
    origin_ns = time.monotonic_ns() + LEAD_NS
    started_unix_ns = time.time_ns() + LEAD_NS

    async def send(spec: RequestSpec, scheduled_ns: int) -> RequestRecord:
        tools.live.open_streams += 1
        try:
            return await measured.send(spec, plan.cell, scheduled_ns, origin_ns)
        finally:
            tools.live.open_streams -= 1

    def keep(record: RequestRecord) -> None:
        kinds[record.error_kind or "ok"] += 1
        rows.requests.append(record)
        tools.live.note_record(record)
        ending.note_record(record)

    def keep_engine(sample: EngineSample) -> None:
        rows.engine.append(sample)
        tools.live.note_engine(sample)

    def keep_client(sample: ClientSample) -> None:
        rows.client.append(sample)
        tools.live.note_client(sample)

    helpers: list[Coroutine[Any, Any, None]] = [
        measured.scrape(plan.cell, origin_ns, keep_engine),
        watch_loop(
            plan.cell,
            origin_ns=origin_ns,
            now_ns=time.monotonic_ns,
            open_streams=lambda: tools.live.open_streams,
            on_sample=keep_client,
        ),
        ending.watch(),
        _show_phases(tools.live, run.warmup, run.duration_s),
    ]
    tasks = [asyncio.create_task(h) for h in helpers]
    try:
        await run_load(
            trace,
            send,
            origin_ns=origin_ns,
            end_ns=origin_ns + round(total_s * 1e9),
            drain_ns=round(run.drain * 1e9),
            now_ns=time.monotonic_ns,
            on_record=keep,
            stop=ending.event,
            max_in_flight=in_flight_caps(tools.config.classes, plan.load),
            cell=plan.cell,
        )
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        thaw()
    finished = replace(
        started,
        started_unix_ns=started_unix_ns,
        window_start_ns=round(run.warmup * 1e9),
        window_end_ns=round(total_s * 1e9),
        end_ns=time.monotonic_ns() - origin_ns,
        clock_steps=measured.clock.steps - steps_before,
    )
    return await ending.verdict(finished, kinds)


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
    """Why a cell ends early: the server died, it cannot hold a prompt, the user skips it, the sweep stops."""

    def __init__(self, tools: CellTools) -> None:
        self.event = asyncio.Event()
        self._tools = tools
        self._failure: SettingFailed | None = None
        self._skipped = False

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
        if not kinds["ok"] and kinds.total():
            kind, count = next((k, n) for k, n in kinds.most_common() if k != "ok")
            return replace(
                cell,
                status="failed",
                error_kind=kind,
                error_detail=f"no request was answered: {count} of {kinds.total()} ended as {kind}",
            )
        return replace(cell, status="ok")


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
