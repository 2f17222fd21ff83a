"""What the built-in engine is held to: published comparisons of schedulers, read from the files of sample_data/papers.

Each claim runs its files and says what came out, in the order of the table in the README.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from tests.papers.sweeps import Cell, capacity, cell


@dataclass(frozen=True)
class Claim:
    """A row of the table: what was compared, what was published, what is asserted, and what our files give."""

    check: str
    published: str
    asserted: str
    files: tuple[str, ...]
    look: Callable[[], tuple[str, bool]]  # what was reproduced, in words; whether the assertion holds


def _within(e2e_ms: float) -> Callable[[Cell], bool]:
    return lambda c: bool(c["e2e_ms"]["p50"] <= e2e_ms)


def _orca_gain(name: str, e2e_ms: float) -> float:
    static, orca = (capacity(name, _within(e2e_ms), scheduler=s) for s in ("static", "orca"))
    return orca / static


# 47 and 70 ms for each token of a mean answer: 64.5 and 64 tokens
def _mixed_gains() -> tuple[float, float]:
    return _orca_gain("orca_vs_static", 47 * 64.5), _orca_gain("orca_vs_static", 70 * 64.5)


def orca_against_static() -> tuple[str, bool]:
    strict, loose = _mixed_gains()
    return f"{strict:.1f} × at 47 ms a token, {loose:.1f} × at 70 ms", min(strict, loose) >= 3


def orca_on_equal_lengths() -> tuple[str, bool]:
    gains = [_orca_gain("orca_vs_static_alike", ms * 64) for ms in (47, 70)]
    shrinks = all(alike < mixed / 2 for alike, mixed in zip(gains, _mixed_gains(), strict=True))
    return f"{gains[0]:.1f} × and {gains[1]:.1f} ×", shrinks


def running_by_reservation() -> tuple[str, bool]:
    cells = [cell("vllm_reserved_kv", 6.0, reservation=r) for r in ("max", "pow2", "oracle")]
    running = [float(c["engine"]["running_mean"]) for c in (*cells, cell("vllm_paged_kv", 6.0))]
    rises = all(a < b for a, b in pairwise(running))
    return " / ".join(f"{n:.1f}" for n in running), rises


def _paged_gain(reservation: str) -> float:
    """At 0.1 s for each token of a median answer of 230."""
    holds = _within(100 * 230)
    return capacity("vllm_paged_kv", holds) / capacity("vllm_reserved_kv", holds, reservation=reservation)


def paged_against_max() -> tuple[str, bool]:
    gain = _paged_gain("max")
    return f"{gain:.1f} ×", 2.5 <= gain <= 8


def paged_against_oracle() -> tuple[str, bool]:
    gain = _paged_gain("oracle")
    return f"{gain:.1f} ×", gain > 1


def _chunks(budget: int, gap_ms: float) -> float:
    return capacity("sarathi_chunks", _keeps(gap_ms), max_num_batched_tokens=budget)


def _keeps(gap_ms: float) -> Callable[[Cell], bool]:
    return lambda c: bool(c["gap_ms"]["p99"] <= gap_ms and c["ttft_ms"]["p50"] <= 2000)


def chunks_against_prompts_first() -> tuple[str, bool]:
    chunks, first = _chunks(512, 100), capacity("sarathi_prompts_first", _keeps(100))
    return f"{chunks / first:.1f} × ({chunks:g} against {first:g} req/s)", chunks / first >= 1.5


def a_larger_budget() -> tuple[str, bool]:
    (strict_512, relaxed_512), (strict, relaxed) = ([_chunks(b, gap) for gap in (100, 500)] for b in (512, 2048))
    said = f"strict {strict:g} against {strict_512:g} req/s, relaxed {relaxed:g} against {relaxed_512:g}"
    return said, strict < strict_512 / 2 and relaxed > relaxed_512


def first_tokens_or_gaps() -> tuple[str, bool]:
    first, chunks = cell("sarathi_prompts_first", 2.0), cell("sarathi_chunks", 2.0, max_num_batched_tokens=512)
    ttft = [c["ttft_ms"]["p50"] / 1000 for c in (first, chunks)]
    gap = [c["gap_ms"]["p99"] / 1000 for c in (first, chunks)]
    said = f"TTFT P50 {ttft[0]:.2f} / {ttft[1]:.2f} s, gap P99 {gap[0]:.2f} / {gap[1]:.3f} s"
    return said, ttft[0] < ttft[1] and gap[0] > gap[1]


def _attains(c: Cell) -> bool:
    return bool(c["share"] >= 0.9)


def gpus_of_their_own() -> tuple[str, bool]:
    apart, together = capacity("distserve_three_gpus", _attains) / 3, capacity("distserve_one_gpu", _attains)
    gain = apart / together
    return f"{gain:.2f} × ({apart:.1f} against {together:.1f} req/s a GPU)", 1.5 <= gain <= 2.6


def what_binds_one_gpu() -> tuple[str, bool]:
    """At the lowest rate that it misses."""
    c = cell("distserve_one_gpu", round(capacity("distserve_one_gpu", _attains) + 0.1, 1))
    ttft, tpot = c["ttft_ms"]["p90"], c["tpot_ms"]["p90"]
    return f"P90 TPOT {tpot:.1f} ms of 40, TTFT {ttft:.0f} ms of 400", tpot > 40 and ttft <= 400


def a_slow_link() -> tuple[str, bool]:
    name = "distserve_slow_link"
    alone = cell(name, 0.5, scheduler="vllm_v0", kv_link_gbit_per_s=0.16)["share"]
    slow = cell(name, 0.5, scheduler="distserve", kv_link_gbit_per_s=0.16)["share"]
    fast = cell(name, 3.0, scheduler="distserve", kv_link_gbit_per_s=32)["share"]
    said = f"one GPU {alone:.2f} at .5 req/s; three on 1 GbE {slow:.2f} at .5, on 200 Gbit/s {fast:.2f} at 3"
    return said, slow < 0.1 and min(alone, fast) >= 0.9


WAYS: dict[str, dict[str, object]] = {
    "none": {"cap": 0, "max_num_seqs": 16, "policy": "fcfs"},
    "FCFS-16": {"cap": 240, "max_num_seqs": 16, "policy": "fcfs"},
    "priority-16": {"cap": 240, "max_num_seqs": 16, "policy": "priority"},
    "priority-64": {"cap": 240, "max_num_seqs": 64, "policy": "priority"},
    "cap 8": {"cap": 8, "max_num_seqs": 16, "policy": "fcfs"},
    "cap 4": {"cap": 4, "max_num_seqs": 16, "policy": "fcfs"},
    "cap 4 + priority": {"cap": 4, "max_num_seqs": 16, "policy": "priority"},
}


def chat_share(way: str) -> float:
    found = cell("background_isolation", **WAYS[way])  # type: ignore[arg-type]
    return float(found["classes"]["chat"]["share"])


def isolation() -> tuple[str, bool]:
    share = {way: chat_share(way) for way in WAYS}
    ordered = share["FCFS-16"] < share["priority-16"] < share["cap 8"] <= share["cap 4"] <= share["none"]
    both = share["cap 4"] <= share["cap 4 + priority"] <= share["none"]
    return ", ".join(f"{way} {value:.3f}" for way, value in share.items()), ordered and both


def priority_with_free_seats() -> tuple[str, bool]:
    free, scarce, cap = (chat_share(way) for way in ("priority-64", "priority-16", "cap 8"))
    engine = cell("background_isolation", **WAYS["priority-64"])["engine"]  # type: ignore[arg-type]
    full = engine["num_preemptions"] > 0 and engine["kv_cache_usage_max"] > 0.99
    return f"{free:.3f} with 64 seats, {scarce:.3f} with 16, {cap:.3f} with a cap of 8", full and free < scarce < cap


ORCA, PAGED, CHUNKS = "orca_vs_static", ("vllm_reserved_kv", "vllm_paged_kv"), "sarathi_chunks"
CLAIMS = (
    Claim("Orca against static batches", "36.9 × (16 GPUs, pipelined)", "≥ 3 ×", (ORCA,), orca_against_static),
    Claim(
        "the same with equal lengths", "smaller", "less than half as much", (f"{ORCA}_alike",), orca_on_equal_lengths
    ),
    Claim(
        "mean running requests: max / pow2 / oracle / paged",
        "7.0 / 9.8 / 13.6 / 30.4",
        "the order",
        PAGED,
        running_by_reservation,
    ),
    Claim("rate of paged against max", "2.7–8 ×", "2.5–8 ×", PAGED, paged_against_max),
    Claim("rate of paged against oracle", "1.7–2.7 ×", "> 1 ×", PAGED, paged_against_oracle),
    Claim(
        "Sarathi's 512 against vLLM v0, P99 gap ≤ .1 s",
        "2.6 ×",
        "≥ 1.5 ×",
        (CHUNKS, "sarathi_prompts_first"),
        chunks_against_prompts_first,
    ),
    Claim("budget 2048 against 512", "fails strict, wins relaxed", "both", (CHUNKS,), a_larger_budget),
    Claim(
        "v0 / chunks of 512 at 2 req/s",
        "v0: faster first token, worse gaps",
        "both orders",
        ("sarathi_prompts_first", CHUNKS),
        first_tokens_or_gaps,
    ),
    Claim(
        "DistServe 2 + 1 against one GPU, per GPU",
        "2.1 ×",
        "1.5–2.6 ×",
        ("distserve_three_gpus", "distserve_one_gpu"),
        gpus_of_their_own,
    ),
    Claim("what binds one GPU for both", "TPOT", "TPOT", ("distserve_one_gpu",), what_binds_one_gpu),
    Claim(
        "prompts of 2,000 tokens, share in time",
        "needs a fast link",
        "the gain is gone on 1 GbE",
        ("distserve_slow_link",),
        a_slow_link,
    ),
    Claim(
        "chats in time beside 240 background jobs",
        "–",
        "FCFS < priority < caps ≤ none",
        ("background_isolation",),
        isolation,
    ),
    Claim(
        "priority with free seats and a full KV pool",
        "–",
        "worse than few seats, and than a cap",
        ("background_isolation",),
        priority_with_free_seats,
    ),
)
