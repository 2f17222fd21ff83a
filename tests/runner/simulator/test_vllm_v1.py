"""The V1 scheduler on a virtual clock: iteration sequences worked out by hand, and what must always hold."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import ConfigError
from runner.simulator.core import EngineState, Knobs, Sequence, abort, blocks_for, complete, fits_pool, submit
from runner.simulator.cost_model import CostModel, iteration_ms
from runner.simulator.schedulers.by_name import SCHEDULERS, scheduler_named
from runner.simulator.schedulers.vllm_v1 import plan


@dataclass
class Trace:
    """What happened: (tokens by sequence, end in ms) of every iteration, and the emission times of every sequence."""

    iterations: list[tuple[dict[int, int], float]] = field(default_factory=list)
    emitted: dict[int, list[float]] = field(default_factory=dict)
    preempted: list[int] = field(default_factory=list)
    started: list[int] = field(default_factory=list)


def run(
    arrivals: list[tuple[float, Sequence]], knobs: Knobs, cost: CostModel, blocks: int, most: int = 10_000
) -> tuple[Trace, EngineState]:
    """The engine on a virtual clock until everything is answered. `arrivals`: (ms, sequence) by time."""
    state, trace, now = EngineState(blocks, knobs.policy), Trace(), 0.0
    coming = list(arrivals)
    for _ in range(most):
        while coming and coming[0][0] <= now:
            submit(state, coming.pop(0)[1])
        iteration = plan(state, knobs)
        trace.preempted += [s.order for s in iteration.preempted]
        if not iteration.sequences:
            if not coming:
                return trace, state
            now = coming[0][0]
            continue
        trace.started += [s.order for s in iteration.sequences if s.order not in trace.started]
        now += iteration_ms(cost, iteration.batch)
        work = dict(zip((s.order for s in iteration.sequences), iteration.tokens, strict=True))
        trace.iterations.append((work, now))
        for sequence in complete(state, iteration)[0]:
            trace.emitted.setdefault(sequence.order, []).append(now)
    raise AssertionError("the engine did not come to an end")


COST = CostModel(a=10, b=1, c=2)


def test_one_request_prefills_then_decodes():
    """5 prompt tokens cost 10 + 5; each of the two further tokens costs 10 + 2."""
    trace, _ = run([(0, Sequence(0, 5, 3))], Knobs(), COST, 100)
    assert trace.iterations == [({0: 5}, 15), ({0: 1}, 27), ({0: 1}, 39)]
    assert trace.emitted == {0: [15, 27, 39]}


def test_context_terms_of_the_cost():
    """Chunks of 3 and 2: Q = 3*3, then 2*(2*3 + 2); decodes then read K = 5 and 6 tokens."""
    cost = CostModel(a=1, b=0, d=10, e=1)
    trace, _ = run([(0, Sequence(0, 5, 3))], Knobs(max_num_batched_tokens=3), cost, 100)
    assert [end for _, end in trace.iterations] == [10, 27, 78, 139]


def test_a_prompt_is_chunked_around_the_decodes():
    """Budget 4: the decode takes 1, the newcomer's 7-token prompt gets 3, 3 and 1, and emits with its last chunk."""
    arrivals = [(0.0, Sequence(0, 2, 6)), (5.0, Sequence(1, 7, 2))]
    trace, _ = run(arrivals, Knobs(max_num_batched_tokens=4), COST, 100)
    assert [work for work, _ in trace.iterations] == [
        {0: 2}, {0: 1, 1: 3}, {0: 1, 1: 3}, {0: 1, 1: 1}, {0: 1, 1: 1}, {0: 1},
    ]  # fmt: skip
    # 12; + (10 + 3 + 2); the same; + (10 + 1 + 2); + (10 + 4); + 12
    assert [end for _, end in trace.iterations] == [12, 27, 42, 55, 69, 81]
    assert trace.emitted[1] == [55, 69]


def test_the_threshold_leaves_budget_for_the_next_prompt():
    """Budget 8, threshold 4: two long prompts share every iteration, none takes it whole."""
    knobs = Knobs(max_num_batched_tokens=8, long_prefill_token_threshold=4)
    trace, _ = run([(0, Sequence(0, 8, 1)), (0, Sequence(1, 8, 1))], knobs, COST, 100)
    assert [work for work, _ in trace.iterations] == [{0: 4, 1: 4}, {0: 4, 1: 4}]


def test_seats_are_kept():
    """With one seat the second request starts when the first has left."""
    trace, _ = run([(0, Sequence(0, 2, 2)), (0, Sequence(1, 2, 1))], Knobs(max_num_seqs=1), COST, 100)
    assert [work for work, _ in trace.iterations] == [{0: 2}, {0: 1}, {1: 2}]


