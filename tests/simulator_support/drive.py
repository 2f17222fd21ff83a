"""Runs an engine of any scheduler in virtual time and keeps everything that happened."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from runner.simulator.cost_model import CostModel
from runner.simulator.engine import Ended, Engine, Work
from runner.simulator.state import Knobs, Sequence

MS = 1_000_000
Arrival = tuple[float, Sequence]  # ms


@dataclass
class Run:
    """`iterations`: (lane, tokens by sequence, begin ms, end ms); `emitted`: ms of every token by sequence."""

    engine: Engine
    iterations: list[tuple[int, dict[int, int], float, float]] = field(default_factory=list)
    emitted: dict[int, list[float]] = field(default_factory=dict)
    preempted: list[int] = field(default_factory=list)
    started: list[int] = field(default_factory=list)
    finished: dict[int, float] = field(default_factory=dict)
    steps_ended: dict[int, list[float]] = field(default_factory=dict)  # by lane, ms

    @property
    def work(self) -> list[dict[int, int]]:
        """What each iteration computed."""
        return [tokens for _, tokens, _, _ in self.iterations]

    @property
    def ends(self) -> list[float]:
        """When each iteration ended, ms."""
        return [end for *_, end in self.iterations]


def drive(
    scheduler: str,
    knobs: Knobs,
    cost: CostModel,
    blocks: int,
    arrivals: list[Arrival],
    skip: bool = False,
    check: Callable[[Run, list[Work]], None] | None = None,
    between: Callable[[Run], None] | None = None,
    leaves: list[Arrival] | None = None,
    most: int = 200_000,
) -> Run:
    """Until everything is answered. `arrivals` by time.

    `skip`: quiet steps at once. `between`: before each start; `check`: after it. `leaves`: who is dropped when.
    """
    engine = Engine(scheduler, knobs, cost, blocks)
    run = Run(engine, steps_ended={lane.index: [] for lane in engine.state.lanes})
    coming, leaving = list(arrivals), list(leaves or [])
    firsts: dict[Sequence, list[float]] = {}
    for _ in range(most):
        outside = min([round(events[0][0] * MS) for events in (coming, leaving) if events], default=inf)
        now = min(engine.next_ns, outside)
        if now == inf:
            return run
        now = int(now)
        while coming and round(coming[0][0] * MS) <= now:
            engine.submit(coming.pop(0)[1], now)
        for ended in engine.finish(now):
            _note_end(run, ended, firsts)
        while leaving and round(leaving[0][0] * MS) <= now:
            engine.drop(leaving.pop(0)[1])
        if between:
            between(run)
        outside = min([round(events[0][0] * MS) for events in (coming, leaving) if events], default=inf)
        begun = engine.start(now, outside if skip else -inf)
        for work in begun:
            _note_start(run, work)
        if check:
            check(run, begun)
    raise AssertionError("the engine did not come to an end")


def _note_start(run: Run, work: Work) -> None:
    iteration = work.iteration
    run.preempted += [s.order for s in iteration.preempted]
    lane = run.engine.state.lanes[iteration.lane]
    tokens = {s.order: n for s, n in iteration.chunks}
    run.started += [o for o in tokens if o not in run.started]
    if iteration.decodes:
        decoding = {s.order: 1 for s in lane.running if s.lane is not None}
        tokens = {**decoding, **tokens}
    for k in range(1, iteration.steps + 1):
        begin = work.step_end_ns(k - 1) / MS
        run.iterations.append((iteration.lane, tokens, begin, work.step_end_ns(k) / MS))


def _note_end(run: Run, ended: Ended, firsts: dict[Sequence, list[float]]) -> None:
    iteration, end = ended.work.iteration, ended.work.end_ns / MS
    if iteration.decodes:
        steps = [ended.work.step_end_ns(k) / MS for k in range(1, iteration.steps + 1)]
        run.steps_ended[iteration.lane] += steps
    for sequence in ended.done.started:
        firsts.setdefault(sequence, []).append(end)
    for sequence in ended.done.finished:
        run.finished[sequence.order] = end
        run.emitted[sequence.order] = _times(run, sequence, firsts.get(sequence, []), end)


def _times(run: Run, sequence: Sequence, firsts: list[float], end: float) -> list[float]:
    if sequence.held:
        return [end] * sequence.output_tokens
    decoded = [t for lane, after, last in sequence.runs for t in run.steps_ended[lane][after:last]]
    return sorted([*firsts, *decoded])[: sequence.output_tokens]
