"""Published comparisons of schedulers, on one box with a linear cost model: what is reproduced, at fixed rates.

"Holds" at one rate and "misses" at another bound a ratio of capacities from below: a scheduler that holds three times
the rate another misses has at least three times its capacity. Not reached here, and not claimed: Orca's 36.9 times (16
GPUs, pipelined) and the 1.7 to 2.7 times of paged KV over an oracle.
"""

import numpy as np
import pytest

from runner.simulator.state import Knobs
from tests.papers.serve import (
    MISTRAL_7B,
    MISTRAL_7B_POOL,
    OPT_13B,
    OPT_13B_KV_BYTES,
    OPT_13B_SLOTS,
    Load,
    Seen,
    lognormal,
    serve,
    uniform,
)

MIX = uniform(1, 600, (32, 512), (1, 128))  # Orca's
ALIKE = uniform(1, 600, (272, 272), (64, 64))  # the same means
SHARE_GPT = lognormal(2, 500, (70, 400), (230, 750), 2048)  # means 155 and 290, near the paper's 161 and 338
CHAT = lognormal(3, 400, (1730, 5696), (415, 834), 8192)  # openchat_sharegpt4, by the p50 and p90 of Sarathi's paper
SHORT_ANSWERS = uniform(4, 600, (512, 512), (64, 64))
LONG_PROMPTS = uniform(4, 300, (2000, 2000), (64, 64))


def batched(scheduler: str, load: Load, rate: float, seats: int = 32) -> float:
    """Median seconds per output token; every request reserves the 640 tokens of the longest."""
    knobs = Knobs(seats, max_model_len=640, batch_wait_ms=0)
    return float(np.median(serve(scheduler, knobs, OPT_13B, OPT_13B_SLOTS, load, rate).normalized))


@pytest.mark.parametrize(("target_s", "static_misses"), [(0.047, 1.5), (0.070, 2.8)])
def test_iteration_level_scheduling_beats_batches(target_s: float, static_misses: float):
    """Orca: at least 3 times static's rate at the same normalized latency (published 36.9, here 8 and 4)."""
    assert min(batched("static", MIX, static_misses, seats) for seats in (8, 16, 32)) > target_s
    assert batched("orca", MIX, 3 * static_misses) <= target_s


def test_the_advantage_goes_when_requests_are_alike():
    """With equal lengths nothing is padded: static holds 7.5 req/s, and Orca does not hold half as much again."""
    assert batched("static", ALIKE, 7.5) <= 0.047
    assert batched("orca", ALIKE, 1.5 * 7.5) > 0.047


def paged(variant: str, rate: float) -> Seen:
    """OPT-13B on 15,728 slots: Orca's three reservations, or vLLM's blocks."""
    scheduler = "vllm_v0" if variant == "paged" else "orca"
    reservation = "max" if variant == "paged" else variant
    knobs = Knobs(256, 2560, max_model_len=2048, reservation=reservation)  # type: ignore[arg-type]
    return serve(scheduler, knobs, OPT_13B, OPT_13B_SLOTS, SHARE_GPT, rate)


def test_fewer_reserved_slots_mean_more_running_requests():
    """Overloaded, max < pow2 < oracle < paged run at once (published 7.0, 9.8, 13.6, 30.4); max: 15,728/2048 = 7."""
    running = [paged(variant, 6.0).mean_running for variant in ("max", "pow2", "oracle", "paged")]
    assert running == sorted(running)
    assert 6 < running[0] <= 7
    assert running[3] > 1.3 * running[2]


def test_paged_kv_carries_more_than_reservations():
    """At 0.1 s per token: 2.5 to 8 times the rate of max, and more than an oracle (published 2.7-8 and 1.7-2.7)."""

    def holds(variant: str, rate: float) -> bool:
        return float(np.mean(paged(variant, rate).normalized)) <= 0.1

    assert not holds("max", 1.2)
    assert holds("paged", 2.5 * 1.2)
    assert holds("max", 0.8)
    assert not holds("paged", 8 * 0.8)
    assert not holds("oracle", 3.6)
    assert holds("paged", 3.6)


