"""Each scheduler on two or three requests, every iteration worked out by hand.

Cost: 10 ms, 1 ms per prompt token, 2 ms per decode. A pool of 2,000 blocks, three times the 8,192
tokens a request may have, unless said otherwise.
"""

import pytest

from runner.simulator.cost_model import CostModel
from runner.simulator.engine import Engine
from runner.simulator.schedulers.by_name import longest_request
from runner.simulator.state import Knobs, Sequence
from tests.simulator_support.drive import MS, Run, drive

COST = CostModel(a=10, b=1, c=2)


def go(scheduler: str, knobs: Knobs, *requests: tuple[float, int, int], blocks: int = 2000) -> Run:
    """Requests (ms, prompt, output), numbered from 0."""
    arrivals = [(ms, Sequence(order, prompt, output)) for order, (ms, prompt, output) in enumerate(requests)]
    return drive(scheduler, knobs, COST, blocks, arrivals)


# static


def test_static_waits_for_its_batch_and_pads_it():
    """One seat of two is taken at 0; after 50 ms the wait is over. A later request waits for the whole batch."""
    run = go("static", Knobs(2, batch_wait_ms=50), (0, 4, 3), (60, 4, 1))
    # 50 + 10 + 4; two decodes of 10 + 2; the second batch forms at 60 + 50 = 110
    assert run.ends == [64, 76, 88, 124]
    assert run.emitted == {0: [88, 88, 88], 1: [124]}


def test_a_full_static_batch_starts_at_once_and_costs_its_longest_rows():
    """Prompts of 2 and 6: 2 * 6 padded tokens; both rows decode until the longer answer ends, and leave together."""
    run = go("static", Knobs(2, batch_wait_ms=50), (0, 2, 1), (0, 6, 3))
    assert run.ends == [22, 36, 50]  # 10 + 12, then 10 + 2 * 2 twice
    assert run.emitted == {0: [50], 1: [50, 50, 50]}


def test_padding_is_read_by_the_decodes():
    """d = 1: both rows have 6 tokens of KV in the first decode and 7 in the second."""
    arrivals = [(0.0, Sequence(0, 2, 1)), (0.0, Sequence(1, 6, 3))]
    run = drive("static", Knobs(2), CostModel(a=10, b=0, d=1, e=1), 2000, arrivals)
    assert run.ends == [10 + 2 * 36, 82 + 10 + 12, 104 + 10 + 14]


def test_streaming_static_lets_tokens_go_but_keeps_the_seat():
    """The short answer is out at 22, yet the third request starts only after the longer one."""
    run = go("static", Knobs(2, batch_wait_ms=0, stream_static=True), (0, 2, 1), (0, 6, 3), (1, 2, 1))
    assert run.emitted == {0: [22], 1: [22, 36, 50], 2: [62]}


def test_static_reserves_the_models_length():
    """A pool of 128 tokens holds two reservations of 64, so the third of three seats stays empty."""
    run = go("static", Knobs(3, max_model_len=64, batch_wait_ms=0), *[(0, 2, 1)] * 3, blocks=8)
    assert run.work == [{0: 2, 1: 2}, {2: 2}]


# orca


def test_orca_lets_a_request_join_at_any_iteration_and_leave_at_once():
    """The newcomer's whole prompt shares an iteration with the decode; its end frees the seat for the third."""
    run = go("orca", Knobs(2), (0, 2, 4), (5, 3, 1), (5, 2, 1))
    assert run.work == [{0: 2}, {0: 1, 1: 3}, {0: 1, 2: 2}, {0: 1}]
    assert run.ends == [12, 27, 41, 53]


@pytest.mark.parametrize(("reservation", "together"), [("max", 1), ("pow2", 2), ("oracle", 3)])
def test_orca_reserves_by_variant(reservation: str, together: int):
    """Prompt 15, answer 33: 128, 15 + 64 = 79 or 15 + 33 = 48 tokens, of a pool of 160: 1, 2 or 3 at once."""
    knobs = Knobs(8, max_model_len=128, reservation=reservation)  # type: ignore[arg-type]
    run = go("orca", knobs, *[(0, 15, 33)] * 3, blocks=10)
    assert len(run.work[0]) == together


