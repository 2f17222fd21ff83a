"""vLLM's first scheduler: prompts in iterations of their own while decodes stall, paged KV, preemption of the last."""

from runner.simulator.core import (
    join_decodes,
    leave_decodes,
    missing_blocks,
    next_waiting,
    pop_waiting,
    preempt,
    release,
    seat,
    shape,
    take_blocks,
)
from runner.simulator.paged import Chunks, run_all
from runner.simulator.state import BLOCK_TOKENS, EngineState, Iteration, Knobs, Lane, Sequence, blocks_for

WATERMARK_SHARE = 0.01  # of the pool that an admission leaves free


def plan(state: EngineState, knobs: Knobs, index: int = 0, now_ms: float = 0.0) -> Iteration:
    """Whole waiting prompts if some fit (and nobody is swapped out), else a token for every running sequence.

    A swap costs its blocks' bytes over PCIe each way, added to the iteration; the host's memory has no limit here.
    """
    lane = state.lanes[index]
    chunks = [] if lane.swapped else _admit(state, lane, knobs)
    if chunks:
        return Iteration(index, chunks, False, shape(lane, chunks, False))
    remove = _swap_out if knobs.preemption == "swap" else preempt
    _, preempted = run_all(state, lane, knobs.max_num_batched_tokens, remove=remove)
    # what was swapped out knows how much it had; what is recomputed has none
    moved = sum(blocks_for(s.computed) for s in preempted) if preempted else _swap_in(lane, knobs)
    decodes = lane.decodes > 0
    extra_ms = moved * BLOCK_TOKENS * knobs.kv_bytes_per_token / (knobs.pcie_gb_per_s * 1e6)
    return Iteration(index, [], decodes, shape(lane, [], decodes), preempted, extra_ms, changed=moved > 0)


def _admit(state: EngineState, lane: Lane, knobs: Knobs) -> Chunks:
    chunks: Chunks = []
    left = knobs.max_num_batched_tokens
    while len(lane.running) < knobs.max_num_seqs:
        sequence = next_waiting(state)
        # a prompt above the whole budget runs alone: vLLM would have refused such a budget
        if sequence is None or (chunks and sequence.uncomputed > left) or not _has_room(lane, sequence):
            break
        seat(lane, pop_waiting(state))
        tokens = sequence.uncomputed
        take_blocks(lane, sequence, missing_blocks(sequence, tokens))
        chunks.append((sequence, tokens))
        left -= tokens
    return chunks


def _has_room(lane: Lane, sequence: Sequence) -> bool:
    watermark = int(WATERMARK_SHARE * lane.total_blocks) if lane.running else 0
    return blocks_for(sequence.uncomputed) + watermark <= lane.free_blocks


def _swap_out(state: EngineState, lane: Lane, sequence: Sequence) -> None:
    leave_decodes(lane, sequence)
    del lane.running[sequence]
    sequence.home = None
    sequence.preemptions += 1
    release(lane, sequence)
    lane.swapped.appendleft(sequence)  # the last goes first, so the earliest stands in front


def _swap_in(lane: Lane, knobs: Knobs) -> int:
    """Brings back those that fit, with room for their next token, in order. Returns the blocks moved."""
    moved = 0
    while lane.swapped and len(lane.running) < knobs.max_num_seqs:
        sequence = lane.swapped[0]
        needed = blocks_for(sequence.computed + 1)
        watermark = int(WATERMARK_SHARE * lane.total_blocks) if lane.running else 0
        if needed + watermark > lane.free_blocks:
            break
        lane.swapped.popleft()
        blocks = blocks_for(sequence.computed)
        take_blocks(lane, sequence, blocks)
        lane.running[sequence] = None
        sequence.home = lane
        lane.free_blocks -= needed - blocks  # for the token it makes now, which the group has been counted without
        join_decodes(lane, sequence, sequence.output_tokens - sequence.generated)
        moved += blocks
    return moved
