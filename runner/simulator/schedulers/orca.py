"""Orca's iteration-level scheduling: requests join and leave at any iteration, KV is reserved for their whole life."""

from runner.simulator.core import next_waiting, pop_waiting, seat, shape, take_blocks
from runner.simulator.state import EngineState, Iteration, Knobs, Lane, Sequence, blocks_for


def plan(state: EngineState, knobs: Knobs, index: int = 0, now_ms: float = 0.0) -> Iteration:
    """All running decodes, and whole prompts by arrival as long as seats and reservations last; nobody is skipped.

    Source: OSDI'22, algorithm 1. Slots are counted in blocks of 16 tokens, as the pool is.
    """
    lane = state.lanes[index]
    chunks: list[tuple[Sequence, int]] = []
    while len(lane.running) < knobs.max_num_seqs:
        sequence = next_waiting(state)
        if sequence is None or (blocks := _reserve(lane, sequence, knobs)) > lane.free_blocks:
            break
        seat(lane, pop_waiting(state))
        take_blocks(lane, sequence, blocks)
        sequence.reserved = True
        chunks.append((sequence, sequence.prompt_tokens))
    decodes = lane.decodes > 0
    return Iteration(index, chunks, decodes, shape(lane, chunks, decodes))


def _reserve(lane: Lane, sequence: Sequence, knobs: Knobs) -> int:
    """Blocks by variant: the model's length, the answer's next power of two, or the answer as an oracle knows it."""
    tokens = knobs.max_model_len
    if knobs.reservation == "pow2":
        tokens = min(tokens, sequence.prompt_tokens + (1 << (sequence.output_tokens - 1).bit_length()))
    elif knobs.reservation == "oracle":
        tokens = sequence.prompt_tokens + sequence.output_tokens
    return min(blocks_for(tokens), lane.total_blocks)
