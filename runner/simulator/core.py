"""The engine's state between iterations and the steps every scheduler shares. No clock: time is the caller's.

The interface. `engine.Engine` drives it, in real and in virtual time alike (submit, start, next_ns, finish; its `Work`
knows the end of every step); `state` has the types, `schedulers/` the plans, `paged` what plans with a paged pool use:

  state = new_state(scheduler, knobs, total_blocks)     (by_name) one lane per instance, each with its pool and clock
  submit(state, sequence, now_ms)                       into the queue
  iteration = plan(state, knobs, lane, now_ms)          a scheduler: the work of a lane's next iteration, blocks taken
      iteration.empty: nothing to do before `wake_ms` (inf: before something arrives or another lane ends)
      iteration.chunks: (sequence, prompt tokens); iteration.decodes: every decoding sequence of the lane gets a token
  quiet_steps(state, iteration) -> n                    how many more decode-only iterations must follow unchanged
  stretch(state, iteration, n)                          makes it n iterations at once
  done = complete(state, iteration)                     hands out the tokens, at the end of the iteration's time
      done.started: their prompt is through and gave a token now; done.finished: their last token came now

A decoding sequence is not touched while it decodes: it remembers the lane's decode step at which it joined, and
`computed`, `generated` and `blocks` follow from the lane's `step`. So an iteration costs what changes in it, not what
runs in it, and `sequence.runs` tells which decode steps (lane, after, up to and with) gave its other tokens: who keeps
the end of every decode step of a lane has the time of every token. A sequence that is `held` gives all its tokens
when it finishes. A token is emitted at the end of its iteration.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf

from runner.simulator.cost_model import BatchShape
from runner.simulator.prefix_cache import give_back, share
from runner.simulator.state import BLOCK_TOKENS, Done, EngineState, Iteration, Knobs, Lane, Sequence, blocks_for

Plan = Callable[[EngineState, Knobs, int, float], Iteration]


def fits(state: EngineState, prompt_tokens: int, output_tokens: int) -> bool:
    """True when the engine can ever run the sequence up to its last token, which is emitted but never stored."""
    return prompt_tokens + output_tokens <= state.longest_tokens


def submit(state: EngineState, sequence: Sequence, now_ms: float = 0.0) -> None:
    """Puts a sequence into the queue. Raises ValueError if it could never run (it would be preempted for ever)."""
    if sequence.prompt_tokens < 1 or sequence.output_tokens < 1:
        raise ValueError("a sequence needs at least 1 prompt token and 1 output token")
    if not fits(state, sequence.prompt_tokens, sequence.output_tokens):
        raise ValueError(
            f"sequence {sequence.order} is longer than the {state.longest_tokens} tokens there is room for"
        )
    sequence.arrived_ms = now_ms
    _queue(state, sequence)


def next_waiting(state: EngineState) -> Sequence | None:
    """The sequence whose turn it is; it stays in the queue."""
    return state.waiting[0][2] if state.waiting else None


def pop_waiting(state: EngineState) -> Sequence:
    """Takes the sequence whose turn it is out of the queue."""
    return heappop(state.waiting)[2]


def seat(lane: Lane, sequence: Sequence) -> None:
    """Puts a sequence to the end of the running ones, its prompt still to be computed."""
    lane.running[sequence] = lane.prefilling[sequence] = None
    sequence.home = lane


def missing_blocks(sequence: Sequence, tokens: int) -> int:
    """Blocks that computing `tokens` more tokens of a prompt would take."""
    if sequence.reserved:
        return 0
    return max(0, blocks_for(sequence._computed + tokens) - sequence._blocks - sequence.shared_blocks)


def take_blocks(lane: Lane, sequence: Sequence, blocks: int) -> None:
    """Gives blocks of the pool to a sequence that does not decode. The caller has looked whether there are enough."""
    sequence._blocks += blocks
    spend_blocks(lane, blocks)


def spend_blocks(lane: Lane, blocks: int) -> None:
    """Takes blocks from the free ones; cached blocks nobody reads make room, the oldest first."""
    lane.free_blocks -= blocks
    while len(lane.idle) > lane.free_blocks:
        name = next(iter(lane.idle))
        del lane.idle[name], lane.cached[name]


def release(lane: Lane, sequence: Sequence) -> None:
    """Gives back the blocks of a sequence that does not decode."""
    lane.free_blocks += sequence._blocks
    sequence._blocks = 0
    give_back(lane, sequence)
    sequence.reserved = False


def unseat(lane: Lane, sequence: Sequence) -> None:
    """Takes a sequence from the running ones; it keeps its blocks."""
    if sequence.lane is not None:
        leave_decodes(lane, sequence)
    del lane.running[sequence]
    lane.prefilling.pop(sequence, None)
    sequence.home = None


def preempt(state: EngineState, lane: Lane, sequence: Sequence) -> None:
    """Preemption by recompute: the KV is dropped, what was emitted stays emitted, the arrival number keeps its turn."""
    unseat(lane, sequence)
    release(lane, sequence)
    sequence._computed = 0
    sequence.preemptions += 1
    _queue(state, sequence)


def join_decodes(lane: Lane, sequence: Sequence, steps: int) -> None:
    """From now on the sequence gets a token in each decode step of the lane, and leaves after `steps` of them."""
    lane.joins += 1
    sequence.lane, sequence.joined, sequence.ticket = lane, lane.step, lane.joins
    heappush(lane.ending, (lane.step + steps, lane.joins, sequence))
    lane.decodes += 1
    lane.context_tokens += sequence._computed
    if not sequence.reserved:
        lane.growing[(lane.step + 1 - sequence._computed) % BLOCK_TOKENS] += 1


def leave_decodes(lane: Lane, sequence: Sequence) -> None:
    """Takes a sequence out of the group, with what it has become."""
    if not sequence.reserved:
        lane.growing[(sequence.joined + 1 - sequence._computed) % BLOCK_TOKENS] -= 1
    sequence._blocks, sequence._generated, sequence._computed = sequence.blocks, sequence.generated, sequence.computed
    lane.decodes -= 1
    lane.context_tokens -= sequence._computed
    sequence.runs.append((lane.index, sequence.joined, lane.step))
    sequence.lane = None
    sequence.ticket = -1


def next_blocks(lane: Lane) -> int:
    """Blocks that the lane's next decode step takes."""
    return lane.growing[(lane.step + 1) % BLOCK_TOKENS]


