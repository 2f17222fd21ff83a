"""The event loop of an engine: lanes, each with its own clock, over one state. Times are the caller's, whole ns. PURE.

engine.submit(sequence, now_ns)
engine.start(now_ns, until_ns)      lanes that are idle plan; a decode-only lane runs ahead as long as its steps
                                    begin before until_ns, the next thing the caller has in mind (an arrival)
engine.next_ns                      the next end or wake-up, inf when there is nothing to wait for
engine.finish(now_ns) -> [Ended]    iterations that end at or before now_ns, oldest first; then start again
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf

from runner.simulator.core import abort, complete, quiet_steps, stretch, submit
from runner.simulator.cost_model import CostModel, iteration_ms
from runner.simulator.schedulers.by_name import new_state, scheduler_named
from runner.simulator.state import Done, EngineState, Iteration, Knobs, Sequence


@dataclass(slots=True)
class Work:
    """An iteration at work. Step k of a stretched one ends at `step_end_ns(k)`; k = 1 … iteration.steps."""

    iteration: Iteration
    begin_ns: int
    step_ms: float
    growth_ms: float  # by which each step takes longer than the one before: d times the decodes
    end_ns: int = 0

    def step_end_ns(self, step: int) -> int:
        """End of its step number `step`."""
        return self.begin_ns + round(1e6 * (step * self.step_ms + self.growth_ms * (step * (step - 1) // 2)))


@dataclass(slots=True)
class Ended:
    """A lane's iteration that has ended, and what it gave."""

    work: Work
    done: Done


