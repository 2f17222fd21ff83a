"""What is known about each kind of server, as data: ports, paths, knobs, metric names. Add a server by a row."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class EngineKind:
    """One kind of server. Metric names: field of storage.records.EngineSample -> names to look for, newest first."""

    title: str
    default_port: int
    apis: tuple[str, ...] = ("openai_chat", "openai_completions")
    ready_paths: tuple[str, ...] = ("/health", "/v1/models")  # the first one the server knows decides
    metrics_path: str | None = None
    metrics_hint: str = "this server shows no metrics; what the client sees is measured all the same"
    metrics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    slots_path: str | None = None
    flags: Mapping[str, str] = field(default_factory=dict)  # grid key -> flag of the start line
    start: tuple[str, ...] = ()  # a start line to begin from


OPENAI = ("openai_chat", "openai_completions")
MODELS_ONLY = ("/v1/models",)

VLLM_METRICS = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "kv_cache_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "num_preemptions_total": ("vllm:num_preemptions_total", "vllm:num_preemptions"),
    "prompt_tokens_total": ("vllm:prompt_tokens_total", "vllm:prompt_tokens"),
    "generation_tokens_total": ("vllm:generation_tokens_total", "vllm:generation_tokens"),
    "iterations_total": ("vllm:iteration_tokens_total_count",),
    "iteration_tokens_total": ("vllm:iteration_tokens_total_sum",),
    # a name of the built-in engine only: vLLM tells tokens per step, not sequences
    "iteration_seqs_total": ("goodput_engine:iteration_seqs_total",),
    "rejected_total": ("vllm:admission_rejections_total", "vllm:admission_rejections"),
    "queue_time_s_total": ("vllm:request_queue_time_seconds_sum",),
    "queue_time_count": ("vllm:request_queue_time_seconds_count",),
    "prefix_cache_queries_total": ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries"),
    "prefix_cache_hits_total": ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits"),
}

LLAMA_CPP_METRICS = {
    "running": ("llamacpp:requests_processing",),
    "waiting": ("llamacpp:requests_deferred",),
    "kv_cache_usage": ("llamacpp:kv_cache_usage_ratio",),  # gone in newer versions, which show it in /slots
    "prompt_tokens_total": ("llamacpp:prompt_tokens_total",),
    "generation_tokens_total": ("llamacpp:tokens_predicted_total",),  # moves only when a request ends
    "iterations_total": ("llamacpp:n_decode_total",),
    "prefix_cache_hits_total": ("llamacpp:prompt_tokens_cached_total",),
}

SGLANG_METRICS = {
    "running": ("sglang:num_running_reqs",),
    "waiting": ("sglang:num_queue_reqs",),
    "kv_cache_usage": ("sglang:token_usage",),
    "prompt_tokens_total": ("sglang:prompt_tokens_total",),
    "generation_tokens_total": ("sglang:generation_tokens_total",),
    "prefix_cache_hits_total": ("sglang:cached_tokens_total",),
}

TGI_METRICS = {"running": ("tgi_batch_current_size",), "waiting": ("tgi_queue_size",)}

KINDS: dict[str, EngineKind] = {
    "simulated": EngineKind(
        "Built-in engine", 8000, OPENAI, metrics_path="/metrics", metrics=VLLM_METRICS,
        flags={"max_num_seqs": "--max-num-seqs", "max_num_batched_tokens": "--max-num-batched-tokens"},
        start=("goodput", "engine"),
    ),
    "openai": EngineKind("OpenAI-compatible server", 8000, OPENAI),
    "vllm": EngineKind(
        "vLLM", 8000, OPENAI, metrics_path="/metrics", metrics=VLLM_METRICS,
        metrics_hint="vLLM shows /metrics unless it was started with --disable-log-stats",
        flags={
            "max_num_seqs": "--max-num-seqs",
            "max_num_batched_tokens": "--max-num-batched-tokens",
            "policy": "--scheduling-policy",
            "max_num_queued_reqs": "--max-num-queued-reqs",
        },
        start=("vllm", "serve", "MODEL", "--port", "{port}"),
    ),
    "sglang": EngineKind(
        "SGLang", 30000, OPENAI, metrics_path="/metrics", metrics=SGLANG_METRICS,
        metrics_hint="start SGLang with --enable-metrics to see its queue and batch",
        flags={"max_num_seqs": "--max-running-requests", "max_num_batched_tokens": "--chunked-prefill-size"},
        start=("python", "-m", "sglang.launch_server", "--model-path", "MODEL", "--enable-metrics", "--port", "{port}"),
    ),
    "llama_cpp": EngineKind(
        "llama.cpp", 8080, (*OPENAI, "llamacpp_completion"), metrics_path="/metrics", metrics=LLAMA_CPP_METRICS,
        metrics_hint="start llama-server with --metrics to see its queue and batch",
        slots_path="/slots",
        flags={"max_num_seqs": "-np", "max_num_batched_tokens": "-b", "context_tokens": "-c"},
        start=("llama-server", "-m", "MODEL.gguf", "--metrics", "--port", "{port}"),
    ),
    "ollama": EngineKind("Ollama", 11434, ("ollama_chat", "ollama_generate", *OPENAI), ("/api/version",)),
    "tgi": EngineKind(
        "TGI", 3000, ("tgi_generate_stream", "openai_chat"), metrics_path="/metrics", metrics=TGI_METRICS,
        flags={"max_num_seqs": "--max-concurrent-requests", "max_num_batched_tokens": "--max-batch-prefill-tokens"},
        start=("text-generation-launcher", "--model-id", "MODEL", "--port", "{port}"),
    ),
    "lmstudio": EngineKind("LM Studio", 1234, OPENAI, MODELS_ONLY),
    "tabbyapi": EngineKind("TabbyAPI", 5000, OPENAI),
    "koboldcpp": EngineKind("KoboldCpp", 5001, OPENAI, MODELS_ONLY),
    "localai": EngineKind("LocalAI", 8080, OPENAI, ("/readyz", "/v1/models")),
    "mlx_lm": EngineKind("mlx_lm", 8080, OPENAI),
}  # fmt: skip
