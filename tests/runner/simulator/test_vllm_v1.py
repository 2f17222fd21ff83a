"""The V1 scheduler on a virtual clock: iteration sequences worked out by hand, and what must always hold."""

import pytest

from runner.errors import ConfigError
from runner.simulator.core import abort, complete, fits, submit
from runner.simulator.cost_model import CostModel
from runner.simulator.schedulers.by_name import SCHEDULERS, new_state, scheduler_named
from runner.simulator.schedulers.vllm_v1 import plan
from runner.simulator.state import EngineState, Knobs, Sequence
from tests.simulator_support.drive import Arrival, Run, drive


def run(arrivals: list[Arrival], knobs: Knobs, cost: CostModel, blocks: int) -> Run:
    """vLLM V1 until everything is answered."""
    return drive("vllm_v1", knobs, cost, blocks, arrivals)


def steps(result: Run) -> list[tuple[dict[int, int], float]]:
    """(tokens by sequence, end in ms) of every iteration."""
    return list(zip(result.work, result.ends, strict=True))


def state_of(knobs: Knobs, blocks: int) -> EngineState:
    """An empty engine."""
    return new_state("vllm_v1", knobs, blocks)


def work_of(state: EngineState, knobs: Knobs) -> tuple[list[int], list[int]]:
    """One iteration, done: (orders that computed something, orders preempted)."""
    iteration = plan(state, knobs)
    decoding = [s.order for s in state.lanes[0].running if s.lane is not None]
    worked = sorted({*decoding, *(s.order for s, _ in iteration.chunks)})
    complete(state, iteration)
    return worked, [s.order for s in iteration.preempted]


COST = CostModel(a=10, b=1, c=2)


def test_one_request_prefills_then_decodes():
    """5 prompt tokens cost 10 + 5; each of the two further tokens costs 10 + 2."""
    trace = run([(0, Sequence(0, 5, 3))], Knobs(), COST, 100)
    assert steps(trace) == [({0: 5}, 15), ({0: 1}, 27), ({0: 1}, 39)]
    assert trace.emitted == {0: [15, 27, 39]}


def test_context_terms_of_the_cost():
    """Chunks of 3 and 2: Q = 3*3, then 2*(2*3 + 2); decodes then read K = 5 and 6 tokens."""
    cost = CostModel(a=1, b=0, d=10, e=1)
    trace = run([(0, Sequence(0, 5, 3))], Knobs(max_num_batched_tokens=3), cost, 100)
    assert trace.ends == [10, 27, 78, 139]


def test_a_prompt_is_chunked_around_the_decodes():
    """Budget 4: the decode takes 1, the newcomer's 7-token prompt gets 3, 3 and 1, and emits with its last chunk."""
    arrivals = [(0.0, Sequence(0, 2, 6)), (5.0, Sequence(1, 7, 2))]
    trace = run(arrivals, Knobs(max_num_batched_tokens=4), COST, 100)
    assert trace.work == [
        {0: 2}, {0: 1, 1: 3}, {0: 1, 1: 3}, {0: 1, 1: 1}, {0: 1, 1: 1}, {0: 1},
    ]  # fmt: skip
    # 12; + (10 + 3 + 2); the same; + (10 + 1 + 2); + (10 + 4); + 12
    assert trace.ends == [12, 27, 42, 55, 69, 81]
    assert trace.emitted[1] == [55, 69]


def test_the_threshold_leaves_budget_for_the_next_prompt():
    """Budget 8, threshold 4: two long prompts share every iteration, none takes it whole."""
    knobs = Knobs(max_num_batched_tokens=8, long_prefill_token_threshold=4)
    trace = run([(0, Sequence(0, 8, 1)), (0, Sequence(1, 8, 1))], knobs, COST, 100)
    assert trace.work == [{0: 4, 1: 4}, {0: 4, 1: 4}]


def test_seats_are_kept():
    """With one seat the second request starts when the first has left."""
    trace = run([(0, Sequence(0, 2, 2)), (0, Sequence(1, 2, 1))], Knobs(max_num_seqs=1), COST, 100)
    assert trace.work == [{0: 2}, {0: 1}, {1: 2}]


def test_no_block_left_preempts_the_last_and_recomputes_it():
    """3 blocks, two prompts of 16: the first decode of 0 takes the third block, so 1 loses its KV.

    While 0 grows to 48 tokens its 17th token needs block 2 and the whole of 1 (17 tokens, 2 blocks) does not fit
    until 0 is done; 1 then prefills 16 + 1 tokens again and goes on with its second token.
    """
    trace = run([(0, Sequence(0, 16, 3)), (0, Sequence(1, 16, 3))], Knobs(), COST, 3)
    assert trace.work == [{0: 16, 1: 16}, {0: 1}, {0: 1}, {1: 17}, {1: 1}]
    assert trace.preempted == [1]
    assert {order: len(times) for order, times in trace.emitted.items()} == {0: 3, 1: 3}
    assert trace.engine.state.lanes[0].free_blocks == 3


def test_the_whole_prompt_must_fit_before_it_is_admitted():
    """A prompt of 3 blocks is not started on 2 free ones, though its first chunk of 16 would fit."""
    knobs = Knobs(max_num_batched_tokens=32)
    arrivals = [(0.0, Sequence(0, 31, 2)), (1.0, Sequence(1, 48, 1))]
    trace = run(arrivals, knobs, COST, 4)
    assert trace.work == [{0: 31}, {0: 1}, {1: 32}, {1: 16}]


