"""The engine of a cell in virtual time: what its clients and its metrics see of it. No clock, no I/O.

The core remembers of a request only which decode steps it took part in. The end of every step is kept here once, so
a request's token times are slices of one array, and no token costs any work of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from runner.load.workload import KEY_WORDS, RequestSpec
from runner.simulator.engine import Ended, Engine, Work
from runner.simulator.settings import ServerSettings, context_tokens
from runner.simulator.state import BLOCK_TOKENS, Sequence
from runner.simulator.step_log import StepLog
from storage.records import EngineSample

Ints = npt.NDArray[np.int64]
COUNTERS = (
    "prompt_tokens_total", "generation_tokens_total", "iterations_total",
    "iteration_tokens_total", "iteration_seqs_total", "rejected_total", "queue_time_s_total", "queue_time_count",
    "prefix_cache_queries_total", "prefix_cache_hits_total", "ttft_s_total", "ttft_count",
)  # fmt: skip


@dataclass(slots=True, eq=False)
class VirtualRequest:
    """One request on its way. Times in ns since the cell's origin."""

    spec: RequestSpec
    scheduled_ns: int
    loop: int | None = None  # place of the closed loop whose worker waits for its end
    sequence: Sequence | None = None
    sent_ns: int | None = None
    end_ns: int | None = None
    fate: str = "held"  # held (never sent) | stopped (never sent) | running | ok | cut | timeout | busy | too_long
    from_prompt_ns: list[int] = field(default_factory=list)  # tokens that its prompt gave: again after a recompute
    times_ns: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # of its tokens, when the cell is over


