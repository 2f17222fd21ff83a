"""A trace in shares for several processes: together they are the whole, and nothing else."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from runner.config import RequestClass
from runner.load.workload import Trace, build_trace, split_trace


def classes(closed: list[int]) -> list[RequestClass]:
    lengths = {"prompt_tokens": {"uniform": [1, 500]}, "output_tokens": {"p50": 50, "p90": 90}}
    raw = [{"name": "chat", "rate": 20.0, **lengths}]
    raw += [{"name": f"closed{i}", "closed": {"concurrency": n}, **lengths} for i, n in enumerate(closed)]
    return [RequestClass.model_validate(c) for c in raw]


def drawn(closed: list[int], seed: int) -> Trace:
    return build_trace(classes(closed), {}, 3.0, seed, salt=5)


@settings(max_examples=60)
@given(closed=st.lists(st.integers(1, 9), max_size=3), parts=st.integers(1, 6), seed=st.integers(0, 9))
def test_shares_together_are_the_trace(closed: list[int], parts: int, seed: int) -> None:
    """Every open-loop request is in one share, unchanged and in order; workers add up, as even as can be."""
    trace = drawn(closed, seed)
    shares = split_trace(trace, parts)
    assert len(shares) == parts
    together = sorted((s for share in shares for s in share.open_loop), key=lambda s: s.request)
    assert tuple(together) == trace.open_loop
    sizes = [len(share.open_loop) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    assert all(list(s.open_loop) == sorted(s.open_loop, key=lambda r: r.offset_ns or 0) for s in shares)
    for loop in trace.closed_loops:
        own = [x for share in shares for x in share.closed_loops if x.first_request == loop.first_request]
        workers = [x.workers for x in own]
        assert sum(workers) == loop.workers
        assert max(workers) - min(workers) <= 1


@settings(max_examples=40)
@given(closed=st.lists(st.integers(1, 9), min_size=1, max_size=3), parts=st.integers(1, 6), seed=st.integers(0, 9))
def test_closed_shares_take_turns_in_one_sequence(closed: list[int], parts: int, seed: int) -> None:
    """The first requests of all shares are the first ones of the whole loop: numbers, lengths and prompts alike."""
    trace = drawn(closed, seed)
    shares = split_trace(trace, parts)
    for loop in trace.closed_loops:
        own = [x for share in shares for x in share.closed_loops if x.first_request == loop.first_request]
        pieces = [s for x in own for s in itertools.islice(x.specs(), 7)]
        whole = list(itertools.islice(loop.specs(), 7 * len(own)))
        assert sorted(pieces, key=lambda s: s.request) == whole


def test_one_share_is_the_trace_itself() -> None:
    """Splitting into one changes nothing."""
    trace = drawn([4, 2], 1)
    assert split_trace(trace, 1) == [trace]