def test_under_priority_the_urgent_is_admitted_first():
    """One seat: of those waiting, priority -1 goes before 5, whatever came first; equal ones by arrival."""
    late = [Sequence(1, 2, 1, 5), Sequence(2, 2, 1, 5), Sequence(3, 2, 1, -1)]
    arrivals = [(0.0, Sequence(0, 2, 2, 5)), *((1.0, s) for s in late)]
    trace = run(arrivals, Knobs(max_num_seqs=1, policy="priority"), COST, 100)
    assert trace.started == [0, 3, 1, 2]


def test_priority_never_takes_a_seat():
    """A background request that has the only seat keeps it, though an urgent one waits."""
    arrivals = [(0.0, Sequence(0, 2, 3, 9)), (1.0, Sequence(1, 2, 1, 0))]
    trace = run(arrivals, Knobs(max_num_seqs=1, policy="priority"), COST, 100)
    assert trace.work == [{0: 2}, {0: 1}, {0: 1}, {1: 2}]
    assert trace.preempted == []


def test_priority_is_ignored_under_fcfs():
    """Like vLLM without its priority policy: the field is taken and has no effect."""
    arrivals = [(0.0, Sequence(0, 2, 2)), (1.0, Sequence(1, 2, 1, 5)), (1.0, Sequence(2, 2, 1, -5))]
    trace = run(arrivals, Knobs(max_num_seqs=1), COST, 100)
    assert trace.started == [0, 1, 2]


@pytest.mark.parametrize(("policy", "victim"), [("fcfs", 1), ("priority", 0)])
def test_who_is_preempted(policy: str, victim: int):
    """When the second of two running sequences lacks a block, fcfs takes the last one's KV, which is its own.

    Priority takes it from the least urgent, though that one already stood in the plan of this iteration.
    """
    knobs = Knobs(policy=policy)  # type: ignore[arg-type]
    state = state_of(knobs, 3)
    submit(state, Sequence(0, 16, 9, 9))
    assert work_of(state, knobs) == ([0], [])
    submit(state, Sequence(1, 16, 9, 0))
    assert work_of(state, knobs) == ([0, 1], [])  # 0 takes its second block, 1 the last one
    assert work_of(state, knobs) == ([1 - victim], [victim])


PRIORITY = Knobs(policy="priority")


def full_state(*sequences: Sequence) -> EngineState:
    """A pool of one block each, all taken; each has computed its prompt of at most a block and emitted once."""
    state = state_of(PRIORITY, len(sequences))
    for sequence in sorted(sequences, key=lambda s: s.order):
        submit(state, sequence)
    # by priority the urgent would come first: one after the other, so that they run in the order of arrival
    waiting, state.waiting = sorted(state.waiting, key=lambda entry: entry[1]), []
    for entry in waiting:
        state.waiting.append(entry)
        iteration = plan(state, PRIORITY)
        iteration.decodes = False
        complete(state, iteration)
    return state


def test_of_equals_the_latest_arrival_is_preempted():
    """max(priority, arrival): of two with priority 9 the later one loses its KV."""
    state = full_state(Sequence(0, 8, 9, 9), Sequence(1, 8, 9, 9), Sequence(2, 16, 9, 0))
    assert work_of(state, PRIORITY) == ([0, 2], [1])


def test_nobody_is_admitted_in_an_iteration_that_preempts():
    """1 gives up its block; an urgent newcomer that would fit into it waits for the next iteration."""
    state = full_state(Sequence(0, 8, 9, 5), Sequence(1, 16, 9, 9))
    submit(state, Sequence(2, 4, 1, 0))
    assert work_of(state, PRIORITY) == ([0], [1])
    assert work_of(state, PRIORITY) == ([0, 2], [])


def test_what_cannot_ever_fit_is_refused():
    """32 + 17 - 1 tokens fit three blocks, one more does not: refused at the door, never a loop."""
    state = state_of(Knobs(), 3)
    assert fits(state, 32, 17)
    submit(state, Sequence(0, 32, 17))
    with pytest.raises(ValueError, match="longer than the 49 tokens there is room for"):
        submit(state, Sequence(1, 32, 18))
    with pytest.raises(ValueError, match="at least 1"):
        submit(state, Sequence(2, 0, 1))


def test_abort_gives_everything_back():
    """A sequence that is dropped frees its blocks and seat at once; waiting ones leave the queue in order."""
    knobs = Knobs(max_num_seqs=1)
    state = state_of(knobs, 10)
    sequences = [Sequence(i, 20, 5) for i in range(4)]
    for sequence in sequences:
        submit(state, sequence)
    complete(state, plan(state, knobs))
    abort(state, sequences[0])
    abort(state, sequences[2])
    abort(state, sequences[0])
    assert state.lanes[0].free_blocks == 10
    assert state.lanes[0].decodes == state.lanes[0].context_tokens == 0
    assert [entry[2].order for entry in sorted(state.waiting)] == [1, 3]


def test_unknown_scheduler_names_those_there_are():
    """A scheduler that is not there is a plain sentence, not a KeyError."""
    assert scheduler_named("vllm_v1") is plan
    with pytest.raises(ConfigError, match="choose one of static, orca, vllm_v0, vllm_v1"):
        scheduler_named("fifo")
    assert "vllm_v1" in SCHEDULERS