class VirtualEngine:
    """Times given to it never go back. `shared_prefix`: tokens that all prompts of a class begin with, by class.

    `log` is told of every request and iteration.
    """

    def __init__(self, settings: ServerSettings, shared_prefix: Mapping[str, int], log: StepLog | None = None) -> None:
        self.settings = settings
        self._log = log
        self.max_model_len = context_tokens(settings)
        self.engine = Engine(settings.scheduler, settings.knobs, settings.profile.cost, settings.total_blocks)
        self.must_plan = False  # idle lanes have not looked yet at what has come
        self._shared_prefix = dict(shared_prefix)
        self._classes = {name: number for number, name in enumerate(self._shared_prefix)}
        self._requests: dict[Sequence, VirtualRequest] = {}  # those whose clients still listen
        self._unstarted: dict[Sequence, int] = {}  # those nothing was computed for -> when they came
        self._orders = 0
        self._steps: list[list[tuple[int, int, float, float]]] = [[] for _ in self.engine.work]
        self._totals = dict.fromkeys(COUNTERS, 0.0)
        # tokens stream although rows stay to the end of their batch: each step must be looked at
        self._stepwise = settings.scheduler == "static" and settings.knobs.stream_static

    @property
    def next_ns(self) -> float:
        """When something happens in the engine; inf: not before a request comes."""
        return self.engine.next_ns

    def submit(self, request: VirtualRequest, now_ns: int) -> str:
        """Puts the request into the queue, or refuses it. Returns its fate: running, busy or too_long."""
        spec, limit = request.spec, self.settings.max_queue
        if spec.prompt_tokens >= self.max_model_len or spec.prompt_tokens + spec.output_tokens > self.max_model_len:
            return "too_long"
        if limit is not None and self.engine.queue_is_full(limit):
            self._totals["rejected_total"] += 1
            return "busy"
        prefix = self.block_names(spec) if self.settings.knobs.prefix_caching else ()
        sequence = Sequence(self._orders, spec.prompt_tokens, spec.output_tokens, spec.priority, prefix)
        self._orders += 1
        self._requests[sequence] = request
        self._unstarted[sequence] = now_ns
        request.sequence = sequence
        self.engine.submit(sequence, now_ns)
        if self._log is not None:
            self._log.arrives(sequence.order, spec, now_ns)
        self.must_plan = self.must_plan or None in self.engine.work
        return "running"

    def drop(self, request: VirtualRequest) -> None:
        """The client has gone: its sequence leaves as soon as its iteration has ended."""
        if request.sequence is not None:
            del self._requests[request.sequence]
            self._unstarted.pop(request.sequence, None)
            self.engine.drop(request.sequence)
            self.must_plan = self.must_plan or None in self.engine.work

    def plan(self, now_ns: int, until_ns: int) -> None:
        """Idle lanes plan. `until_ns`: the next thing outside; until then quiet steps are taken at once."""
        self.must_plan = False
        for work in self.engine.start(now_ns, -inf if self._stepwise else until_ns):
            self._count_start(work)
            if self._log is not None:
                self._log.begins(work, self.engine.state.lanes[work.iteration.lane])

    def finish(self, now_ns: int) -> list[VirtualRequest]:
        """What ends now. Returns the requests that are answered to their end."""
        answered: list[VirtualRequest] = []
        for ended in self.engine.finish(now_ns):
            self._keep_steps(ended.work)
            answered += self._hand_out(ended)
        if self._stepwise:
            answered += self._streamed_to_their_end(now_ns)
        self.must_plan = True
        return answered

    def sample(self, cell: int, now_ns: int) -> EngineSample:
        """What a look at the metrics would show: gauges as planned, work counted when it begins, tokens when out."""
        engine, lanes = self.engine, self.engine.state.lanes
        totals: dict[str, Any] = {**self._totals, "num_preemptions_total": float(engine.preemptions)}
        for work in engine.work:
            if work is not None and self.settings.scheduler != "static":
                totals["generation_tokens_total"] += _decoded(work, work.iteration.steps - 1)
        return EngineSample(
            cell,
            now_ns,
            "metrics",
            0.0,
            running=float(engine.running),
            waiting=float(engine.waiting),
            kv_cache_usage=engine.kv_usage,
            kv_cache_usage_max=max(1 - lane.free_blocks / lane.total_blocks for lane in lanes),
            engines=1.0,
            seats=float(self.settings.knobs.max_num_seqs * sum(not lane.hands_over for lane in lanes)),
            swapped=float(sum(len(lane.swapped) for lane in lanes)),
            **totals,
        )

    def close(self, now_ns: int, requests: list[VirtualRequest]) -> None:
        """The cell is over: every request gets the times of the tokens that had reached it."""
        in_progress = [0] * len(self.engine.work)
        for lane, work in enumerate(self.engine.work):
            if work is not None:
                self._keep_steps(work)
                in_progress[lane] = work.iteration.steps if work.iteration.decodes else 0
        ends = [_step_ends_ns(steps) for steps in self._steps]
        for request in requests:
            if request.sequence is not None:
                request.times_ns = _token_times_ns(request, request.sequence, ends, in_progress)

    def _hand_out(self, ended: Ended) -> list[VirtualRequest]:
        work, done, totals = ended.work, ended.done, self._totals
        if self.settings.scheduler != "static":  # whose rows stay though they have nothing more to say
            totals["generation_tokens_total"] += len(done.started) + _decoded(work, work.iteration.steps)
        for sequence in done.started:
            request = self._requests.get(sequence)
            if request is not None:
                if not request.from_prompt_ns:
                    self._count_first_token(request, sequence, work.end_ns)
                request.from_prompt_ns.append(work.end_ns)
        if not done.finished:
            return []
        found = [self._answer(sequence, work.end_ns) for sequence in done.finished]
        return [request for request in found if request is not None]

    def _streamed_to_their_end(self, now_ns: int) -> list[VirtualRequest]:
        whole = [s for s in self._requests if s.lane is not None and s.generated == s.output_tokens]
        return [request for s in whole if (request := self._answer(s, now_ns)) is not None]

    def _answer(self, sequence: Sequence, now_ns: int) -> VirtualRequest | None:
        request = self._requests.pop(sequence, None)
        if request is None:
            return None
        request.end_ns, request.fate = now_ns, "ok"
        if self.settings.scheduler == "static":
            self._totals["generation_tokens_total"] += sequence.output_tokens
            if not request.from_prompt_ns:
                self._count_first_token(request, sequence, now_ns)
        return request

    def _count_first_token(self, request: VirtualRequest, sequence: Sequence, now_ns: int) -> None:
        self._totals["prompt_tokens_total"] += sequence.prompt_tokens
        self._totals["ttft_s_total"] += (now_ns - (request.sent_ns or 0)) / 1e9
        self._totals["ttft_count"] += 1

    def _keep_steps(self, work: Work) -> None:
        if work.iteration.decodes:
            self._steps[work.iteration.lane].append((work.begin_ns, work.iteration.steps, work.step_ms, work.growth_ms))

    def _count_start(self, work: Work) -> None:
        iteration, totals = work.iteration, self._totals
        decoded = _decoded(work, iteration.steps)
        totals["iterations_total"] += iteration.steps
        totals["iteration_tokens_total"] += decoded
        totals["iteration_seqs_total"] += decoded
        if not iteration.chunks:
            return
        totals["iteration_tokens_total"] += iteration.tokens - decoded
        totals["iteration_seqs_total"] += len(iteration.chunks)
        for sequence, _ in iteration.chunks:
            since_ns = self._unstarted.pop(sequence, None)
            if since_ns is None:
                continue
            totals["queue_time_s_total"] += (work.begin_ns - since_ns) / 1e9
            totals["queue_time_count"] += 1
            if self.settings.knobs.prefix_caching:
                totals["prefix_cache_queries_total"] += sequence.prompt_tokens
                totals["prefix_cache_hits_total"] += sequence.cached_tokens

    def block_names(self, spec: RequestSpec) -> tuple[int, ...]:
        """Names of a prompt's full blocks, equal for equal beginnings, as `runner.load.workload.make_prompt` has them:
        the class's shared words first, but never so many that none of its own are left."""
        shared = min(self._shared_prefix.get(spec.class_name, 0), max(0, spec.prompt_tokens - KEY_WORDS))
        number = self._classes.get(spec.class_name, -1) + 1
        blocks = range(spec.prompt_tokens // BLOCK_TOKENS)
        in_common = shared // BLOCK_TOKENS
        return tuple(-(number << 32) - i - 1 if i < in_common else (spec.prompt_key << 32) + i for i in blocks)


def _decoded(work: Work, steps: int) -> int:
    return steps * work.iteration.batch.decode_seqs if work.iteration.decodes else 0


def _step_ends_ns(steps: list[tuple[int, int, float, float]]) -> Ints:
    """The ends of all decode steps of a lane: `Work.step_end_ns` for all of them at once, to the last bit."""
    if not steps:
        return np.zeros(0, dtype=np.int64)
    begin, count, step_ms, growth_ms = (np.array(column) for column in zip(*steps, strict=True))
    before = np.cumsum(count) - count
    k = np.arange(1, int(count.sum()) + 1) - np.repeat(before, count)
    took_ms = k * np.repeat(step_ms, count) + np.repeat(growth_ms, count) * (k * (k - 1) // 2)
    ends: Ints = np.repeat(begin, count) + np.rint(1e6 * took_ms).astype(np.int64)
    return ends


def _token_times_ns(request: VirtualRequest, sequence: Sequence, ends: list[Ints], in_progress: list[int]) -> Ints:
    """When its client got each token: from its prompt, then one in each decode step it took part in."""
    if sequence.held:  # a batch that answers at its end
        tokens = sequence.output_tokens if request.fate == "ok" else 0
        return np.full(tokens, request.end_ns, dtype=np.int64)
    runs = list(sequence.runs)
    if sequence.lane is not None:
        lane = sequence.lane
        runs.append((lane.index, sequence.joined, lane.step + in_progress[lane.index]))
    parts = [np.array(request.from_prompt_ns, dtype=np.int64), *(ends[lane][a:b] for lane, a, b in runs)]
    times = np.concatenate(parts)
    if len(request.from_prompt_ns) > 1:
        times.sort()
    times = times[: sequence.output_tokens]
    if request.fate != "ok":
        times = times[times <= request.end_ns]
    return times