def test_orca_skips_nobody():
    """The long request that does not fit holds up the short one behind it, though that one would fit."""
    knobs = Knobs(8, reservation="oracle")
    run = go("orca", knobs, (0, 40, 8), (1, 40, 8), (2, 2, 1), blocks=5)
    assert run.started == [0, 1, 2]
    assert run.emitted[2][0] >= run.emitted[0][-1]


# vllm_v0


def test_v0_stalls_decodes_for_prompts():
    """The prompt that comes at 13 has the iteration from 24 to 41 for itself; the decode's gap is 12 + 17."""
    run = go("vllm_v0", Knobs(), (0, 2, 4), (13, 7, 2))
    assert run.work == [{0: 2}, {0: 1}, {1: 7}, {0: 1, 1: 1}, {0: 1}]
    assert run.ends == [12, 24, 41, 55, 67]
    assert run.emitted[0] == [12, 24, 55, 67]


def test_v0_bounds_prompts_by_the_budget_but_never_splits_one():
    """Budget 6: prompts of 4 and 2 together, then 3; one of 9 alone is above the budget and runs all the same."""
    run = go("vllm_v0", Knobs(max_num_batched_tokens=6), (0, 4, 1), (0, 2, 1), (0, 3, 1), (0, 9, 1))
    assert run.work == [{0: 4, 1: 2}, {2: 3}, {3: 9}]


def test_v0_keeps_a_watermark():
    """1 % of 200 blocks: with 198 taken, a prompt of one block would leave 1 free, less than 2; alone it need not."""
    assert go("vllm_v0", Knobs(8, 9999), (0, 197 * 16, 2), (0, 16, 1), blocks=200).work[0] == {0: 197 * 16, 1: 16}
    assert go("vllm_v0", Knobs(8, 9999), (0, 198 * 16, 2), (0, 16, 1), blocks=200).work[0] == {0: 198 * 16}
    assert go("vllm_v0", Knobs(8, 9999), (0, 200 * 16, 1), blocks=200).work[0] == {0: 200 * 16}


def test_v0_recomputes_the_last():
    """3 blocks, two prompts of 16: 1 gives way, later computes 16 + 1 tokens, and repeats no token."""
    run = go("vllm_v0", Knobs(), (0, 16, 3), (0, 16, 3), blocks=3)
    assert run.work == [{0: 16, 1: 16}, {0: 1}, {0: 1}, {1: 17}, {1: 1}]
    assert run.ends == [42, 54, 66, 93, 105]
    assert run.emitted == {0: [42, 54, 66], 1: [42, 93, 105]}
    assert run.preempted == [1]


def test_v0_swaps_the_last_and_pays_both_ways():
    """A block of 16 tokens of 1 MB at 1 GB/s takes 16 ms: out with the decode that took its place, in before its next.

    Nothing is computed again.
    """
    knobs = Knobs(preemption="swap", kv_bytes_per_token=1_000_000, pcie_gb_per_s=1)
    run = go("vllm_v0", knobs, (0, 16, 3), (0, 16, 3), blocks=3)
    assert run.work == [{0: 16, 1: 16}, {0: 1}, {0: 1}, {1: 1}, {1: 1}]
    assert run.ends == [42, 42 + 12 + 16, 82, 82 + 12 + 16, 122]
    assert run.emitted == {0: [42, 70, 82], 1: [42, 110, 122]}
    assert run.preempted == [1]


# vllm_v1: more in test_vllm_v1


def test_v1_gives_the_budget_of_a_preempted_sequence_to_a_prompt():
    """3 blocks, budget 4. 0 decodes and 1 fills its block in chunks of 3; then 2 begins with what is left, 2 tokens.

    1's first decode wants a block: 0 is the least urgent and loses its own, and 2 gets 3 tokens instead of 2.
    """
    requests = [(0.0, Sequence(0, 8, 9, 9)), (1.0, Sequence(1, 16, 9, 0)), (2.0, Sequence(2, 16, 1, 0))]
    run = drive("vllm_v1", Knobs(max_num_batched_tokens=4, policy="priority"), COST, 3, requests)
    assert run.work[:9] == [{0: 4}, {0: 4}, *[{0: 1, 1: 3}] * 5, {0: 1, 1: 1, 2: 2}, {1: 1, 2: 3}]
    assert run.preempted[0] == 0