def needs_block(sequence: Sequence) -> bool:
    """Whether a decoding sequence takes a block in the next decode step."""
    return not sequence.reserved and sequence.computed % BLOCK_TOKENS == 0


def shape(lane: Lane, chunks: list[tuple[Sequence, int]], decodes: bool) -> BatchShape:
    """Counts for the cost model. A decode computes the one token it emitted last; everything else is prefill."""
    prefill = square = 0
    for sequence, n in chunks:
        prefill += n
        square += n * (2 * sequence._computed + n)
    if not decodes:
        return BatchShape(prefill, square)
    return BatchShape(prefill, square, lane.decodes, lane.context_tokens)


def nothing(lane: int, wake_ms: float = inf) -> Iteration:
    """No work for the lane before `wake_ms`."""
    return Iteration(lane, [], False, BatchShape(), wake_ms=wake_ms)


def emitting(state: EngineState, iteration: Iteration) -> list[Sequence]:
    """Those that get a token when the (single) iteration at work ends, in the order of admission."""
    lane = state.lanes[iteration.lane]
    chunk = {s for s, n in iteration.chunks if n == s.uncomputed}
    return [
        s
        for s in lane.running
        if not s.held and (s in chunk or (iteration.decodes and s.lane is not None and s.generated < s.output_tokens))
    ]


