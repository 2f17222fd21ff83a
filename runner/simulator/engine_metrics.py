"""What the built-in engine counts, and its Prometheus text under vLLM's names. No clock, no I/O."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

TOKEN_BOUNDS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
TTFT_BOUNDS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
)  # fmt: skip
GAP_BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
QUEUE_BOUNDS = (
    0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
)  # fmt: skip


class Histogram:
    """Counts per bucket, sum and count, as Prometheus has them."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.sum = 0.0
        self.count = 0

    def observe(self, value: float) -> None:
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.sum += value
        self.count += 1


@dataclass(slots=True)
class EngineMetrics:
    """Lifetime totals of one engine. Seconds and tokens."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    rejected: int = 0
    iteration_seqs: int = 0
    iteration_context_tokens: int = 0
    finished: dict[str, int] = field(default_factory=lambda: {"stop": 0, "length": 0, "abort": 0})
    iteration_tokens: Histogram = field(default_factory=lambda: Histogram(TOKEN_BOUNDS))
    ttft_s: Histogram = field(default_factory=lambda: Histogram(TTFT_BOUNDS))
    gap_s: Histogram = field(default_factory=lambda: Histogram(GAP_BOUNDS))
    queue_s: Histogram = field(default_factory=lambda: Histogram(QUEUE_BOUNDS))
    lag_sum_s: float = 0.0
    lag_max_s: float = 0.0
    lag_count: int = 0

    def observe_lag(self, lag_s: float) -> None:
        """How late the last token of an iteration was written, against the cost model's timeline."""
        self.lag_sum_s += lag_s
        self.lag_count += 1
        self.lag_max_s = max(self.lag_max_s, lag_s)


def metrics_text(
    metrics: EngineMetrics, model: str, running: int, waiting: int, kv_usage: float, preemptions: int
) -> bytes:
    """The whole /metrics page. `kv_usage` is 0..1."""
    return "\n".join(_lines(metrics, model, running, waiting, kv_usage, preemptions)).encode() + b"\n"


def _lines(
    metrics: EngineMetrics, model: str, running: int, waiting: int, kv_usage: float, preemptions: int
) -> Iterator[str]:
    escaped = model.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    labels = f'engine="0",model_name="{escaped}"'
    gauges = {
        "vllm:num_requests_running": running,
        "vllm:num_requests_waiting": waiting,
        "vllm:kv_cache_usage_perc": kv_usage,
    }
    counters: dict[str, float] = {
        "vllm:num_preemptions_total": preemptions,
        "vllm:prompt_tokens_total": metrics.prompt_tokens,
        "vllm:generation_tokens_total": metrics.generation_tokens,
        # both stay 0 without a prefix cache, as with vLLM
        "vllm:prefix_cache_queries_total": metrics.prefix_queries,
        "vllm:prefix_cache_hits_total": metrics.prefix_hits,
        "goodput_engine:iteration_seqs_total": metrics.iteration_seqs,
        "goodput_engine:iteration_context_tokens_total": metrics.iteration_context_tokens,
    }
    for name, value in gauges.items():
        yield from _family(name, "gauge", [f"{name}{{{labels}}} {float(value)}"])
    for name, value in counters.items():
        yield from _family(name, "counter", [f"{name}{{{labels}}} {float(value)}"])
    lag = "goodput_engine:iteration_lag_seconds"
    sums = [f"{lag}_sum{{{labels}}} {metrics.lag_sum_s}", f"{lag}_count{{{labels}}} {float(metrics.lag_count)}"]
    yield from _family(lag, "summary", sums)
    yield from _family(f"{lag}_max", "gauge", [f"{lag}_max{{{labels}}} {metrics.lag_max_s}"])
    rejected = "vllm:admission_rejections_total"
    reason = 'reason="max_num_queued_reqs"'
    yield from _family(rejected, "counter", [f"{rejected}{{{labels},{reason}}} {float(metrics.rejected)}"])
    done = "vllm:request_success_total"
    samples = [f'{done}{{{labels},finished_reason="{why}"}} {float(n)}' for why, n in metrics.finished.items()]
    yield from _family(done, "counter", samples)
    yield from _histogram("vllm:iteration_tokens_total", metrics.iteration_tokens, labels)
    yield from _histogram("vllm:time_to_first_token_seconds", metrics.ttft_s, labels)
    yield from _histogram("vllm:inter_token_latency_seconds", metrics.gap_s, labels)
    yield from _histogram("vllm:request_queue_time_seconds", metrics.queue_s, labels)


def _family(name: str, kind: str, samples: list[str]) -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    yield from samples


def _histogram(name: str, histogram: Histogram, labels: str) -> Iterator[str]:
    yield f"# TYPE {name} histogram"
    below = 0
    for bound, count in zip((*map(float, histogram.bounds), "+Inf"), histogram.buckets, strict=True):
        below += count
        yield f'{name}_bucket{{{labels},le="{bound}"}} {float(below)}'
    yield f"{name}_count{{{labels}}} {float(histogram.count)}"
    yield f"{name}_sum{{{labels}}} {histogram.sum}"
