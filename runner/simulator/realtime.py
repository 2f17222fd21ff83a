"""The scheduler core in real time: iterations on one absolute timeline, tokens written when theirs ends."""

import asyncio
import time
from collections.abc import Callable

from runner.simulator.answer import Wording, http_reply, usage_of
from runner.simulator.ask import Ask
from runner.simulator.core import EngineState, Iteration, Knobs, Plan, Sequence, abort, complete, submit
from runner.simulator.cost_model import CostModel, iteration_ms
from runner.simulator.engine_metrics import EngineMetrics

# epoll waits in whole milliseconds, rounded up; the rest of the way is a sleep, exact to some 60 us
WAKE_EARLY_S = 0.0015
# a machine too slow for the model, or stopped for a while, does not race to make up for more than this
MOST_CATCH_UP_S = 0.25


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

    def next_bytes(self) -> bytes:
        """What the socket gets with the token that comes next; nothing in the middle of an answer not streamed."""
        ask, wording, index = self.ask, self.wording, self.sequence.generated
        last = index + 1 == ask.output_tokens
        if not ask.stream:
            usage = usage_of(ask.prompt_tokens, ask.output_tokens)
            return http_reply(200, wording.whole(ask.output_tokens, ask.finish_reason, usage)) if last else b""
        if index and not last and not ask.continuous_usage:
            return wording.event(index)
        usage_now = usage_of(ask.prompt_tokens, index + 1) if ask.continuous_usage else None
        usage_zero = usage_of(ask.prompt_tokens, 0) if ask.continuous_usage else None
        said = wording.token(index, ask.finish_reason if last else None, usage_now)
        opening = wording.role(usage_zero) if index == 0 else b""
        closing = wording.end(usage_of(ask.prompt_tokens, index + 1) if ask.include_usage else None) if last else b""
        return opening + said + closing


class RealtimeEngine:
    """Runs iterations while there is work. All methods belong to the event loop's thread."""

    def __init__(self, plan: Plan, knobs: Knobs, cost: CostModel, total_blocks: int) -> None:
        self.plan = plan
        self.knobs = knobs
        self.cost = cost
        self.state = EngineState(total_blocks, knobs.policy)
        self.metrics = EngineMetrics()
        self._loop = asyncio.get_running_loop()
        self._answers: dict[Sequence, LiveAnswer] = {}
        self._gone: list[LiveAnswer] = []
        self._outbox: list[tuple[asyncio.Transport, bytes]] = []
        self._deadline_s = 0.0  # end of the iteration at work
        self._idle = True
        self._backlog = False  # the last plan had to leave somebody waiting

    def queue_is_full(self, max_queue: int) -> bool:
        """True when one more request would wait behind `max_queue` others; free seats are not a queue."""
        free_seats = 0 if self._backlog else self.knobs.max_num_seqs - len(self.state.running)
        return len(self.state.waiting) >= max_queue + free_seats

    def submit(self, answer: LiveAnswer) -> None:
        submit(self.state, answer.sequence)
        self._answers[answer.sequence] = answer
        if self._idle:
            self._idle = False
            self._deadline_s = self._loop.time()
            self._loop.call_soon(self._advance)

    def drop(self, answer: LiveAnswer) -> None:
        """The client has gone: its sequence leaves before the next iteration."""
        if self._answers.pop(answer.sequence, None):
            self._gone.append(answer)
            self.metrics.finished["abort"] += 1

    def _advance(self) -> None:
        for answer in self._gone:
            abort(self.state, answer.sequence)
        self._gone.clear()
        iteration = self.plan(self.state, self.knobs)
        self._backlog = bool(self.state.waiting)
        if not iteration.sequences:
            self._idle = True
            return
        self._count_start(iteration)
        # from the end before, not from now: lateness of one iteration never moves the next
        begun_s = max(self._deadline_s, self._loop.time() - MOST_CATCH_UP_S)
        self._deadline_s = begun_s + iteration_ms(self.cost, iteration.batch) / 1000
        self._outbox = self._prepare(iteration)
        self._loop.call_at(self._deadline_s - WAKE_EARLY_S, self._finish, iteration)

    def _prepare(self, iteration: Iteration) -> list[tuple[asyncio.Transport, bytes]]:
        outbox = []
        for sequence, tokens in zip(iteration.sequences, iteration.tokens, strict=True):
            answer = self._answers.get(sequence)
            if answer is not None and tokens == sequence.uncomputed and (data := answer.next_bytes()):
                outbox.append((answer.transport, data))
        return outbox

    def _finish(self, iteration: Iteration) -> None:
        left_s = self._deadline_s - self._loop.time()
        if left_s > 0:
            time.sleep(left_s)
        for transport, data in self._outbox:
            if not transport.is_closing():
                transport.write(data)
        now_s = self._loop.time()
        self.metrics.observe_lag(now_s - self._deadline_s)
        emitted, finished = complete(self.state, iteration)
        self._count_tokens(emitted, now_s)
        for sequence in finished:
            answer = self._answers.pop(sequence, None)
            if answer is not None:
                self.metrics.finished[answer.ask.finish_reason] += 1
                answer.on_done()
        # two turns of the loop, so that requests already in the sockets are read before the next plan
        self._loop.call_soon(self._loop.call_soon, self._advance)

    def _count_start(self, iteration: Iteration) -> None:
        metrics = self.metrics
        metrics.preemptions += len(iteration.preempted)
        metrics.iteration_tokens.observe(sum(iteration.tokens))
        metrics.iteration_seqs += len(iteration.sequences)
        metrics.iteration_context_tokens += iteration.batch.context_tokens
        for sequence in iteration.sequences:
            answer = self._answers.get(sequence)
            if answer is not None and not answer.started:
                answer.started = True
                metrics.queue_s.observe(max(0.0, self._deadline_s - answer.arrived_s))

    def _count_tokens(self, emitted: list[Sequence], now_s: float) -> None:
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