def test_v1_skips_what_the_prefix_cache_has():
    """Of 40 common tokens the second request computes 40 - 32 (its two full blocks are known) and pays for these."""
    knobs = Knobs(prefix_caching=True)
    arrivals = [(0.0, Sequence(0, 40, 1, prefix=(7, 8))), (60.0, second := Sequence(1, 40, 1, prefix=(7, 8)))]
    run = drive("vllm_v1", knobs, COST, 100, arrivals)
    assert run.work == [{0: 40}, {1: 8}]
    assert run.ends == [50, 60 + 18]
    assert second.cached_tokens == 32


def test_v1_shares_blocks_and_always_computes_the_last_token():
    """A prompt of exactly two cached blocks computes its second one again: the last token gives the next.

    It takes one block of its own and reads the first one's first.
    """
    knobs = Knobs(prefix_caching=True)
    engine = Engine("vllm_v1", knobs, COST, 10)
    engine.submit(Sequence(0, 32, 9, prefix=(7, 8)), 0)
    engine.start(0)
    engine.finish(42 * MS)
    engine.submit(second := Sequence(1, 32, 9, prefix=(7, 8)), 42 * MS)
    assert engine.start(42 * MS)[0].iteration.chunks == [(second, 16)]
    # two of the first and one for its next token; one of the second
    assert engine.state.lanes[0].free_blocks == 10 - 4


def test_cached_blocks_give_way_when_room_is_needed():
    """Of 4 blocks 2 are cached and idle, which is free; a prompt of 4 blocks takes them, so the third finds none."""
    knobs = Knobs(prefix_caching=True)
    arrivals = [
        (0.0, Sequence(0, 32, 1, prefix=(7, 8))),
        (100.0, Sequence(1, 64, 1, prefix=(1, 2, 3, 4))),
        (300.0, Sequence(2, 33, 1, prefix=(7, 8))),
    ]
    run = drive("vllm_v1", knobs, COST, 4, arrivals)
    assert run.work == [{0: 32}, {1: 64}, {2: 33}]


def test_what_a_preempted_sequence_finds_of_its_own_is_no_cache_hit():
    """4 blocks: 0 takes a second one at its first decode, so 1 loses its three and finds both full ones again.

    It computes the rest, 33 + 1 - 32 tokens; but nobody's words were known when it came, as vLLM reports too.
    """
    arrivals = [(0.0, Sequence(0, 16, 10, prefix=(1,))), (0.0, second := Sequence(1, 33, 10, prefix=(2, 3)))]
    run = drive("vllm_v1", Knobs(prefix_caching=True), COST, 4, arrivals)
    assert run.preempted == [1]
    assert {1: 2} in run.work
    assert second.cached_tokens == 0


# sarathi


def test_sarathi_fills_the_budget_behind_the_decodes():
    """Budget 4: the decode takes 1 and the prompt 3 of its 7 tokens, so no gap exceeds 10 + 3 + 2."""
    run = go("sarathi", Knobs(max_num_batched_tokens=4), (0, 2, 6), (5, 7, 2))
    assert run.work == [{0: 2}, {0: 1, 1: 3}, {0: 1, 1: 3}, {0: 1, 1: 1}, {0: 1, 1: 1}, {0: 1}]
    assert run.ends == [12, 27, 42, 55, 69, 81]


