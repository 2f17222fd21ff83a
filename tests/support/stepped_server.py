"""The same engine behind the real load generator, one step at a time on a virtual clock: what virtual time must match.

Nothing is skipped here: every iteration is planned, every token is handed out when its iteration ends.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from math import inf

from runner.load.generator import run_load, unsent_record
from runner.load.record import deltas_us
from runner.load.workload import RequestSpec, Trace
from runner.simulator.core import emitting
from runner.simulator.engine import Engine
from runner.simulator.settings import ServerSettings, context_tokens
from runner.simulator.state import Sequence
from runner.simulator.virtual_time import Span
from storage.records import RequestRecord
from tests.support.virtual_load import ORIGIN, VirtualClock

TURNS = 40  # of the event loop, in which everybody reacts who will react at this moment


class SteppedServer:
    """Answers with tokens at the ends of iterations; times are the virtual clock's."""

    def __init__(self, settings: ServerSettings, clock: VirtualClock, limit_ns: int) -> None:
        self.settings, self.clock, self.limit_ns = settings, clock, limit_ns
        self.most = context_tokens(settings)
        self.engine = Engine(settings.scheduler, settings.knobs, settings.profile.cost, settings.total_blocks)
        self.orders = 0
        self.times: dict[Sequence, list[int]] = {}
        self.ends: dict[Sequence, asyncio.Future[None]] = {}
        self.came = asyncio.Event()

    async def run(self) -> None:
        """Iterations for ever."""
        while True:
            self.came.clear()
            await self.clock.others_first()
            for _ in range(TURNS):
                await asyncio.sleep(0)
            self.engine.start(self.clock.now)
            await self._until_something_ends()

    async def _until_something_ends(self) -> None:
        while True:
            next_ns = self.engine.next_ns
            came = asyncio.ensure_future(self.came.wait())
            waits: set[asyncio.Future[object]] = {came}
            if next_ns < inf:
                waits.add(asyncio.ensure_future(self.clock.sleep_until(int(next_ns))))
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in waits:
                    task.cancel()
            if self.clock.now < next_ns:
                if None in self.engine.work:
                    return
                self.came.clear()
                continue
            self._finish(int(next_ns))
            self.engine.start(self.clock.now)  # before any client can react

    def _finish(self, now_ns: int) -> None:
        for work in self.engine.work:
            if work is not None and work.end_ns <= now_ns:
                for sequence in emitting(self.engine.state, work.iteration):
                    self.times[sequence].append(now_ns)
        for ended in self.engine.finish(now_ns):
            for sequence in ended.done.finished:
                if sequence.held:
                    self.times[sequence] += [now_ns] * sequence.output_tokens
        for sequence, end in self.ends.items():
            if len(self.times[sequence]) == sequence.output_tokens and not end.done():
                end.set_result(None)

    async def send(self, spec: RequestSpec, scheduled_ns: int) -> RequestRecord:
        sent = replace(
            unsent_record(spec, scheduled_ns - ORIGIN, 0, ""), sent_ns=self.clock.now - ORIGIN, error_detail=None
        )
        if self.settings.max_queue is not None and self.engine.queue_is_full(self.settings.max_queue):
            end_ns = self.clock.now - ORIGIN
            return replace(sent, outcome="error", error_kind="overloaded", end_ns=end_ns)
        assert spec.prompt_tokens + spec.output_tokens <= self.most
        sequence = Sequence(self.orders, spec.prompt_tokens, spec.output_tokens, spec.priority)
        self.orders += 1
        self.times[sequence] = []
        end = self.ends[sequence] = asyncio.get_running_loop().create_future()
        self.engine.submit(sequence, self.clock.now)
        self.came.set()
        limit = asyncio.ensure_future(self.clock.sleep_until(self.clock.now + self.limit_ns))
        try:
            await asyncio.wait({end, limit}, return_when=asyncio.FIRST_COMPLETED)
            outcome, kind = ("ok", None) if end.done() else ("error", "timeout")
        except asyncio.CancelledError:
            outcome, kind = ("cancelled", "cancelled")
        limit.cancel()
        if not end.done():
            self.engine.drop(sequence)
            self.came.set()
        times = list(self.times[sequence])
        del self.ends[sequence]
        return replace(
            sent,
            outcome=outcome,
            error_kind=kind,
            end_ns=self.clock.now - ORIGIN,
            first_chunk_ns=times[0] - ORIGIN if times else None,
            chunk_deltas_us=deltas_us(times) if times else (),
            token_events=len(times),
        )


def run_stepped(
    trace: Trace, settings: ServerSettings, span: Span, max_in_flight: Mapping[str, int]
) -> list[RequestRecord]:
    """The records of one cell, by the real generator."""
    clock = VirtualClock()
    records: list[RequestRecord] = []

    async def main() -> None:
        server = SteppedServer(settings, clock, span.limit_ns)
        engine = asyncio.ensure_future(server.run())
        await run_load(
            trace,
            server.send,
            origin_ns=ORIGIN,
            end_ns=ORIGIN + span.end_ns,
            drain_ns=span.drain_ns,
            now_ns=lambda: clock.now,
            on_record=records.append,
            stop=asyncio.Event(),
            max_in_flight=max_in_flight,
            sleep_until=clock.sleep_until,
        )
        engine.cancel()
        await asyncio.gather(engine, return_exceptions=True)

    clock.run(main())
    return records
