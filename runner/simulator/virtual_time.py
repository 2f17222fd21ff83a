"""One cell in virtual time: the same load as `runner.load.generator` makes, on an engine that never waits. No clock.

What happens at the same nanosecond happens in this order: arrivals, the end of an iteration and the plan of the next
one, then what the clients do about the answers that ended (the next request of a closed loop, the next one behind a
cap): over any network that comes too late for that plan. No time passes between sending and arriving.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

from runner.load.workload import RequestSpec, Trace
from runner.simulator.settings import ServerSettings
from runner.simulator.step_log import StepLog
from runner.simulator.virtual_engine import VirtualEngine, VirtualRequest
from storage.records import EngineSample

FAILED_PAUSE_NS = 1_000_000_000  # as in the real generator: a worker whose request failed waits a second
_LOOK_EVERY = 256  # turns between two looks at whether to go on


@dataclass(frozen=True, slots=True)
class Span:
    """A cell's times, ns: sending ends at `end_ns`, what still runs is cut `drain_ns` later or `limit_ns` after it was
    sent; the engine is looked at every `sample_ns`."""

    end_ns: int
    drain_ns: int
    limit_ns: int
    sample_ns: int


@dataclass(slots=True)
class VirtualCell:
    """What one cell gave: requests in the order they ended, samples, the last moment (ns since the origin)."""

    requests: list[VirtualRequest]
    samples: list[EngineSample]
    end_ns: int
    gave_up: bool  # the caller did not want to go on: the cell is not whole


def run_virtual(
    trace: Trace,
    settings: ServerSettings,
    span: Span,
    *,
    max_in_flight: Mapping[str, int],
    shared_prefix: Mapping[str, int] | None = None,
    cell: int = 0,
    go_on: Callable[[], bool] = lambda: True,
    log: StepLog | None = None,
) -> VirtualCell:
    """Runs one cell's load to its end. The result depends on the arguments alone, to the last bit.

    `shared_prefix`: tokens that all prompts of a class begin with, by class; of use to a prefix cache only.
    A request that no context of this setting can hold ends the cell at once, as it does when measured.
    `go_on` is asked now and then; when it says no, the run is given up. `log` is told of the engine's iterations.
    """
    load = _Load(trace, VirtualEngine(settings, shared_prefix or {}, log), span, max_in_flight, cell)
    load.begin()
    turns = 0
    while not load.over:
        turns += 1
        if turns % _LOOK_EVERY == 0 and not go_on():
            load.stop("stopped")
            return load.result(gave_up=True)
        load.turn()
    return load.result(gave_up=False)


@dataclass
class _Load:
    """Who is ready when, what runs, what waits for its class's cap."""

    trace: Trace
    engine: VirtualEngine
    span: Span
    caps: Mapping[str, int]
    cell: int
    now_ns: int = 0
    over: bool = False
    next_open: int = 0
    next_sample_ns: int = 0
    ready: list[tuple[int, int, int]] = field(default_factory=list)  # heap of workers: (when, turn, closed loop)
    turns: int = 0
    specs: list[Iterator[RequestSpec]] = field(default_factory=list)  # of each closed loop
    sent: deque[VirtualRequest] = field(default_factory=deque)  # in the order of sending, for the time limit
    in_flight: Counter[str] = field(default_factory=Counter)
    running: int = 0
    sending: bool = True
    waiting: defaultdict[str, deque[VirtualRequest]] = field(default_factory=lambda: defaultdict(deque))
    freed: list[str] = field(default_factory=list)  # classes whose next waiting request may go
    ended: list[VirtualRequest] = field(default_factory=list)
    samples: list[EngineSample] = field(default_factory=list)

    def begin(self) -> None:
        for place, loop in enumerate(self.trace.closed_loops):
            self.specs.append(loop.specs())
            for _ in range(loop.workers):
                self._ready_at(0, place)

    def turn(self) -> None:
        """The engine's iterations up to the next thing that happens outside, and that."""
        engine, event_ns = self.engine, self._next_ns()
        if engine.must_plan and event_ns > self.now_ns:  # whatever comes at the same moment is there
            engine.plan(self.now_ns, event_ns)
        while (engine_ns := engine.next_ns) < event_ns:
            self.now_ns = int(engine_ns)
            answered = engine.finish(self.now_ns)
            for request in answered:
                self._has_ended(request, failed=False)
            if self.over:
                return
            if answered:
                event_ns = self._next_ns()
            engine.plan(self.now_ns, event_ns)  # what clients do about the answers comes behind this plan
        self.now_ns = event_ns
        self._happen()

    def result(self, *, gave_up: bool) -> VirtualCell:
        self.engine.close(self.now_ns, self.ended)
        return VirtualCell(self.ended, self.samples, self.now_ns, gave_up)

    def stop(self, fate: str) -> None:
        """Ends the cell now: what runs is cut, what was not sent says so."""
        self._close_sending()
        for spec in self.trace.open_loop[self.next_open :]:
            if (spec.offset_ns or 0) >= self.span.end_ns:
                break
            self.ended.append(VirtualRequest(spec, spec.offset_ns or 0, fate=fate))
        self._cut()

    def _next_ns(self) -> int:
        """The next moment at which something happens outside the engine."""
        if self.freed:
            return self.now_ns
        times = [self.next_sample_ns, self.span.end_ns if self.sending else self.span.end_ns + self.span.drain_ns]
        if self.sending and self.next_open < len(self.trace.open_loop):
            times.append(self.trace.open_loop[self.next_open].offset_ns or 0)
        if self.sending and self.ready:
            times.append(self.ready[0][0])
        while self.sent and self.sent[0].fate != "running":
            self.sent.popleft()
        if self.sent:
            times.append((self.sent[0].sent_ns or 0) + self.span.limit_ns)
        return min(times)

    def _happen(self) -> None:
        """Everything outside the engine that is due now."""
        now_ns, span = self.now_ns, self.span
        if now_ns == self.next_sample_ns:
            self.samples.append(self.engine.sample(self.cell, now_ns))
            self.next_sample_ns += span.sample_ns
        while self.sent and (self.sent[0].sent_ns or 0) + span.limit_ns <= now_ns:
            request = self.sent.popleft()
            if request.fate == "running":
                self._leave(request, "timeout")
        if self.sending and now_ns >= span.end_ns:
            self._close_sending()
        self._release()
        if self.sending:
            self._arrivals()
        if not self.sending and (not self.running or now_ns >= span.end_ns + span.drain_ns):
            self._cut()

    def _release(self) -> None:
        freed, self.freed = self.freed, []
        for name in freed:
            while self.sending and self.waiting[name] and self.in_flight[name] < self.caps[name]:
                self._launch(self.waiting[name].popleft())

    def _arrivals(self) -> None:
        specs, now_ns = self.trace.open_loop, self.now_ns
        while self.next_open < len(specs) and (specs[self.next_open].offset_ns or 0) <= now_ns and not self.over:
            spec = specs[self.next_open]
            self.next_open += 1
            self._arrive(VirtualRequest(spec, spec.offset_ns or 0))
        while self.ready and self.ready[0][0] <= now_ns and not self.over:
            ready_ns, _, loop = heappop(self.ready)
            self._arrive(VirtualRequest(next(self.specs[loop]), ready_ns, loop))

    def _arrive(self, request: VirtualRequest) -> None:
        name = request.spec.class_name
        full = name in self.caps and self.in_flight[name] >= self.caps[name]
        if full or self.waiting[name]:
            self.waiting[name].append(request)
        else:
            self._launch(request)

    def _launch(self, request: VirtualRequest) -> None:
        request.sent_ns = self.now_ns
        request.fate = self.engine.submit(request, self.now_ns)
        if request.fate == "running":
            self.in_flight[request.spec.class_name] += 1
            self.running += 1
            self.sent.append(request)
            return
        request.end_ns = self.now_ns
        self.ended.append(request)
        if request.fate == "too_long":
            self.stop("stopped")
        elif request.loop is not None:
            self._thinks(request.loop, FAILED_PAUSE_NS)

    def _leave(self, request: VirtualRequest, fate: str) -> None:
        """The client gives up a request that runs."""
        request.end_ns, request.fate = self.now_ns, fate
        self.engine.drop(request)
        self._has_ended(request, failed=True)

    def _has_ended(self, request: VirtualRequest, *, failed: bool) -> None:
        name = request.spec.class_name
        self.ended.append(request)
        self.in_flight[name] -= 1
        self.running -= 1
        if request.loop is not None:
            self._thinks(request.loop, FAILED_PAUSE_NS if failed else 0)
        if self.waiting[name]:
            self.freed.append(name)
        if not self.sending and not self.running:
            self.over = True

    def _thinks(self, loop: int, least_ns: int) -> None:
        self._ready_at(self.now_ns + max(self.trace.closed_loops[loop].think_ns, least_ns), loop)

    def _ready_at(self, when_ns: int, loop: int) -> None:
        if when_ns < self.span.end_ns:
            self.turns += 1
            heappush(self.ready, (when_ns, self.turns, loop))

    def _close_sending(self) -> None:
        """Nothing new is sent; what waits behind a cap never was."""
        self.sending = False
        for queue in self.waiting.values():
            self.ended += queue
            queue.clear()

    def _cut(self) -> None:
        """What still runs ends here."""
        for request in self.sent:
            if request.fate == "running":
                request.end_ns, request.fate = self.now_ns, "cut"
                self.ended.append(request)
        self.over = True