class Engine:
    """One engine of any scheduler. Raises ConfigError for a scheduler that is not there."""

    def __init__(self, scheduler: str, knobs: Knobs, cost: CostModel, total_blocks: int) -> None:
        self.plan = scheduler_named(scheduler)
        self.knobs = knobs
        self.cost = cost
        self.state: EngineState = new_state(scheduler, knobs, total_blocks)
        self.work: list[Work | None] = [None] * len(self.state.lanes)
        self._alone = len(self.work) == 1  # looked at so often that a loop over lanes shows
        self.backlog = False  # the last plan had to leave somebody waiting
        self.preemptions = 0
        self._behind = [False] * len(self.state.lanes)  # distserve: somebody waits behind the lane's last prompts
        self._wake_ns: list[float] = [inf] * len(self.state.lanes)
        self._gone: list[Sequence] = []

    @property
    def next_ns(self) -> float:
        """When the next iteration ends or an idle lane wants to look again; inf: not before something is submitted."""
        if self._alone:
            work = self.work[0]
            return work.end_ns if work else self._wake_ns[0]
        return min([w.end_ns if w else wake for w, wake in zip(self.work, self._wake_ns, strict=True)])

    @property
    def running(self) -> int:
        """Sequences that have a seat."""
        state = self.state
        return sum([len(lane.running) for lane in state.lanes]) + len(state.parked) + len(state.moves)

    @property
    def waiting(self) -> int:
        """Sequences that wait for a seat or lost theirs."""
        state = self.state
        return len(state.waiting) + sum([len(lane.queue) + len(lane.swapped) for lane in state.lanes])

    @property
    def kv_usage(self) -> float:
        """Share of all lanes' KV blocks in use, 0..1."""
        lanes = self.state.lanes
        return 1 - sum([lane.free_blocks for lane in lanes]) / sum([lane.total_blocks for lane in lanes])

    def queue_is_full(self, max_queue: int) -> bool:
        """True when one more request would wait behind `max_queue` others; free seats are not a queue."""
        seats = self.knobs.max_num_seqs * sum(1 for lane in self.state.lanes if not lane.hands_over)
        return self.waiting >= max_queue + (0 if self.backlog else max(0, seats - self.running))

    def submit(self, sequence: Sequence, now_ns: int) -> None:
        """Puts a sequence into the queue; `start` then has to look. Raises ValueError if it could never run."""
        submit(self.state, sequence, now_ns / 1e6)

    def drop(self, sequence: Sequence) -> None:
        """The client has gone: its sequence leaves as soon as its lane's iteration has ended."""
        self._gone.append(sequence)

    def start(self, now_ns: int, until_ns: float = -inf) -> list[Work]:
        """Plans every idle lane and begins its iteration at now_ns. Returns what has begun."""
        if self._gone:
            self._drop_gone()
        begun = self._plan_idle(now_ns)
        if not self._alone and self.state.waiting and None in self.work:
            begun += self._plan_idle(now_ns)  # a decoder has sent a sequence back to prefill lanes that looked before
        self.backlog = bool(self.state.waiting) or any(self._behind)
        if until_ns > now_ns:
            for work in begun:
                self._run_ahead(work, until_ns)
        return begun

    def _plan_idle(self, now_ns: int) -> list[Work]:
        begun: list[Work] = []
        for lane, at_work in enumerate(self.work):
            if at_work is not None:
                continue
            iteration = self.plan(self.state, self.knobs, lane, now_ns / 1e6)
            self.preemptions += len(iteration.preempted)
            if (at := self.state.lanes[lane]).hands_over:
                self._behind[lane] = bool(at.queue)
            self._wake_ns[lane] = inf if iteration.wake_ms == inf else ceil(iteration.wake_ms * 1e6)
            if iteration.empty:
                continue
            growth = self.cost.d * iteration.batch.decode_seqs
            work = Work(iteration, now_ns, iteration_ms(self.cost, iteration.batch) + iteration.extra_ms, growth)
            work.end_ns = work.step_end_ns(1)
            self.work[lane] = work
            begun.append(work)
        return begun

    def finish(self, now_ns: int) -> list[Ended]:
        """Ends the iterations whose time is over."""
        due = [work for work in self.work if work is not None and work.end_ns <= now_ns]
        if len(due) > 1:
            due.sort(key=lambda work: work.end_ns)
        ended: list[Ended] = []
        for work in due:
            self.work[work.iteration.lane] = None
            ended.append(Ended(work, complete(self.state, work.iteration)))
        return ended

    def _run_ahead(self, work: Work, until_ns: float) -> None:
        """Adds the steps that nothing can change: those that begin before anything else happens."""
        quiet = quiet_steps(self.state, work.iteration)
        if not quiet:
            return
        if not self._alone:
            for other in self.work:
                if other is not None and other is not work:
                    until_ns = min(until_ns, self._eventful_ns(other))
            for move in self.state.moves:
                until_ns = min(until_ns, move.end_ms * 1e6)
        if work.step_end_ns(quiet) < until_ns:
            more = quiet
        else:
            # steps never get shorter: no more of them fit than of the first one's length
            most = int((until_ns - work.begin_ns) / (1e6 * work.step_ms)) + 1 if work.step_ms > 0 else quiet
            more = _last_below(min(quiet - 1, most), lambda n: work.step_end_ns(n) < until_ns)
        if more:
            stretch(self.state, work.iteration, more)
            work.end_ns = work.step_end_ns(1 + more)

    def _eventful_ns(self, work: Work) -> int:
        """The first end of a lane's step that could matter to another lane."""
        if self._gone:  # somebody leaves when the iteration at work ends
            return work.end_ns
        return work.step_end_ns(work.iteration.steps + quiet_steps(self.state, work.iteration))

    def _drop_gone(self) -> None:
        still: list[Sequence] = []
        for sequence in self._gone:
            lane = sequence.home
            if lane is not None and sequence in lane.running and self.work[lane.index] is not None:
                still.append(sequence)
            else:
                abort(self.state, sequence)
        self._gone = still


def _last_below(most: int, holds: Callable[[int], bool]) -> int:
    """The largest n in 0..most for which `holds(n)`, given that it holds up to some n and for none above."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low
