"""Sends a trace: open loop on absolute deadlines, closed loops by workers. Sleeps by `alarm` alone.

The open loop never waits for answers: a late request is sent at once and keeps its scheduled moment, so a slow
server can't slow the load down and hide its own queue (coordinated omission).
"""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runner.load.alarm import Alarm
from runner.load.workload import ClosedLoop, RequestSpec, Trace
from storage.records import RequestRecord

_Record = RequestRecord | asyncio.Future[RequestRecord]
Send = Callable[[RequestSpec, int], Awaitable[_Record]]
SleepUntil = Callable[[int, bool], Awaitable[None]]
_Done = asyncio.Future[str] | None  # tells a closed-loop worker the outcome
_Waiting = tuple[RequestSpec, int, _Done]

FAILED_PAUSE_NS = 1_000_000_000  # a worker whose request failed: else a dead server gets thousands of requests a second
BOOKS_PER_YIELD = 500


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """What became of the load. `scheduled` = records handed over = completed + failed + cancelled."""

    scheduled: int
    sent: int  # handed to `send`
    completed: int
    failed: int
    cancelled: int
    stopped: bool  # by the stop event, before the end
    end_ns: int  # the last record is in


async def run_load(
    trace: Trace,
    send: Send,
    *,
    origin_ns: int,
    end_ns: int,
    drain_ns: int,
    now_ns: Callable[[], int],
    on_record: Callable[[RequestRecord], None],
    stop: asyncio.Event,
    max_in_flight: Mapping[str, int],
    cell: int = 0,
    sleep_until: SleepUntil | None = None,
) -> LoadOutcome:
    """Runs one cell's load to its end; every open-loop spec before `end_ns` becomes exactly one record.

    `origin_ns`, `end_ns` and the scheduled moment given to `send` are on the clock of `now_ns`; `drain_ns` is a
    duration. The records made here (requests that were never sent, or whose `send` gave no record when it was cut)
    count from the origin, as all records do.
    At `end_ns` sending ends; running requests may finish until `end_ns + drain_ns`, then they are cut: `send` is
    cancelled and may still return its own `cancelled` record with what had arrived. `stop` ends sending and cuts at
    once. `send` may return a future when an answer is here but not read yet: its user goes on, the record follows.
    `max_in_flight`: running requests per class; what is above waits here, first come first served, and keeps
    its scheduled moment. An exception of `send` or `on_record` ends the load and is raised here: a failed request is a
    record, not an exception.
    `sleep_until(deadline_ns, exact)` returns at the deadline, after at least one turn of the event loop.
    """
    with Alarm(now_ns) as alarm:
        sleeper = sleep_until or alarm.sleep_until
        load = _Load(trace, send, origin_ns, end_ns, now_ns, on_record, stop, max_in_flight, cell, sleeper)
        helpers = [asyncio.create_task(stop.wait()), asyncio.create_task(load.failure.wait())]
        try:
            await load.feed(helpers)
            await load.book_unsent()
            await load.drain(helpers, end_ns + drain_ns)
        finally:
            for task in helpers:
                task.cancel()
            await load.cut()
    if load.error is not None:
        raise load.error
    outcomes = load.outcomes
    return LoadOutcome(
        scheduled=outcomes.total(),
        sent=load.sent,
        completed=outcomes["ok"],
        failed=outcomes["error"],
        cancelled=outcomes["cancelled"],
        stopped=stop.is_set(),
        end_ns=now_ns(),
    )


def unsent_record(spec: RequestSpec, scheduled_ns: int, cell: int, detail: str) -> RequestRecord:
    """A request that our own end of run kept from the server, or cut; `scheduled_ns` counts from the origin."""
    return RequestRecord(
        cell=cell,
        request=spec.request,
        class_name=spec.class_name,
        priority=spec.priority,
        prompt_tokens_asked=spec.prompt_tokens,
        output_tokens_asked=spec.output_tokens,
        scheduled_ns=scheduled_ns,
        outcome="cancelled",
        error_kind="cancelled",
        error_detail=detail,
    )


