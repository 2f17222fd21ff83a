"""The engine in real time: iterations on an absolute timeline, tokens written when theirs ends."""

import asyncio
import time
from collections.abc import Callable

from runner.simulator.answer import Wording, http_reply, usage_of
from runner.simulator.ask import Ask
from runner.simulator.core import emitting
from runner.simulator.cost_model import CostModel
from runner.simulator.engine import Engine, Work
from runner.simulator.engine_metrics import EngineMetrics
from runner.simulator.state import Iteration, Knobs, Sequence

# epoll waits in whole milliseconds, rounded up; the rest of the way is a sleep, exact to some 60 us
WAKE_EARLY_S = 0.0015
# a machine too slow for the model, or stopped for a while, does not race to make up for more than this
MOST_CATCH_UP_NS = 250_000_000
NS = 1_000_000_000
Outbox = list[tuple[asyncio.Transport, bytes]]


class LiveAnswer:
    """One answer being made: where it goes, what it says next, when its tokens went out."""

    __slots__ = ("arrived_s", "ask", "last_token_s", "on_done", "sequence", "started", "transport", "wording")

    def __init__(
        self,
        ask: Ask,
        wording: Wording,
        sequence: Sequence,
        transport: asyncio.Transport,
        arrived_s: float,
        on_done: Callable[[], None],
    ) -> None:
        self.ask = ask
        self.wording = wording
        self.sequence = sequence
        self.transport = transport
        self.arrived_s = arrived_s
        self.on_done = on_done
        self.started = False  # an iteration has worked on it
        self.last_token_s = 0.0

    def next_bytes(self, index: int) -> bytes:
        """What the socket gets with token `index`; nothing in the middle of an answer not streamed."""
        ask, wording, cached = self.ask, self.wording, self.sequence.cached_tokens
        last = index + 1 == ask.output_tokens
        if not ask.stream:
            usage = usage_of(ask.prompt_tokens, ask.output_tokens, cached)
            return http_reply(200, wording.whole(ask.output_tokens, ask.finish_reason, usage)) if last else b""
        if index and not last and not ask.continuous_usage:
            return wording.event(index)
        usage_now = usage_of(ask.prompt_tokens, index + 1, cached) if ask.continuous_usage else None
        usage_zero = usage_of(ask.prompt_tokens, 0, cached) if ask.continuous_usage else None
        said = wording.token(index, ask.finish_reason if last else None, usage_now)
        opening = wording.role(usage_zero) if index == 0 else b""
        total = usage_of(ask.prompt_tokens, index + 1, cached) if ask.include_usage else None
        return opening + said + (wording.end(total) if last else b"")

    def all_bytes(self) -> bytes:
        """The whole answer at once."""
        return b"".join(self.next_bytes(index) for index in range(self.ask.output_tokens))


