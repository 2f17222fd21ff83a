"""llama.cpp's server: slots, a token for each decoding slot first, then prompts up to n_batch, nobody is preempted."""

from runner.simulator.core import next_waiting, pop_waiting, seat, shape, take_blocks
from runner.simulator.state import EngineState, Iteration, Knobs, Sequence, blocks_for


def plan(state: EngineState, knobs: Knobs, index: int = 0, now_ms: float = 0.0) -> Iteration:
    """max_num_seqs is -np, max_num_batched_tokens is -b. A slot owns its part of the context, c/np.

    With `kv_unified` a request takes prompt plus answer from the whole instead, and waits until there is so much:
    the real server would begin and fail when the room runs out.
    """
    lane = state.lanes[index]
    while len(lane.running) < knobs.max_num_seqs:
        sequence = next_waiting(state)
        if sequence is None:
            break
        blocks = lane.total_blocks // knobs.max_num_seqs
        if knobs.kv_unified:
            blocks = blocks_for(sequence.prompt_tokens + sequence.output_tokens - 1)
            if blocks > lane.free_blocks:
                break
        seat(lane, pop_waiting(state))
        take_blocks(lane, sequence, blocks)
        sequence.reserved = True
    left = knobs.max_num_batched_tokens - lane.decodes
    chunks: list[tuple[Sequence, int]] = []
    for sequence in lane.prefilling:
        if left <= 0:
            break
        chunks.append((sequence, min(sequence.uncomputed, left)))
        left -= chunks[-1][1]
    decodes = lane.decodes > 0
    return Iteration(index, chunks, decodes, shape(lane, chunks, decodes))