@pytest.mark.parametrize(("scheduler", "taken"), [("sarathi", 3), ("vllm_v1", 1)])
def test_sarathi_takes_the_blocks_of_a_whole_prompt_when_it_admits_it(scheduler: str, taken: int):
    """A first chunk of 16 of 48 tokens: all three blocks at once, where vllm_v1 takes them chunk by chunk."""
    engine = Engine(scheduler, Knobs(max_num_batched_tokens=16), COST, 10)
    engine.submit(Sequence(0, 48, 1), 0)
    assert [w.iteration.tokens for w in engine.start(0)] == [16]
    assert engine.state.lanes[0].free_blocks == 10 - taken


# llama_cpp


def test_llama_cpp_decodes_first_then_prompts_in_order():
    """-b 4: the decode takes 1, prompts share the other 3 first come first served; a slot's context is c/np."""
    knobs = Knobs(3, 4)
    run = go("llama_cpp", knobs, (0, 2, 5), (5, 4, 1), (5, 4, 1), blocks=9)
    assert run.work == [{0: 2}, {0: 1, 1: 3}, {0: 1, 1: 1, 2: 2}, {0: 1, 2: 2}, {0: 1}]
    assert run.ends == [12, 27, 42, 56, 68]
    assert longest_request("llama_cpp", knobs, 9) == 48


def test_llama_cpp_defers_what_finds_no_slot():
    """One slot: the second request starts when the first has ended."""
    assert go("llama_cpp", Knobs(1), (0, 2, 2), (0, 2, 1)).work == [{0: 2}, {0: 1}, {1: 2}]


def test_llama_cpp_unified_lets_one_request_have_more_than_its_part():
    """2 slots of 4 blocks: apart, 33 tokens are too many; unified, they run, and the second waits for room."""
    assert longest_request("llama_cpp", Knobs(2), 4) == 32
    run = go("llama_cpp", Knobs(2, kv_unified=True), (0, 31, 3), (0, 30, 3), blocks=4)
    assert run.work == [{0: 31}, {0: 1}, {0: 1}, {1: 30}, {1: 1}, {1: 1}]


# distserve


def test_distserve_moves_a_prompts_kv_and_decodes_elsewhere():
    """Prompt done at 20; 10 tokens of 1 MB over 8 Gbit/s take 10 ms, so decodes end at 42 and 54."""
    knobs = Knobs(kv_bytes_per_token=1_000_000, kv_link_gbit_per_s=8)
    run = go("distserve", knobs, (0, 10, 3))
    assert run.iterations == [(0, {0: 10}, 0, 20), (1, {0: 1}, 30, 42), (1, {0: 1}, 42, 54)]
    assert run.emitted == {0: [20, 42, 54]}


def test_distserve_prompts_do_not_stall_decodes():
    """While a long prompt runs from 20 to 130 the first request decodes on: no gap above the move and a decode."""
    knobs = Knobs(kv_bytes_per_token=1_000_000, kv_link_gbit_per_s=8)
    run = go("distserve", knobs, (0, 10, 5), (1, 100, 1))
    assert run.emitted == {0: [20, 42, 54, 66, 78], 1: [130]}


def test_distserve_batches_prompts_in_order_up_to_the_budget():
    """Budget 8: 5 and 3 together, then 6; one above the budget would run alone."""
    run = go("distserve", Knobs(max_num_batched_tokens=8), (0, 5, 1), (0, 3, 1), (0, 6, 1))
    assert run.work == [{0: 5, 1: 3}, {2: 6}]


def test_distserve_sends_to_the_shortest_queue_and_the_least_loaded_decoder():
    """Two of each: the prompts run side by side, and so do the answers."""
    knobs = Knobs(prefill_instances=2, decode_instances=2, kv_bytes_per_token=1_000_000, kv_link_gbit_per_s=8)
    run = go("distserve", knobs, (0, 10, 2), (0, 10, 2))
    assert [(lane, tokens) for lane, tokens, _, _ in run.iterations] == [
        (0, {0: 10}),
        (1, {1: 10}),
        (2, {0: 1}),
        (3, {1: 1}),
    ]
    assert run.emitted == {0: [20, 42], 1: [20, 42]}