def test_no_block_left_preempts_the_last_and_recomputes_it():
    """3 blocks, two prompts of 16: the first decode of 0 takes the third block, so 1 loses its KV.

    While 0 grows to 48 tokens its 17th token needs block 2 and the whole of 1 (17 tokens, 2 blocks) does not fit
    until 0 is done; 1 then prefills 16 + 1 tokens again and goes on with its second token.
    """
    trace, state = run([(0, Sequence(0, 16, 3)), (0, Sequence(1, 16, 3))], Knobs(), COST, 3)
    assert [work for work, _ in trace.iterations] == [{0: 16, 1: 16}, {0: 1}, {0: 1}, {1: 17}, {1: 1}]
    assert trace.preempted == [1]
    assert [len(times) for times in trace.emitted.values()] == [3, 3]
    assert state.free_blocks == 3


def test_the_whole_prompt_must_fit_before_it_is_admitted():
    """A prompt of 3 blocks is not started on 2 free ones, though its first chunk of 16 would fit."""
    knobs = Knobs(max_num_batched_tokens=32)
    arrivals = [(0.0, Sequence(0, 31, 2)), (1.0, Sequence(1, 48, 1))]
    trace, _ = run(arrivals, knobs, COST, 4)
    assert [work for work, _ in trace.iterations] == [{0: 31}, {0: 1}, {1: 32}, {1: 16}]


def test_under_priority_the_urgent_is_admitted_first():
    """One seat: of those waiting, priority -1 goes before 5, whatever came first; equal ones by arrival."""
    late = [Sequence(1, 2, 1, 5), Sequence(2, 2, 1, 5), Sequence(3, 2, 1, -1)]
    arrivals = [(0.0, Sequence(0, 2, 2, 5)), *((1.0, s) for s in late)]
    trace, _ = run(arrivals, Knobs(max_num_seqs=1, policy="priority"), COST, 100)
    assert trace.started == [0, 3, 1, 2]


def test_priority_never_takes_a_seat():
    """A background request that has the only seat keeps it, though an urgent one waits."""
    arrivals = [(0.0, Sequence(0, 2, 3, 9)), (1.0, Sequence(1, 2, 1, 0))]
    trace, _ = run(arrivals, Knobs(max_num_seqs=1, policy="priority"), COST, 100)
    assert [work for work, _ in trace.iterations] == [{0: 2}, {0: 1}, {0: 1}, {1: 2}]
    assert trace.preempted == []


def test_priority_is_ignored_under_fcfs():
    """Like vLLM without its priority policy: the field is taken and has no effect."""
    arrivals = [(0.0, Sequence(0, 2, 2)), (1.0, Sequence(1, 2, 1, 5)), (1.0, Sequence(2, 2, 1, -5))]
    trace, _ = run(arrivals, Knobs(max_num_seqs=1), COST, 100)
    assert trace.started == [0, 1, 2]


@pytest.mark.parametrize(("policy", "victim"), [("fcfs", 1), ("priority", 0)])
def test_who_is_preempted(policy: str, victim: int):
    """When the second of two running sequences lacks a block, fcfs takes the last one's KV, which is its own.

    Priority takes it from the least urgent, though that one already stood in the plan of this iteration.
    """
    state, knobs = EngineState(3, policy), Knobs(policy=policy)  # type: ignore[arg-type]
    submit(state, Sequence(0, 16, 9, 9))
    complete(state, plan(state, knobs))
    submit(state, Sequence(1, 16, 9, 0))
    iteration = plan(state, knobs)  # 0 takes its second block, 1 the last one
    assert iteration.preempted == []
    complete(state, iteration)
    iteration = plan(state, knobs)
    assert [s.order for s in iteration.preempted] == [victim]
    assert [s.order for s in iteration.sequences] == [1 - victim]


def decoding(order: int, prompt: int, priority: int) -> Sequence:
    """A sequence whose prompt of at most a block is computed and whose first token is out."""
    return Sequence(order, prompt, 9, priority, computed=prompt, generated=1, blocks=1)


def full_state(*running: Sequence) -> EngineState:
    """A pool that these sequences, one block each, fill to the last block."""
    state = EngineState(len(running), "priority")
    state.running, state.free_blocks = list(running), 0
    return state


def test_of_equals_the_latest_arrival_is_preempted():
    """max(priority, arrival): of two with priority 9 the later one loses its KV."""
    state = full_state(decoding(0, 8, 9), decoding(1, 8, 9), decoding(2, 16, 0))
    iteration = plan(state, Knobs(policy="priority"))
    assert [s.order for s in iteration.preempted] == [1]
    assert [s.order for s in iteration.sequences] == [0, 2]


def test_the_budget_of_a_preempted_sequence_goes_to_the_others():
    """Budget 2: 0 is planned, loses its KV to 1, and its token of budget is left for 2."""
    state = full_state(decoding(0, 8, 9), decoding(1, 16, 0), decoding(2, 8, 0))
    iteration = plan(state, Knobs(max_num_batched_tokens=2, policy="priority"))
    assert [s.order for s in iteration.preempted] == [0]
    assert [s.order for s in iteration.sequences] == [1, 2]


def test_nobody_is_admitted_in_an_iteration_that_preempts():
    """1 gives up its block; an urgent newcomer that would fit into it waits for the next iteration."""
    state = full_state(decoding(0, 8, 5), decoding(1, 16, 9))
    knobs = Knobs(policy="priority")
    submit(state, Sequence(2, 4, 1, 0))
    iteration = plan(state, knobs)
    assert [s.order for s in iteration.sequences] == [0]
    complete(state, iteration)
    assert [s.order for s in plan(state, knobs).sequences] == [0, 2]


