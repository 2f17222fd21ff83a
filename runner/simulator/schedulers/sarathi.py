"""Sarathi-Serve's stall-free batching: decodes first, what is left of the budget goes to chunks of prompts."""

from collections.abc import Iterator

from runner.simulator.core import missing_blocks, next_waiting, pop_waiting, seat, shape, take_blocks
from runner.simulator.paged import run_all
from runner.simulator.state import EngineState, Iteration, Knobs, Lane, Sequence, blocks_for


def plan(state: EngineState, knobs: Knobs, index: int = 0, now_ms: float = 0.0) -> Iteration:
    """All running decodes, then running partial prompts, then new ones by arrival.

    Source: OSDI'24, algorithm 3. A prompt takes the blocks of its whole length when it is admitted.
    """
    lane = state.lanes[index]
    chunks, preempted = run_all(state, lane, knobs.max_num_batched_tokens, order=_decodes_first)
    left = knobs.max_num_batched_tokens - lane.decodes - sum(tokens for _, tokens in chunks)
    changed = False
    while not preempted and left > 0 and len(lane.running) < knobs.max_num_seqs:
        sequence = next_waiting(state)
        if sequence is None or blocks_for(sequence.uncomputed) > lane.free_blocks:
            break
        seat(lane, pop_waiting(state))
        take_blocks(lane, sequence, missing_blocks(sequence, sequence.uncomputed))
        tokens = min(sequence.uncomputed, left)
        chunks.append((sequence, tokens))
        left -= tokens
        changed = True
    decodes = lane.decodes > 0
    return Iteration(index, chunks, decodes, shape(lane, chunks, decodes), preempted, changed=changed)


def _decodes_first(lane: Lane) -> Iterator[Sequence]:
    yield from [s for s in lane.running if s.lane is not None]
    yield from lane.prefilling
