"""Request-level batching: a batch forms, is padded to its longest prompt and answer, and ends as a whole."""

from runner.simulator.core import next_waiting, nothing, pop_waiting, seat, shape, take_blocks
from runner.simulator.cost_model import BatchShape
from runner.simulator.state import EngineState, Iteration, Knobs, Lane, Sequence, blocks_for

ONE_NS = 1e-6  # in ms: a wake-up is not missed by a rounding


def plan(state: EngineState, knobs: Knobs, index: int = 0, now_ms: float = 0.0) -> Iteration:
    """Goes on with the batch; else begins one when it is full or its first request has waited `batch_wait_ms`.

    Every request reserves max_model_len tokens. Answers leave at the batch's end, unless `stream_static`.
    """
    lane = state.lanes[index]
    if lane.running:
        return Iteration(index, [], True, shape(lane, [], True))
    head, seats = next_waiting(state), min(knobs.max_num_seqs, lane.total_blocks // _reserve(lane, knobs))
    if head is None:
        return nothing(index)
    full_ms = head.arrived_ms + knobs.batch_wait_ms
    if len(state.waiting) < seats and now_ms + ONE_NS < full_ms:
        return nothing(index, full_ms)
    batch = [pop_waiting(state) for _ in range(min(seats, len(state.waiting)))]
    longest = max(s.prompt_tokens for s in batch)
    steps = max(s.output_tokens for s in batch) - 1
    for sequence in batch:
        _begin(lane, sequence, knobs, longest, steps)
    rows = len(batch)
    chunks = [(s, s.prompt_tokens) for s in batch]
    return Iteration(index, chunks, False, BatchShape(rows * longest, rows * longest * longest), changed=True)


def _begin(lane: Lane, sequence: Sequence, knobs: Knobs, longest: int, steps: int) -> None:
    seat(lane, sequence)
    take_blocks(lane, sequence, _reserve(lane, knobs))
    sequence.reserved = True
    sequence.held = not knobs.stream_static
    sequence.padding = longest - sequence.prompt_tokens
    sequence.stay_steps = steps


def _reserve(lane: Lane, knobs: Knobs) -> int:
    return min(blocks_for(knobs.max_model_len), lane.total_blocks)
