"""A load driven by a virtual clock, so every moment is exact and an hour takes no time."""

import asyncio
import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from runner.load.generator import LoadOutcome, run_load, unsent_record
from runner.load.workload import RequestSpec, Trace
from storage.records import RequestRecord

T = TypeVar("T")
MS = 1_000_000
S = 1_000_000_000
ORIGIN = 7 * S  # not zero, so that a mix-up of the two clocks shows


class VirtualClock:
    """Time stands still while anything can run; then it jumps to the next sleeper's deadline."""

    def __init__(self) -> None:
        self.now = ORIGIN
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    async def sleep_until(self, deadline_ns: int, exact: bool = True) -> None:
        if deadline_ns <= self.now:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (deadline_ns, next(self._order), future))
        await future

    async def others_first(self) -> None:
        """Returns when everybody else whose deadline is now has woken up."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now, next(self._order), future))
        await future

    def run(self, main: Coroutine[object, object, T]) -> T:
        loop = asyncio.new_event_loop()
        selector = loop._selector  # type: ignore[attr-defined]
        select = selector.select

        def jump(timeout: float | None = None) -> object:
            if timeout == 0:
                return select(0)
            while self._sleepers and self._sleepers[0][2].done():
                heapq.heappop(self._sleepers)
            assert self._sleepers, "nothing can run and nobody sleeps: the load hangs"
            deadline_ns, _, future = heapq.heappop(self._sleepers)
            self.now = max(self.now, deadline_ns)
            future.set_result(None)
            return select(0)

        selector.select = jump
        try:
            return loop.run_until_complete(main)
        finally:
            selector.select = select
            loop.close()


@dataclass
class Server:
    """Takes `service_ns` for each request; remembers when each was sent and how many ran at once."""

    clock: VirtualClock
    service_ns: Callable[[RequestSpec], int]
    outcome: str = "ok"
    answers_cancel: bool = True
    sent: list[tuple[int, RequestSpec, int]] = field(default_factory=list)  # (sent at, spec, scheduled)
    now_running: Counter[str] = field(default_factory=Counter)
    most_running: Counter[str] = field(default_factory=Counter)

    async def send(self, spec: RequestSpec, scheduled_ns: int) -> RequestRecord:
        name, now = spec.class_name, self.clock.now
        self.sent.append((now, spec, scheduled_ns))
        self.now_running[name] += 1
        self.most_running[name] = max(self.most_running[name], self.now_running[name])
        record = replace(
            unsent_record(spec, scheduled_ns - ORIGIN, 0, ""),
            sent_ns=now - ORIGIN,
            outcome=self.outcome,
            error_kind=None,
        )
        try:
            service_ns = self.service_ns(spec)
            await self.clock.sleep_until(self.clock.now + service_ns)
        except asyncio.CancelledError:
            if not self.answers_cancel:
                raise
            return replace(record, outcome="cancelled", error_kind="cancelled", token_events=3)
        finally:
            self.now_running[name] -= 1
        return replace(record, end_ns=self.clock.now - ORIGIN)


@dataclass
class Run:
    outcome: LoadOutcome
    records: list[RequestRecord]
    server: Server
    clock: VirtualClock


def drive(
    trace: Trace,
    service: int | Callable[[RequestSpec], int],
    *,
    end_s: float = 10.0,
    drain_s: float = 5.0,
    caps: Mapping[str, int] | None = None,
    stop_at_s: float | None = None,
    outcome: str = "ok",
    answers_cancel: bool = True,
    clock: VirtualClock | None = None,
    stop: asyncio.Event | None = None,
) -> Run:
    clock = clock or VirtualClock()
    stop = stop or asyncio.Event()
    server = Server(clock, service if callable(service) else lambda _: service, outcome, answers_cancel)
    records: list[RequestRecord] = []

    async def main() -> LoadOutcome:
        async def stopper(at_s: float) -> None:
            await clock.sleep_until(ORIGIN + round(at_s * S))
            stop.set()

        task = asyncio.create_task(stopper(stop_at_s)) if stop_at_s is not None else None
        result = await run_load(
            trace,
            server.send,
            origin_ns=ORIGIN,
            end_ns=ORIGIN + round(end_s * S),
            drain_ns=round(drain_s * S),
            now_ns=lambda: clock.now,
            on_record=records.append,
            stop=stop,
            max_in_flight=caps or {},
            sleep_until=clock.sleep_until,
        )
        if task is not None:
            task.cancel()
        return result

    return Run(clock.run(main()), records, server, clock)
