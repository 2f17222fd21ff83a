"""Prefix cache of a lane: full blocks of prompts stay readable until their room is needed. PURE."""

from runner.simulator.state import BLOCK_TOKENS, Lane, Sequence, blocks_for


def use_cached(lane: Lane, sequence: Sequence) -> int:
    """Lets an unstarted sequence read the cached blocks its prompt begins with. Returns the tokens it need not compute.

    The last token is always computed, since only that gives the next one.
    """
    hits = cached_blocks(lane, sequence)
    for name in sequence.prefix[:hits]:
        lane.cached[name] += 1
        if name in lane.idle:
            del lane.idle[name]
            lane.free_blocks -= 1
    sequence.shared_blocks = hits
    sequence._computed = hits * BLOCK_TOKENS
    if not sequence.preemptions:
        sequence.cached_tokens = sequence._computed
    return sequence._computed


def blocks_to_admit(lane: Lane, sequence: Sequence) -> int:
    """Free blocks that the whole of an unstarted sequence takes: cached ones that others read cost nothing."""
    whole = blocks_for(sequence.uncomputed)
    if not sequence.prefix:
        return whole
    hits = sequence.prefix[: cached_blocks(lane, sequence)]
    return whole - sum(1 for name in hits if name not in lane.idle)


def cached_blocks(lane: Lane, sequence: Sequence) -> int:
    """How many blocks at the beginning of its prompt the lane's cache has."""
    hits = 0
    most = (sequence.uncomputed - 1) // BLOCK_TOKENS
    for name in sequence.prefix[:most]:
        if name not in lane.cached:
            break
        hits += 1
    return hits


def share(lane: Lane, sequence: Sequence) -> None:
    """Blocks of its prompt that are computed and that the cache lacks become readable for others."""
    whole = min(len(sequence.prefix), sequence._computed // BLOCK_TOKENS)
    while sequence.shared_blocks < whole and sequence.prefix[sequence.shared_blocks] not in lane.cached:
        lane.cached[sequence.prefix[sequence.shared_blocks]] = 1
        sequence.shared_blocks += 1
        sequence._blocks -= 1


def give_back(lane: Lane, sequence: Sequence) -> None:
    """The sequence reads its cached blocks no longer; those nobody reads count as free, and stay until needed."""
    for name in reversed(sequence.prefix[: sequence.shared_blocks]):  # the end of a prefix is of the least use
        lane.cached[name] -= 1
        if not lane.cached[name]:
            lane.idle[name] = None
            lane.free_blocks += 1
    sequence.shared_blocks = 0