class RealtimeEngine:
    """Runs iterations while there is work. All methods belong to the event loop's thread."""

    def __init__(self, scheduler: str, knobs: Knobs, cost: CostModel, total_blocks: int) -> None:
        self.engine = Engine(scheduler, knobs, cost, total_blocks)
        self.metrics = EngineMetrics()
        self._loop = asyncio.get_running_loop()
        self._answers: dict[Sequence, LiveAnswer] = {}
        self._outboxes: dict[int, Outbox] = {}  # by lane: what its iteration at work will say,
        self._emitting: dict[int, list[Sequence]] = {}  # and who gets a token
        self._timer: asyncio.TimerHandle | None = None
        self._planning = False  # a plan is about to be made

    def submit(self, answer: LiveAnswer) -> None:
        """Raises ValueError for what could never run."""
        now_ns = self._now_ns()
        self.engine.submit(answer.sequence, now_ns)
        self._answers[answer.sequence] = answer
        self._plan_soon(now_ns)

    def drop(self, answer: LiveAnswer) -> None:
        """The client has gone: its sequence leaves before the next iteration, at once where nothing is at work: others
        may wait for its blocks, and no iteration will end that could tell them."""
        if self._answers.pop(answer.sequence, None):
            self.engine.drop(answer.sequence)
            self.metrics.finished["abort"] += 1
            self._plan_soon(self._now_ns())

    def _plan_soon(self, now_ns: int) -> None:
        """Lets idle lanes look again, once for all that comes in this turn of the loop."""
        if not self._planning and None in self.engine.work:
            self._planning = True
            self._loop.call_soon(self._advance, now_ns)

    def _now_ns(self) -> int:
        return int(self._loop.time() * NS)

    def _advance(self, timeline_ns: int) -> None:
        """Plans idle lanes. From the end before, not from now: lateness of one iteration never moves the next."""
        self._planning = False
        for work in self.engine.start(max(timeline_ns, self._now_ns() - MOST_CATCH_UP_NS)):
            self._count_start(work)
            self._prepare(work.iteration)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        next_ns = self.engine.next_ns
        if next_ns < float("inf"):
            self._timer = self._loop.call_at(next_ns / NS - WAKE_EARLY_S, self._turn, int(next_ns))

    def _prepare(self, iteration: Iteration) -> None:
        outbox: Outbox = []
        emitted = emitting(self.engine.state, iteration)
        for sequence in emitted:
            answer = self._answers.get(sequence)
            if answer is not None and (data := answer.next_bytes(sequence.generated)):
                outbox.append((answer.transport, data))
        self._outboxes[iteration.lane], self._emitting[iteration.lane] = outbox, emitted

    def _turn(self, due_ns: int) -> None:
        self._timer = None
        left_s = due_ns / NS - self._loop.time()
        if left_s > 0:
            time.sleep(left_s)
        due = [w.iteration.lane for w in self.engine.work if w is not None and w.end_ns <= due_ns]
        for lane in due:
            for transport, data in self._outboxes.pop(lane):
                if not transport.is_closing():
                    transport.write(data)
        now_s = self._loop.time()
        if due:
            self.metrics.observe_lag(now_s - due_ns / NS)
        for ended in self.engine.finish(due_ns):
            self._hand_out(self._emitting.pop(ended.work.iteration.lane), now_s)
            for sequence in ended.done.finished:
                if sequence.held and (answer := self._answers.get(sequence)) is not None:
                    self._hand_out_whole(answer, now_s)
        self._planning = True
        # two turns of the loop, so that requests already in the sockets are read before the next plan
        self._loop.call_soon(self._loop.call_soon, self._advance, due_ns)

    def _count_start(self, work: Work) -> None:
        metrics, iteration = self.metrics, work.iteration
        metrics.iteration_tokens.observe(iteration.tokens)
        metrics.iteration_seqs += len(iteration.chunks) + iteration.batch.decode_seqs
        metrics.iteration_context_tokens += iteration.batch.context_tokens
        for sequence, _ in iteration.chunks:
            answer = self._answers.get(sequence)
            if answer is None or answer.started:
                continue
            answer.started = True
            metrics.queue_s.observe(max(0.0, work.begin_ns / NS - answer.arrived_s))
            if self.engine.knobs.prefix_caching:
                metrics.prefix_queries += sequence.prompt_tokens
                metrics.prefix_hits += sequence.cached_tokens

    def _hand_out(self, emitted: list[Sequence], now_s: float) -> None:
        metrics = self.metrics
        metrics.generation_tokens += len(emitted)
        for sequence in emitted:
            answer = self._answers.get(sequence)
            if answer is None:
                continue
            if sequence.generated == 1:
                metrics.prompt_tokens += sequence.prompt_tokens
                metrics.ttft_s.observe(now_s - answer.arrived_s)
            else:
                metrics.gap_s.observe(now_s - answer.last_token_s)
            answer.last_token_s = now_s
            if sequence.generated == sequence.output_tokens:
                self._done(answer)

    def _hand_out_whole(self, answer: LiveAnswer, now_s: float) -> None:
        """The tokens of a batch that answers at its end come together; a gap between them is nobody's."""
        if not answer.transport.is_closing():
            answer.transport.write(answer.all_bytes())
        self.metrics.prompt_tokens += answer.sequence.prompt_tokens
        self.metrics.generation_tokens += answer.sequence.output_tokens
        self.metrics.ttft_s.observe(now_s - answer.arrived_s)
        self._done(answer)

    def _done(self, answer: LiveAnswer) -> None:
        del self._answers[answer.sequence]
        self.metrics.finished[answer.ask.finish_reason] += 1
        answer.on_done()