def complete(state: EngineState, iteration: Iteration) -> Done:
    """Ends an iteration: tokens are handed out, what has ended leaves and gives back its blocks."""
    lane = state.lanes[iteration.lane]
    done = Done([], [])
    if iteration.decodes:
        lane.step += iteration.steps
        lane.context_tokens += iteration.steps * lane.decodes
        while lane.ending and lane.ending[0][0] <= lane.step:
            _, ticket, sequence = heappop(lane.ending)
            if sequence.lane is lane and sequence.ticket == ticket:
                done.finished.append(sequence)
    for sequence, tokens in iteration.chunks:
        if sequence.home is lane:
            _compute(state, lane, sequence, tokens, done)
    for sequence in done.finished:
        unseat(lane, sequence)
        release(lane, sequence)
    return done


def _compute(state: EngineState, lane: Lane, sequence: Sequence, tokens: int, done: Done) -> None:
    through = tokens == sequence.uncomputed
    sequence._computed += tokens
    if lane.caches:
        share(lane, sequence)
    if not through:
        return
    del lane.prefilling[sequence]
    sequence._generated += 1
    if not sequence.held:
        done.started.append(sequence)
    steps = max(sequence.output_tokens - sequence._generated, sequence.stay_steps)
    if steps == 0:
        done.finished.append(sequence)
    elif lane.hands_over:
        unseat(lane, sequence)
        sequence.home = lane
        state.parked.append(sequence)
    else:
        sequence._computed += sequence.padding
        join_decodes(lane, sequence, steps)


def _queue(state: EngineState, sequence: Sequence) -> None:
    heappush(state.waiting, (sequence.priority if state.policy == "priority" else 0, sequence.order, sequence))


def abort(state: EngineState, sequence: Sequence) -> None:
    """Drops a sequence whose client has gone, while no iteration of its lane is at work. A finished one is left."""
    lane = sequence.home
    if lane is not None:
        if sequence in lane.running:
            unseat(lane, sequence)
        for move in [m for m in state.moves if m.sequence is sequence]:
            state.moves.remove(move)
            move.target.free_blocks += blocks_for(sequence.computed)
        for queue in (state.parked, lane.queue):
            if sequence in queue:
                queue.remove(sequence)
        release(lane, sequence)
        sequence.home = None
        return
    for lane in state.lanes:
        for queue in (lane.queue, lane.swapped):
            if sequence in queue:
                queue.remove(sequence)
    kept = [entry for entry in state.waiting if entry[2] is not sequence]
    if len(kept) != len(state.waiting):
        state.waiting = kept
        heapify(state.waiting)


def quiet_steps(state: EngineState, iteration: Iteration) -> int:
    """How many decode-only iterations must follow this planned one, unchanged, if nothing arrives: up to and with the
    one in which a sequence ends, and none for which the pool could run short. 0 when the next plan may differ.
    """
    if not iteration.decodes or iteration.chunks or iteration.preempted or iteration.changed:
        return 0
    lane = state.lanes[iteration.lane]
    if lane.queue:  # what has landed joins next
        return 0
    while lane.ending:
        _, ticket, first = lane.ending[0]
        if first.lane is lane and first.ticket == ticket:
            break
        heappop(lane.ending)
    steps = lane.ending[0][0] - lane.step - iteration.steps
    round_blocks = sum(lane.growing)
    if not round_blocks:
        return steps
    rounds, left = divmod(lane.free_blocks, round_blocks)
    pool_steps, at = rounds * BLOCK_TOKENS, lane.step + iteration.steps + 1
    while pool_steps < steps and left >= lane.growing[at % BLOCK_TOKENS]:
        left -= lane.growing[at % BLOCK_TOKENS]
        at += 1
        pool_steps += 1
    return min(steps, pool_steps)


def stretch(state: EngineState, iteration: Iteration, more: int) -> None:
    """Adds `more` equal steps, at most `quiet_steps`, to a planned decode-only iteration and takes their blocks."""
    lane = state.lanes[iteration.lane]
    rounds, rest = divmod(more, BLOCK_TOKENS)
    first = lane.step + iteration.steps + 1
    blocks = rounds * sum(lane.growing) + sum(lane.growing[(first + i) % BLOCK_TOKENS] for i in range(rest))
    spend_blocks(lane, blocks)
    iteration.steps += more
