"""The engine's state between iterations and the steps every scheduler shares. No clock: time is the caller's.

One turn: `plan` (a scheduler) picks the work of an iteration and takes its KV blocks, the caller lets the
iteration's cost pass, `complete` hands out the tokens. A token is emitted at the end of its iteration.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Literal

from runner.simulator.cost_model import BatchShape

BLOCK_TOKENS = 16
Policy = Literal["fcfs", "priority"]


@dataclass(frozen=True, slots=True)
class Knobs:
    """Settings of a scheduler. Tokens and sequences per iteration; 0 switches the prefill threshold off."""

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    long_prefill_token_threshold: int = 0
    policy: Policy = "fcfs"


@dataclass(slots=True, eq=False)
class Sequence:
    """One request inside the engine. `output_tokens` is its true length, which no scheduler may look at."""

    order: int  # arrival number: unique, rising with arrival
    prompt_tokens: int
    output_tokens: int
    priority: int = 0  # lower first
    computed: int = 0  # tokens whose KV is in the pool (or will be after the running iteration's `complete`)
    generated: int = 0
    blocks: int = 0
    preemptions: int = 0

    @property
    def uncomputed(self) -> int:
        """Known tokens (prompt and already generated) that still need KV."""
        return self.prompt_tokens + self.generated - self.computed


@dataclass(slots=True)
class EngineState:
    """Waiting and running sequences and the KV pool. `waiting` is a heap by (lane, arrival)."""

    total_blocks: int
    policy: Policy = "fcfs"
    free_blocks: int = field(init=False)
    waiting: list[tuple[int, int, Sequence]] = field(default_factory=list)
    running: list[Sequence] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free_blocks = self.total_blocks


@dataclass(slots=True)
class Iteration:
    """The work of one iteration: sequences[i] computes tokens[i]; `preempted` lost their KV while planning."""

    sequences: list[Sequence]
    tokens: list[int]
    preempted: list[Sequence]
    batch: BatchShape


Plan = Callable[[EngineState, Knobs], Iteration]


def blocks_for(tokens: int) -> int:
    """KV blocks that hold so many tokens."""
    return -(-tokens // BLOCK_TOKENS)


def fits_pool(state: EngineState, prompt_tokens: int, output_tokens: int) -> bool:
    """True when the whole pool can hold the sequence up to its last token, which is emitted but never stored."""
    return blocks_for(prompt_tokens + output_tokens - 1) <= state.total_blocks


def submit(state: EngineState, sequence: Sequence) -> None:
    """Puts a sequence into the queue. Raises ValueError if it could never run (it would be preempted for ever)."""
    if sequence.prompt_tokens < 1 or sequence.output_tokens < 1:
        raise ValueError("a sequence needs at least 1 prompt token and 1 output token")
    if not fits_pool(state, sequence.prompt_tokens, sequence.output_tokens):
        raise ValueError(f"sequence {sequence.order} needs more KV than the whole pool has")
    lane = sequence.priority if state.policy == "priority" else 0
    heappush(state.waiting, (lane, sequence.order, sequence))


def next_waiting(state: EngineState) -> Sequence | None:
    """The sequence whose turn it is; it stays in the queue."""
    return state.waiting[0][2] if state.waiting else None


def admit(state: EngineState) -> None:
    """Moves the next waiting sequence to the end of the running list."""
    state.running.append(heappop(state.waiting)[2])


def take_blocks(state: EngineState, sequence: Sequence, tokens: int) -> bool:
    """Takes the blocks for `tokens` more tokens; False, and nothing taken, if the pool has too few."""
    more = blocks_for(sequence.computed + tokens) - sequence.blocks
    if more > state.free_blocks:
        return False
    sequence.blocks += more
    state.free_blocks -= more
    return True


def preempt(state: EngineState, sequence: Sequence) -> None:
    """Preemption by recompute: the KV is dropped, what was emitted stays emitted, the arrival number keeps its turn."""
    state.running.remove(sequence)
    _release(state, sequence)
    sequence.computed = 0
    sequence.preemptions += 1
    submit(state, sequence)


def complete(state: EngineState, iteration: Iteration) -> tuple[list[Sequence], list[Sequence]]:
    """Ends an iteration. Returns (sequences that emit one token each, those of them that are finished)."""
    emitted: list[Sequence] = []
    finished: list[Sequence] = []
    for sequence, tokens in zip(iteration.sequences, iteration.tokens, strict=True):
        emits = tokens == sequence.uncomputed
        sequence.computed += tokens
        if not emits:
            continue
        sequence.generated += 1
        emitted.append(sequence)
        if sequence.generated == sequence.output_tokens:
            finished.append(sequence)
    for sequence in finished:
        state.running.remove(sequence)
        _release(state, sequence)
    return emitted, finished


def abort(state: EngineState, sequence: Sequence) -> None:
    """Drops a sequence between iterations (its client has gone). One that has finished is left alone."""
    if sequence in state.running:
        state.running.remove(sequence)
        _release(state, sequence)
        return
    kept = [entry for entry in state.waiting if entry[2] is not sequence]
    if len(kept) != len(state.waiting):
        state.waiting = kept
        heapify(state.waiting)


def batch_shape(sequences: list[Sequence], tokens: list[int]) -> BatchShape:
    """Counts for the cost model. A decode computes the one token it emitted last; everything else is prefill."""
    prefill = square = decodes = context = 0
    for sequence, n in zip(sequences, tokens, strict=True):
        if n == 1 and sequence.generated and sequence.uncomputed == 1:
            decodes += 1
            context += sequence.computed
        else:
            prefill += n
            square += n * (2 * sequence.computed + n)
    return BatchShape(prefill, square, decodes, context)


def _release(state: EngineState, sequence: Sequence) -> None:
    state.free_blocks += sequence.blocks
    sequence.blocks = 0