def test_what_cannot_ever_fit_is_refused():
    """32 + 17 - 1 tokens fit three blocks, one more does not: refused at the door, never a loop."""
    state = EngineState(3)
    assert fits_pool(state, 32, 17)
    submit(state, Sequence(0, 32, 17))
    with pytest.raises(ValueError, match="more KV than the whole pool"):
        submit(state, Sequence(1, 32, 18))
    with pytest.raises(ValueError, match="at least 1"):
        submit(state, Sequence(2, 0, 1))


def test_abort_gives_everything_back():
    """A sequence that is dropped frees its blocks and seat at once; waiting ones leave the queue in order."""
    state, knobs = EngineState(10), Knobs(max_num_seqs=1)
    sequences = [Sequence(i, 20, 5) for i in range(4)]
    for sequence in sequences:
        submit(state, sequence)
    complete(state, plan(state, knobs))
    abort(state, sequences[0])
    abort(state, sequences[2])
    abort(state, sequences[0])
    assert state.free_blocks == 10
    assert state.running == []
    assert [entry[2].order for entry in sorted(state.waiting)] == [1, 3]


def test_unknown_scheduler_names_those_there_are():
    """A scheduler that is not there is a plain sentence, not a KeyError."""
    assert scheduler_named("vllm_v1") is plan
    with pytest.raises(ConfigError, match="choose one of vllm_v1"):
        scheduler_named("orca")
    assert "vllm_v1" in SCHEDULERS


LENGTHS = st.tuples(st.integers(1, 60), st.integers(1, 40), st.integers(-2, 2), st.floats(0, 200))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(LENGTHS, min_size=1, max_size=12),
    st.integers(1, 6),
    st.integers(1, 40),
    st.integers(7, 14),
    st.sampled_from([0, 5]),
    st.sampled_from(["fcfs", "priority"]),
)
def test_invariants(lengths: list, seats: int, budget: int, blocks: int, threshold: int, policy: str):
    """Blocks, budget and seats hold in every iteration; every decode gets its token; tokens are conserved."""
    knobs = Knobs(seats, budget, threshold, policy)  # type: ignore[arg-type]
    state = EngineState(blocks, knobs.policy)
    sequences = [Sequence(i, p, o, priority) for i, (p, o, priority, _) in enumerate(lengths)]
    for sequence in sequences:
        submit(state, sequence)
    first_work: list[int] = []
    for _ in range(20_000):
        decoding = [s for s in state.running if s.uncomputed == 1 and s.generated]
        before = {s.order: s.generated for s in sequences}
        iteration = plan(state, knobs)
        if not iteration.sequences:
            break
        first_work += [s.order for s in iteration.sequences if s.order not in first_work]
        assert len(iteration.sequences) == len(set(iteration.sequences)) <= len(state.running) <= seats
        assert 1 <= sum(iteration.tokens) <= budget
        assert iteration.batch.prefill_tokens + iteration.batch.decode_seqs == sum(iteration.tokens)
        assert sum(s.blocks for s in sequences) + state.free_blocks == blocks
        assert state.free_blocks >= 0
        for sequence, tokens in zip(iteration.sequences, iteration.tokens, strict=True):
            assert 1 <= tokens <= sequence.uncomputed
            assert sequence.blocks == blocks_for(sequence.computed + tokens)
        kept = {s for s in decoding if s not in iteration.preempted}
        spent = sum(iteration.tokens) == budget
        # only a threshold lets a later prompt overtake, so only then a chunk can stand before a decode
        assert kept <= set(iteration.sequences) or (spent and (threshold or budget < seats))
        emitted, _ = complete(state, iteration)
        for sequence in sequences:
            assert sequence.generated - before[sequence.order] == (1 if sequence in emitted else 0)
    assert all(s.generated == s.output_tokens and s.blocks == 0 for s in sequences)
    assert state.free_blocks == blocks
    assert not state.running
    assert not state.waiting
    if policy == "fcfs":
        assert first_work == sorted(first_work)


@settings(max_examples=50, deadline=None)
@given(st.lists(LENGTHS, min_size=1, max_size=10), st.sampled_from(["fcfs", "priority"]))
def test_the_same_input_gives_the_same_run(lengths: list, policy: str):
    """Two runs of one trace agree in every iteration and every emission, preemptions or not."""
    arrivals = sorted(t for *_, t in lengths)

    def once() -> Trace:
        given = [(t, Sequence(i, p, o, pr)) for i, (t, (p, o, pr, _)) in enumerate(zip(arrivals, lengths, strict=True))]
        return run(given, Knobs(4, 32, policy=policy), COST, 8)[0]  # type: ignore[arg-type]

    first = once()
    assert first == once()
    assert {k: len(v) for k, v in first.emitted.items()} == {i: o for i, (_, o, *_) in enumerate(lengths)}
    for times in first.emitted.values():
        assert times == sorted(set(times))
