"""Who was in each iteration of a cell in virtual time, for a short window of it. PURE.

The engine forgets an iteration when it has ended, and a cell has many thousands of them: the log keeps those that
overlap its window and nothing else. It looks at work that has begun and changes nothing.
"""

from dataclasses import dataclass, field
from typing import Literal

from runner.load.workload import RequestSpec
from runner.simulator.engine import Work
from runner.simulator.state import Lane

Part = Literal["prefill", "decode", "padding"]  # padding: a row whose answer is over, kept until its batch ends


@dataclass(frozen=True, slots=True)
class Step:
    """One iteration, ns since the cell's origin. `tokens` as computed: a padded prompt counts as long as its row is.

    `parts`: (order of the sequence, tokens of its own, what they were) in the order of admission.
    """

    lane: int
    begin_ns: int
    end_ns: int
    tokens: int
    parts: tuple[tuple[int, int, Part], ...]

    @property
    def cost_ms(self) -> float:
        return (self.end_ns - self.begin_ns) / 1e6


@dataclass(slots=True)
class StepLog:
    """Iterations that overlap [from_ns, until_ns), in the order in which they began, and the requests by order.

    `over`: everything of the window is there, nothing that begins later can belong to it.
    """

    from_ns: int
    until_ns: int
    steps: list[Step] = field(default_factory=list)
    requests: dict[int, tuple[RequestSpec, int]] = field(default_factory=dict)  # order -> (spec, ns when it came)
    over: bool = False

    def arrives(self, order: int, spec: RequestSpec, now_ns: int) -> None:
        """A request was taken into the queue."""
        self.requests[order] = (spec, now_ns)

    def begins(self, work: Work, lane: Lane) -> None:
        """A lane has planned `work`, one iteration or a stretch of equal ones, and has not ended any of it."""
        if work.begin_ns >= self.until_ns:
            self.over = True
            return
        if work.end_ns <= self.from_ns:
            return
        iteration = work.iteration
        chunks = {sequence: tokens for sequence, tokens in iteration.chunks}
        decoding = [s for s in lane.running if s.lane is not None] if iteration.decodes else []
        left = {s: s.output_tokens - s.generated for s in decoding}  # 0: a row that is padding from now on
        tokens = iteration.batch.prefill_tokens + iteration.batch.decode_seqs
        for k in range(1, iteration.steps + 1):
            begin_ns, end_ns = work.step_end_ns(k - 1), work.step_end_ns(k)
            if begin_ns < self.until_ns and end_ns > self.from_ns:
                parts: list[tuple[int, int, Part]] = []
                for sequence in lane.running:
                    if sequence in chunks:
                        parts.append((sequence.order, chunks[sequence], "prefill"))
                    elif sequence in left:
                        parts.append((sequence.order, 1, "decode" if left[sequence] >= k else "padding"))
                self.steps.append(Step(lane.index, begin_ns, end_ns, tokens, tuple(parts)))