def chat(scheduler: str, budget: int, rate: float) -> Seen:
    """Mistral-7B-like on an A100."""
    return serve(scheduler, Knobs(128, budget), MISTRAL_7B, MISTRAL_7B_POOL, CHAT, rate)


def gap_and_queue(seen: Seen) -> tuple[float, float]:
    """P99 of all gaps and the median first token, seconds."""
    return float(np.percentile(seen.all_gaps, 99)), float(np.median(seen.ttft))


def test_small_chunks_keep_a_strict_gap_at_a_higher_rate():
    """P99 gap of 0.1 s and a median first token of 2 s: chunks of 512 hold 2.5 req/s, v0 not 1.0 (published 2.6 times).

    A budget of 2048 fails the strict gap at 1.0 too; with 0.5 s it wins: 3.4 req/s, where 512 lets the queue grow.
    """
    gap_s, first_s = gap_and_queue(chat("sarathi", 512, 2.5))
    assert gap_s <= 0.1
    assert first_s <= 2
    assert gap_and_queue(chat("vllm_v0", 8192, 1.0))[0] > 0.1
    assert gap_and_queue(chat("sarathi", 2048, 1.0))[0] > 0.1
    gap_s, first_s = gap_and_queue(chat("sarathi", 2048, 3.4))
    assert gap_s <= 0.5
    assert first_s <= 2
    assert gap_and_queue(chat("sarathi", 512, 3.4))[1] > 2


def test_prompts_first_give_faster_first_tokens_and_worse_gaps():
    """At 2 req/s v0 has the better median first token, chunks of 512 the better P99 gap."""
    v0_gap, v0_first = gap_and_queue(chat("vllm_v0", 8192, 2.0))
    gap, first = gap_and_queue(chat("sarathi", 512, 2.0))
    assert v0_first < first
    assert v0_gap > 3 * gap


def attained(scheduler: str, load: Load, rate: float, link_gbit_per_s: float = 200) -> float:
    """Share within a first token of 0.4 s and a mean gap of 0.04 s; OPT-13B, 50,000 tokens of KV on each GPU."""
    knobs = Knobs(
        256, 2048, prefill_instances=2, kv_bytes_per_token=OPT_13B_KV_BYTES, kv_link_gbit_per_s=link_gbit_per_s
    )
    seen = serve(scheduler, knobs, OPT_13B, 50_000, load, rate)
    return float(np.mean((seen.ttft <= 0.4) & (seen.tpot <= 0.04)))


def test_disaggregation_carries_more_per_gpu():
    """Two prefill GPUs and a decode one hold 6 req/s each, one for both misses 4: over 1.5 times (published 2.1)."""
    assert attained("distserve", SHORT_ANSWERS, 3 * 6.0) >= 0.9
    assert attained("vllm_v0", SHORT_ANSWERS, 4.0) < 0.9
    assert attained("vllm_v0", SHORT_ANSWERS, 3.8) >= 0.9
    assert attained("distserve", SHORT_ANSWERS, 3 * 2.6 * 3.8) < 0.9


def test_decodes_are_what_binds_when_colocated():
    """Above its capacity one GPU for both still gives first tokens in time, but not gaps."""
    seen = serve("vllm_v0", Knobs(256, 2048), OPT_13B, 50_000, SHORT_ANSWERS, 4.5)
    assert np.mean(seen.ttft <= 0.4) > 0.98
    assert np.mean(seen.tpot <= 0.04) < 0.9


def test_a_slow_link_takes_the_gain_away():
    """Prompts of 2,000 tokens are 1.6 GB of KV: 13 s on 1 GbE. One GPU alone carries more than three so joined."""
    assert attained("vllm_v0", LONG_PROMPTS, 0.5) >= 0.9
    assert attained("distserve", LONG_PROMPTS, 0.5, link_gbit_per_s=1) < 0.1
    assert attained("distserve", LONG_PROMPTS, 3 * 1.0) >= 0.9
