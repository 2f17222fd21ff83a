"""What must hold for every scheduler, whatever arrives."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.simulator.core import abort
from runner.simulator.cost_model import CostModel
from runner.simulator.engine import Engine, Work
from runner.simulator.schedulers.by_name import SCHEDULERS, longest_request
from runner.simulator.state import Knobs, Lane, Sequence, blocks_for
from tests.simulator_support.drive import Arrival, Run, drive

KNOBS = st.builds(
    Knobs,
    max_num_seqs=st.integers(1, 6),
    max_num_batched_tokens=st.integers(1, 40),
    long_prefill_token_threshold=st.sampled_from([0, 5]),
    policy=st.sampled_from(["fcfs", "priority"]),
    max_model_len=st.sampled_from([64, 100]),
    batch_wait_ms=st.sampled_from([0.0, 50.0]),
    stream_static=st.booleans(),
    reservation=st.sampled_from(["max", "pow2", "oracle"]),
    preemption=st.sampled_from(["recompute", "swap"]),
    # whole milliseconds for every block that moves, so that times are exact
    kv_bytes_per_token=st.just(1_000_000),
    pcie_gb_per_s=st.just(1.0),
    prefill_instances=st.integers(1, 2),
    decode_instances=st.integers(1, 2),
    kv_link_gbit_per_s=st.sampled_from([0.5, 8.0]),
    kv_unified=st.booleans(),
    prefix_caching=st.booleans(),
)
REQUESTS = st.lists(
    st.tuples(st.integers(0, 400), st.integers(1, 60), st.integers(1, 40), st.integers(-2, 2), st.booleans()),
    min_size=1,
    max_size=12,
)
COST = CostModel(a=10, b=1, c=2, d=0.5, e=0.25)
COMMON_PREFIX = (1, 2, 3)
PAGED = ("vllm_v0", "vllm_v1", "sarathi", "distserve")
every_scheduler = pytest.mark.parametrize("scheduler", list(SCHEDULERS))
few = settings(max_examples=40, suppress_health_check=[HealthCheck.filter_too_much])


def arrivals_of(
    scheduler: str, knobs: Knobs, blocks: int, requests: list[tuple[int, int, int, int, bool]]
) -> list[Arrival]:
    """Those requests that the engine can take, by time; some begin with the same three blocks."""
    longest = longest_request(scheduler, knobs, blocks)
    fitting = sorted(r for r in requests if r[1] + r[2] <= longest)
    return [
        (ms, Sequence(order, prompt, output, priority, COMMON_PREFIX[: prompt // 16] if common else ()))
        for order, (ms, prompt, output, priority, common) in enumerate(fitting)
    ]


def held_blocks(engine: Engine, lane: Lane) -> int:
    """Blocks of a lane that somebody has, counted from the sequences' side."""
    mine = [*lane.running, *(s for s in (*engine.state.parked, *lane.queue) if s.home is lane)]
    leaving = [m.sequence.blocks for m in engine.state.moves if m.source is lane]
    coming = [blocks_for(m.sequence.computed) for m in engine.state.moves if m.target is lane]
    read = len(lane.cached) - len(lane.idle)
    return sum(s.blocks for s in mine) + sum(leaving) + sum(coming) + read


def check_pool(run: Run) -> None:
    """Between iterations every block is free or somebody's, and a lane's counters agree with its sequences."""
    for lane, work in zip(run.engine.state.lanes, run.engine.work, strict=True):
        assert len(lane.idle) <= lane.free_blocks
        if work is None:
            assert held_blocks(run.engine, lane) + lane.free_blocks == lane.total_blocks
            decoding = [s for s in lane.running if s.lane is lane]
            assert lane.decodes == len(decoding)
            assert lane.context_tokens == sum(s.computed for s in decoding)
            assert set(lane.prefilling) == set(lane.running) - set(decoding)


def check_limits(run: Run, begun: list[Work]) -> None:
    """Pool, seats and budget of what has just begun."""
    engine, knobs = run.engine, run.engine.knobs
    for lane in engine.state.lanes:
        assert 0 <= lane.free_blocks <= lane.total_blocks
        coming = sum(m.target is lane for m in engine.state.moves)
        assert lane.hands_over or len(lane.running) + coming <= knobs.max_num_seqs
    for work in begun:
        iteration = work.iteration
        prefill = sum(n for _, n in iteration.chunks)
        budget = knobs.max_num_batched_tokens
        assert all(n >= 1 for _, n in iteration.chunks)
        if engine.plan in (SCHEDULERS["vllm_v1"], SCHEDULERS["sarathi"]):
            assert 1 <= iteration.tokens / iteration.steps <= budget
        elif engine.plan is SCHEDULERS["llama_cpp"]:
            assert not iteration.chunks or iteration.tokens <= budget
        elif engine.plan in (SCHEDULERS["vllm_v0"], SCHEDULERS["distserve"]):
            assert prefill <= budget or len(iteration.chunks) == 1
            assert not (iteration.chunks and iteration.decodes)


def check_empty(engine: Engine) -> None:
    """Nobody is left, and nobody has left anything."""
    assert engine.running == engine.waiting == 0
    for lane in engine.state.lanes:
        assert lane.free_blocks == lane.total_blocks
        assert (lane.decodes, lane.context_tokens, sum(lane.growing)) == (0, 0, 0)