@dataclass
class _Load:
    """The state of one run: what is running, what waits for its class's cap, what was counted."""

    trace: Trace
    send: Send
    origin_ns: int
    end_ns: int
    now_ns: Callable[[], int]
    on_record: Callable[[RequestRecord], None]
    stop: asyncio.Event
    caps: Mapping[str, int]
    cell: int
    sleep_until: SleepUntil
    next_open: int = 0  # the first open-loop spec that has not arrived
    open: bool = True  # requests may be sent
    running: set[asyncio.Task[_Record]] = field(default_factory=set)
    in_flight: Counter[str] = field(default_factory=Counter)
    reading: set[asyncio.Future[RequestRecord]] = field(default_factory=set)  # answers whose records follow
    waiting: defaultdict[str, deque[_Waiting]] = field(default_factory=lambda: defaultdict(deque))
    outcomes: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    error: BaseException | None = None
    failure: asyncio.Event = field(default_factory=asyncio.Event)
    idle: asyncio.Event = field(default_factory=asyncio.Event)  # nothing is running or being read

    async def feed(self, helpers: Sequence[asyncio.Future[Any]]) -> None:
        """Sends until the end of the window, a stop or an error; then nothing new is sent."""
        feeders = [asyncio.create_task(self._open_loop())]
        for loop in self.trace.closed_loops:
            specs = loop.specs()
            feeders += [asyncio.create_task(self._worker(loop, specs)) for _ in range(loop.workers)]
        for feeder in feeders:
            feeder.add_done_callback(self._check)
        try:
            await asyncio.wait([feeders[0], *helpers], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.open = False
            for feeder in feeders:
                feeder.cancel()
            await asyncio.gather(*feeders, return_exceptions=True)

    async def _open_loop(self) -> None:
        """Every arrival before the end, even a late one; then the rest of the window."""
        for spec in self.trace.open_loop:
            due_ns = self.origin_ns + (spec.offset_ns or 0)
            if due_ns >= self.end_ns:
                break
            await self.sleep_until(due_ns, True)
            if self.stop.is_set():
                return
            self.next_open += 1
            self._arrive(spec, due_ns)
        await self.sleep_until(self.end_ns, False)

    async def _worker(self, loop: ClosedLoop, specs: Iterator[RequestSpec]) -> None:
        """One user: scheduled is the moment they are ready again, after thinking."""
        ready_ns = self.origin_ns
        while ready_ns < self.end_ns:
            await self.sleep_until(ready_ns, False)
            if self.stop.is_set():
                return
            done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            self._arrive(next(specs), ready_ns, done)
            outcome = await done
            pause_ns = FAILED_PAUSE_NS if outcome == "error" else 0
            ready_ns = self.now_ns() + max(loop.think_ns, pause_ns)

    def _arrive(self, spec: RequestSpec, due_ns: int, done: _Done = None) -> None:
        name = spec.class_name
        full = name in self.caps and self.in_flight[name] >= self.caps[name]
        if full or self.waiting[name]:
            self.waiting[name].append((spec, due_ns, done))
        else:
            self._launch(spec, due_ns, done)

    def _launch(self, spec: RequestSpec, due_ns: int, done: _Done) -> None:
        task = asyncio.create_task(_call(self.send, spec, due_ns))
        self.sent += 1
        self.in_flight[spec.class_name] += 1
        self.running.add(task)
        self.idle.clear()
        # a callback, not a wrapper: a task cut before its first step never enters its own body
        task.add_done_callback(lambda t: self._finish(t, spec, due_ns, done))

    def _finish(self, task: asyncio.Task[_Record], spec: RequestSpec, due_ns: int, done: _Done) -> None:
        name = spec.class_name
        self.running.discard(task)
        self.in_flight[name] -= 1
        if task.cancelled():
            self._book(unsent_record(spec, due_ns - self.origin_ns, self.cell, "cut at the end of the run"), done)
        elif (error := task.exception()) is not None:
            self._fail(error)
        elif isinstance(record := task.result(), RequestRecord):
            self._book(record, done)
        else:
            self._read_later(record, done)
        self._note_idle()
        if self.waiting[name] and self.open and not self.stop.is_set() and self.now_ns() < self.end_ns:
            self._launch(*self.waiting[name].popleft())

    def _read_later(self, record: asyncio.Future[RequestRecord], done: _Done) -> None:
        self.reading.add(record)
        record.add_done_callback(self._has_read)
        if done is not None and not done.done():
            done.set_result("ok")  # an answer that may be a refusal comes as its record

    def _has_read(self, record: asyncio.Future[RequestRecord]) -> None:
        self.reading.discard(record)
        self._book(record.result(), None)
        self._note_idle()

    def _note_idle(self) -> None:
        if not self.running and not self.reading:
            self.idle.set()

    def _book(self, record: RequestRecord, done: _Done) -> None:
        self.outcomes[record.outcome] += 1
        if done is not None and not done.done():
            done.set_result(record.outcome)
        try:
            self.on_record(record)
        except Exception as error:
            self._fail(error)

    async def book_unsent(self) -> None:
        """What was scheduled in the window and never sent: behind a cap, or after the stop."""
        for queue in self.waiting.values():
            while queue:
                spec, due_ns, done = queue.popleft()
                detail = "not sent: the class's cap on running requests held it until the end"
                self._book(unsent_record(spec, due_ns - self.origin_ns, self.cell, detail), done)
        for i, spec in enumerate(self.trace.open_loop[self.next_open :]):
            offset_ns = spec.offset_ns or 0
            if self.origin_ns + offset_ns >= self.end_ns:
                break
            self._book(unsent_record(spec, offset_ns, self.cell, "not sent: the run was stopped"), None)
            if i % BOOKS_PER_YIELD == 0:
                await asyncio.sleep(0)

    async def drain(self, helpers: Sequence[asyncio.Future[Any]], deadline_ns: int) -> None:
        """Lets running requests finish until the deadline; a stop or an error ends the wait."""
        if not self.running and not self.reading:
            return
        done = [asyncio.ensure_future(self.idle.wait()), asyncio.ensure_future(self.sleep_until(deadline_ns, False))]
        try:
            await asyncio.wait([*done, *helpers], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in done:
                task.cancel()

    async def cut(self) -> None:
        """Cancels what still runs and waits until each has its record."""
        for task in tuple(self.running):
            task.cancel()
        if self.running or self.reading:
            await self.idle.wait()

    def _check(self, feeder: asyncio.Task[None]) -> None:
        if not feeder.cancelled() and (error := feeder.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self.error = self.error or error
        self.failure.set()


async def _call(send: Send, spec: RequestSpec, due_ns: int) -> _Record:
    return await send(spec, due_ns)
