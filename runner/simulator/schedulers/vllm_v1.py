"""vLLM's V1 scheduler: one token budget shared by decodes and chunks of prompts, paged KV, preemption by recompute."""

from runner.simulator.core import (
    missing_blocks,
    next_waiting,
    pop_waiting,
    seat,
    shape,
    take_blocks,
)
from runner.simulator.paged import Chunks, last, run_all
from runner.simulator.prefix_cache import blocks_to_admit, use_cached
from runner.simulator.state import EngineState, Iteration, Knobs, Lane, Sequence


def plan(state: EngineState, knobs: Knobs, index: int = 0, now_ms: float = 0.0) -> Iteration:
    """Work of the next iteration: running sequences in order, then, if nobody was preempted, waiting ones.

    Priority decides who waits and who loses its KV; it never takes a seat from a running sequence.
    """
    lane = state.lanes[index]
    victim = _least_urgent if state.policy == "priority" else last
    chunks, preempted = run_all(state, lane, knobs.max_num_batched_tokens, knobs.long_prefill_token_threshold, victim)
    running = len(lane.running)
    if not preempted:
        _admit(state, lane, knobs, chunks)
    decodes = lane.decodes > 0
    changed = len(lane.running) != running
    return Iteration(index, chunks, decodes, shape(lane, chunks, decodes), preempted, changed=changed)


def _admit(state: EngineState, lane: Lane, knobs: Knobs, chunks: Chunks) -> None:
    left = knobs.max_num_batched_tokens - lane.decodes - sum(tokens for _, tokens in chunks)
    while left > 0 and len(lane.running) < knobs.max_num_seqs:
        sequence = next_waiting(state)
        # like vLLM since scheduler_reserve_full_isl: the whole input must fit, not only its first chunk
        if sequence is None or blocks_to_admit(lane, sequence) > lane.free_blocks:
            return
        seat(lane, pop_waiting(state))
        use_cached(lane, sequence)
        tokens = min(sequence.uncomputed, knobs.long_prefill_token_threshold or left, left)
        take_blocks(lane, sequence, missing_blocks(sequence, tokens))
        chunks.append((sequence, tokens))
        left -= tokens


def _least_urgent(lane: Lane) -> Sequence:
    return max(lane.running, key=lambda s: (s.priority, s.order))