@every_scheduler
@few
@given(KNOBS, st.integers(7, 14), REQUESTS, st.booleans())
def test_limits_hold_and_tokens_are_conserved(scheduler: str, knobs: Knobs, blocks: int, requests: list, skip: bool):
    """Blocks, seats and budget are kept; everybody gets each token once, in order; at the end all is given back."""
    arrivals = arrivals_of(scheduler, knobs, blocks, requests)
    run = drive(scheduler, knobs, COST, blocks, arrivals, skip, check_limits, check_pool)
    assert {order: len(times) for order, times in run.emitted.items()} == {
        s.order: s.output_tokens for _, s in arrivals
    }
    for arrived, sequence in arrivals:
        times = run.emitted[sequence.order]
        assert times[0] > arrived
        assert sequence.held or all(a < b for a, b in pairwise(times))
        assert sequence.generated == sequence.output_tokens
    check_empty(run.engine)
    assert scheduler in PAGED or not run.preempted


@every_scheduler
@few
@given(KNOBS, st.integers(7, 14), REQUESTS)
def test_quiet_steps_at_once_are_the_same_as_one_by_one(scheduler: str, knobs: Knobs, blocks: int, requests: list):
    """Skipping gives the same iterations, tokens and times to the nanosecond; so does running it again."""

    def once(skip: bool) -> Run:
        return drive(scheduler, knobs, COST, blocks, arrivals_of(scheduler, knobs, blocks, requests), skip)

    single, again, skipped = once(False), once(False), once(True)
    for other in (again, skipped):
        assert other.emitted == single.emitted
        assert other.finished == single.finished
        assert sorted(other.preempted) == sorted(single.preempted)
        by_begin = [sorted(r.iterations, key=lambda i: (i[2], i[0])) for r in (single, other)]
        assert by_begin[0] == by_begin[1]


@pytest.mark.parametrize("scheduler", ["orca", "vllm_v0", "vllm_v1", "sarathi", "llama_cpp"])
@few
@given(KNOBS, st.integers(7, 14), REQUESTS)
def test_every_decode_gets_a_token_in_every_iteration(scheduler: str, knobs: Knobs, blocks: int, requests: list):
    """From its first token to its last, who was not preempted emits at each end; with vllm_v0 at each decode's end."""
    arrivals = arrivals_of(scheduler, knobs, blocks, requests)
    run = drive(scheduler, knobs, COST, blocks, arrivals)
    prompts = {s.order: s.prompt_tokens for _, s in arrivals}
    for order, times in run.emitted.items():
        if order in run.preempted:
            continue
        mine = [
            end
            for _, tokens, _, end in run.iterations
            if times[0] < end <= times[-1] and (scheduler != "vllm_v0" or order in tokens)
        ]
        assert times[1:] == mine
        computed = sum(tokens.get(order, 0) for _, tokens, _, end in run.iterations if end <= times[0])
        assert computed == prompts[order] or (knobs.prefix_caching and scheduler == "vllm_v1")


@every_scheduler
@few
@given(KNOBS, st.integers(7, 14), REQUESTS)
def test_first_come_is_first_served(scheduler: str, knobs: Knobs, blocks: int, requests: list):
    """Work begins in the order of arrival (with distserve: on each prefill instance)."""
    fcfs = replace(knobs, policy="fcfs")
    run = drive(scheduler, fcfs, COST, blocks, arrivals_of(scheduler, fcfs, blocks, requests))
    for lane in run.engine.state.lanes:
        first: list[int] = []
        for index, tokens, _, _ in run.iterations:
            if index == lane.index and not (scheduler == "distserve" and not lane.hands_over):
                first += [order for order in tokens if order not in first and order not in run.preempted]
        assert first == sorted(first)


@every_scheduler
@few
@given(KNOBS, st.integers(7, 14), REQUESTS, st.randoms(use_true_random=False))
def test_clients_that_leave_give_everything_back(scheduler: str, knobs: Knobs, blocks: int, requests: list, random):
    """Whoever is dropped, whenever and wherever it is: no block stays behind and the others are answered."""
    arrivals = arrivals_of(scheduler, knobs, blocks, requests)
    gone: set[int] = set()

    def leave(run: Run) -> None:
        check_pool(run)
        for ms, sequence in arrivals:
            submitted = sequence.arrived_ms == ms and (sequence.home or sequence.computed or run.engine.waiting)
            if submitted and sequence.order not in gone | set(run.finished) and random.random() < 0.1:
                gone.add(sequence.order)
                run.engine.drop(sequence)

    run = drive(scheduler, knobs, COST, blocks, arrivals, False, None, leave)
    assert set(run.finished) | gone == {s.order for _, s in arrivals}
    check_empty(run.engine)


@every_scheduler
@few
@given(KNOBS, st.integers(7, 14), REQUESTS, st.lists(st.tuples(st.integers(0, 11), st.integers(0, 300)), max_size=6))
def test_clients_that_leave_at_fixed_times_do_so_with_quiet_steps_too(
    scheduler: str, knobs: Knobs, blocks: int, requests: list, who: list
):
    """A client gone so many ms after it came: the others' tokens are the same, steps taken at once or one by one."""

    def once(skip: bool) -> Run:
        arrivals = arrivals_of(scheduler, knobs, blocks, requests)
        chosen = {order: after for order, after in who if order < len(arrivals)}
        leaves = sorted(((arrivals[o][0] + after, arrivals[o][1]) for o, after in chosen.items()), key=lambda e: e[0])
        return drive(scheduler, knobs, COST, blocks, arrivals, skip, None, check_pool, leaves)

    single, skipped = once(False), once(True)
    assert skipped.emitted == single.emitted
    assert skipped.finished == single.finished
    check_empty(skipped.engine)


def test_dropping_what_has_ended_changes_nothing():
    """A client that closes after its last token is no abort."""
    run = drive("vllm_v1", Knobs(), COST, 10, [(0.0, sequence := Sequence(0, 20, 5))])
    abort(run.engine.state, sequence)
    assert run.engine.state.lanes[0].free_blocks == 10
