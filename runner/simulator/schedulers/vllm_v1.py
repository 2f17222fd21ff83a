"""vLLM's V1 scheduler: one token budget shared by decodes and chunks of prompts, paged KV, preemption by recompute."""

from runner.simulator.core import (
    EngineState,
    Iteration,
    Knobs,
    Sequence,
    admit,
    batch_shape,
    blocks_for,
    next_waiting,
    preempt,
    take_blocks,
)


def plan(state: EngineState, knobs: Knobs) -> Iteration:
    """Work of the next iteration: running sequences in order, then, if nobody was preempted, waiting ones.

    Priority decides who waits and who loses its KV; it never takes a seat from a running sequence.
    """
    work: dict[Sequence, int] = {}  # in the order of planning
    preempted: list[Sequence] = []
    budget = _plan_running(state, knobs, work, preempted)
    if not preempted:
        _plan_waiting(state, knobs, work, budget)
    sequences, tokens = list(work), list(work.values())
    return Iteration(sequences, tokens, preempted, batch_shape(sequences, tokens))


def _plan_running(state: EngineState, knobs: Knobs, work: dict[Sequence, int], preempted: list[Sequence]) -> int:
    budget = knobs.max_num_batched_tokens
    for sequence in state.running.copy():
        if budget == 0:
            break
        if sequence.blocks == 0:  # preempted for one before it
            continue
        tokens = _chunk(sequence, knobs, budget)
        while not take_blocks(state, sequence, tokens):
            victim = _victim(state)
            budget += work.pop(victim, 0)
            preempt(state, victim)
            preempted.append(victim)
            if victim is sequence:
                break
        else:
            work[sequence] = tokens
            budget -= tokens
    return budget


def _plan_waiting(state: EngineState, knobs: Knobs, work: dict[Sequence, int], budget: int) -> None:
    while budget > 0 and len(state.running) < knobs.max_num_seqs:
        sequence = next_waiting(state)
        if sequence is None or blocks_for(sequence.uncomputed) > state.free_blocks:
            # like vLLM since scheduler_reserve_full_isl: the whole input must fit, not only its first chunk
            return
        tokens = _chunk(sequence, knobs, budget)
        take_blocks(state, sequence, tokens)
        admit(state)
        work[sequence] = tokens
        budget -= tokens


def _chunk(sequence: Sequence, knobs: Knobs, budget: int) -> int:
    threshold = knobs.long_prefill_token_threshold or budget
    return min(sequence.uncomputed, threshold, budget)


def _victim(state: EngineState) -> Sequence:
    if state.policy == "priority":
        return max(state.running, key=lambda s: (s.priority, s.order))
    return state.running[-1]
