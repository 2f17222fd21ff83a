"""What schedulers with a paged KV pool share: running sequences take blocks as they grow, and lose them. PURE."""

from collections.abc import Callable, Iterable

from runner.simulator.core import missing_blocks, needs_block, next_blocks, preempt, spend_blocks, take_blocks
from runner.simulator.state import EngineState, Lane, Sequence

Chunks = list[tuple[Sequence, int]]
Victim = Callable[[Lane], Sequence]
Remove = Callable[[EngineState, Lane, Sequence], None]


def last(lane: Lane) -> Sequence:
    """The sequence that was admitted last."""
    return next(reversed(lane.running))


def run_all(
    state: EngineState,
    lane: Lane,
    budget: int,
    threshold: int = 0,
    victim: Victim = last,
    remove: Remove = preempt,
    order: Callable[[Lane], Iterable[Sequence]] = lambda lane: lane.running,
) -> tuple[Chunks, list[Sequence]]:
    """Work of the running sequences: a token for each decode, what is left of the budget for chunks of prompts.

    Takes the blocks; where the pool is short, in `order`, `victim` loses its KV by `remove`. Returns (chunks, victims).

    That decodes come off the budget first changes nothing for a scheduler that goes through the running ones in order:
    who is behind a prompt was admitted with what that prompt's chunk had left over, and chunks never grow.
    """
    chunks, blocks = _chunks(lane, budget - lane.decodes, threshold), next_blocks(lane)
    if not chunks and blocks <= lane.free_blocks:
        if blocks:
            spend_blocks(lane, blocks)
        return chunks, []
    missing = [missing_blocks(sequence, tokens) for sequence, tokens in chunks]
    if blocks + sum(missing) > lane.free_blocks:
        return _run_short(state, lane, budget, threshold, victim, remove, order)
    if blocks:
        spend_blocks(lane, blocks)
    for (sequence, _), more in zip(chunks, missing, strict=True):
        take_blocks(lane, sequence, more)
    return chunks, []


def _chunks(lane: Lane, left: int, threshold: int) -> Chunks:
    chunks: Chunks = []
    for sequence in lane.prefilling:
        if left <= 0:
            break
        tokens = min(sequence.uncomputed, threshold or left, left)
        chunks.append((sequence, tokens))
        left -= tokens
    return chunks


def _run_short(
    state: EngineState,
    lane: Lane,
    budget: int,
    threshold: int,
    victim: Victim,
    remove: Remove,
    order: Callable[[Lane], Iterable[Sequence]],
) -> tuple[Chunks, list[Sequence]]:
    """The same one by one, since somebody has to give way."""
    work: dict[Sequence, int] = {}
    grown: set[Sequence] = set()  # decodes that have taken a block, which they do not yet know of
    victims: list[Sequence] = []
    for sequence in list(order(lane)):
        if sequence.home is not lane:  # lost its KV to one before it
            continue
        left = budget - lane.decodes - sum(work.values())
        decodes = sequence.lane is not None
        tokens = 1 if decodes else min(sequence.uncomputed, threshold or left, left)
        if tokens <= 0:
            continue
        more = int(needs_block(sequence)) if decodes else missing_blocks(sequence, tokens)
        while more > lane.free_blocks:
            loser = victim(lane)
            lane.free_blocks += loser in grown
            grown.discard(loser)
            work.pop(loser, None)
            remove(state, lane, loser)
            victims.append(loser)
            if loser is sequence:
                break
        else:
            if decodes:
                spend_blocks(lane, more)
                grown.update([sequence] * more)
            else:
                take_blocks(lane, sequence, more)
                work[sequence] = tokens
    return list(work.items()), victims