def test_distserve_moves_over_one_link_one_after_the_other():
    """Both prompts end at 30; the second's KV leaves when the first's has arrived, at 40, and lands at 50.

    The first decode step from 40 to 52 is without it.
    """
    knobs = Knobs(kv_bytes_per_token=1_000_000, kv_link_gbit_per_s=8)
    run = go("distserve", knobs, (0, 10, 3), (0, 10, 2))
    assert run.emitted == {0: [30, 52, 66], 1: [30, 66]}


def test_distserve_keeps_kv_on_the_prefill_side_until_a_decoder_has_room():
    """One seat to decode: the second prompt's KV waits on its instance until 54, then moves for 10 ms."""
    knobs = Knobs(1, kv_bytes_per_token=1_000_000, kv_link_gbit_per_s=8)
    run = go("distserve", knobs, (0, 10, 3), (1, 10, 2))
    assert run.emitted == {0: [20, 42, 54], 1: [40, 76]}


def test_distserve_recomputes_in_the_order_of_arrival():
    """5 blocks to decode in: at 0's and 1's next token both want one more, and 4 and 3 lose theirs in one plan.

    Back on the prefill side 3 stands before 4: it came first.
    """
    knobs = Knobs(kv_bytes_per_token=1)
    run = go("distserve", knobs, (0, 15, 9), (0, 16, 9), (0, 2, 9), (0, 2, 9), (0, 2, 9), blocks=5)
    assert run.preempted[:2] == [4, 3]
    again = next(tokens for tokens in run.work[1:] if 4 in tokens and tokens[4] > 1)
    assert list(again) == [3, 4]


def test_distserve_counts_who_gives_way_to_kv_on_its_way():
    """3 blocks: 0 decodes in one, 1's KV has taken the other two until it lands at 69; at 52 0 wants one and has to go.

    Its decoder is idle then, and its KV is lost all the same. 1's instance has room for 17 tokens again at 69.
    """
    knobs = Knobs(kv_bytes_per_token=1_000_000, kv_link_gbit_per_s=8)
    run = go("distserve", knobs, (0, 15, 3), (1, 17, 2), blocks=3)
    assert run.iterations[:3] == [(0, {0: 15}, 0, 25), (0, {1: 17}, 25, 52), (1, {0: 1}, 40, 52)]
    assert run.engine.preemptions == 1
    assert (0, {0: 17}, 69, 96) in run.iterations


def test_distserve_has_a_queue_when_prompts_wait_behind_a_batch():
    """Of four prompts of 8 with a budget of 8 three wait: a limit of 3 is reached, whatever seats decoders have."""
    engine = Engine("distserve", Knobs(max_num_batched_tokens=8), COST, 100)
    for order in range(4):
        engine.submit(Sequence(order, 8, 2), 0)
    engine.start(0)
    assert engine.waiting == 3
    assert engine.queue_is_full(3)
    assert not engine.queue_is_full(4)


def test_a_decoder_does_not_run_ahead_of_what_has_landed_on_the_other():
    """The fifth request lands on one decoder while its step is at work, takes the last block there and is sent back.

    That is an event for the other decoder too: its steps taken at once end where those taken one by one do.
    """
    knobs = Knobs(5, 33, prefill_instances=2, decode_instances=2, kv_link_gbit_per_s=100)
    requests = [
        (0, 40, 36),
        (0, 51, 24),
        (0, 45, 32),
        (0, 43, 24),
        (45.04, 15, 26),
        (194.327, 6, 19),
        (387.453, 60, 20),
    ]

    def once(skip: bool) -> Run:
        arrivals = [(float(ms), Sequence(order, p, o)) for order, (ms, p, o) in enumerate(requests)]
        return drive("distserve", knobs, COST, 9, arrivals, skip)

    single, skipped = once(False), once(True)
    assert 4 in single.preempted
    assert skipped.preempted == single.preempted
    assert skipped.emitted == single.emitted


def test_a_wait_is_taken_up_when_something_arrives():
    """Idle lanes look again at every arrival: the batch that fills at 20 does not wait until 50."""
    run = go("static", Knobs(2, batch_wait_ms=50), (0, 2, 1), (20, 2, 1))
    assert run.ends == [34]
