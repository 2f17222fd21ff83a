"""DistServe: prompts and answers on instances of their own; the KV of a prompt moves over a link when it is through."""

from bisect import insort
from dataclasses import replace
from math import inf

from runner.simulator.core import join_decodes, missing_blocks, nothing, pop_waiting, release, seat, shape, take_blocks
from runner.simulator.paged import Chunks, run_all
from runner.simulator.state import EngineState, Iteration, Knobs, Lane, Move, Sequence, blocks_for

ONE_NS = 1e-6  # in ms: a move's end is not missed by a rounding


def plan(state: EngineState, knobs: Knobs, index: int = 0, now_ms: float = 0.0) -> Iteration:
    """Lanes 0 … prefill_instances-1 run prompts, the others decode; each has the whole KV pool of a machine.

    Source: OSDI'24. max_num_batched_tokens is the size of a prefill batch, max_num_seqs the seats of a decoder. A
    prompt goes to the shortest queue, its KV to the decoder with the fewest answers and room; until it has arrived it
    holds blocks on both sides. One link per prefill instance: its moves go one after the other.
    """
    if state.waiting or state.moves or state.parked:
        _dispatch(state, knobs, now_ms)
    lane = state.lanes[index]
    return _prefill(state, lane, knobs) if lane.hands_over else _decode(state, lane, knobs)


def _dispatch(state: EngineState, knobs: Knobs, now_ms: float) -> None:
    prefill, decode = state.lanes[: knobs.prefill_instances], state.lanes[knobs.prefill_instances :]
    while state.waiting:
        sequence = pop_waiting(state)
        lane = min(prefill, key=lambda p: len(p.queue) + len(p.prefilling))
        insort(lane.queue, sequence, key=lambda s: s.order)  # at the end, but for those that lost their KV
    for move in [m for m in state.moves if m.end_ms <= now_ms + ONE_NS]:
        state.moves.remove(move)
        release(move.source, move.sequence)
        move.sequence._blocks = blocks_for(move.sequence.computed)  # taken when it set out
        move.sequence.home = move.target
        move.target.queue.append(move.sequence)
    while state.parked and (target := _decoder(state, decode, knobs, state.parked[0])):
        _send(state, state.parked.popleft(), target, knobs, now_ms)


def _decoder(state: EngineState, decoders: list[Lane], knobs: Knobs, sequence: Sequence) -> Lane | None:
    """The least loaded decoder with a seat and room for the sequence and its next token."""
    loads = {lane: len(lane.running) + len(lane.queue) for lane in decoders}
    for move in state.moves:
        loads[move.target] += 1
    free = [
        lane
        for lane in decoders
        if loads[lane] < knobs.max_num_seqs and blocks_for(sequence.computed + 1) <= lane.free_blocks
    ]
    return min(free, key=lambda lane: loads[lane], default=None)


def _send(state: EngineState, sequence: Sequence, target: Lane, knobs: Knobs, now_ms: float) -> None:
    source = sequence.home
    assert source is not None
    target.free_blocks -= blocks_for(sequence.computed)
    took_ms = sequence.computed * knobs.kv_bytes_per_token * 8 / (knobs.kv_link_gbit_per_s * 1e6)
    source.link_free_ms = round(max(now_ms, source.link_free_ms) + took_ms, 6)  # whole ns
    state.moves.append(Move(source.link_free_ms, sequence, source, target))


def _prefill(state: EngineState, lane: Lane, knobs: Knobs) -> Iteration:
    chunks: Chunks = []
    left = knobs.max_num_batched_tokens
    while lane.queue:
        sequence = lane.queue[0]
        tokens = sequence.uncomputed
        if (chunks and tokens > left) or blocks_for(tokens) > lane.free_blocks:
            break
        seat(lane, lane.queue.popleft())
        take_blocks(lane, sequence, missing_blocks(sequence, tokens))
        chunks.append((sequence, tokens))
        left -= tokens
    if not chunks:
        return nothing(lane.index, _first_end(state, lane))
    return Iteration(lane.index, chunks, False, shape(lane, chunks, False))


def _decode(state: EngineState, lane: Lane, knobs: Knobs) -> Iteration:
    landed = bool(lane.queue)
    while lane.queue:
        sequence = lane.queue.popleft()
        lane.running[sequence] = None
        join_decodes(lane, sequence, sequence.output_tokens - sequence.generated)
    _, preempted = run_all(state, lane, knobs.max_num_batched_tokens)
    if not lane.decodes:  # perhaps since KV on its way to the lane has taken the last block
        return replace(nothing(lane.index, _first_end(state, lane)), preempted=preempted)
    return Iteration(lane.index, [], True, shape(lane, [], True), preempted, changed=landed)


def _first_end(state: EngineState, lane: Lane) -> float:
    return min((m.end_ms for m in state.moves if lane in (m.source, m.target)), default=inf)
