"""What is known about each kind of server, as data: ports, paths, knobs, metric names. Add a server by a row."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from runner.engines.metric_names import LLAMA_CPP_METRICS, SGLANG_METRICS, TGI_METRICS, VLLM_METRICS


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
    status_path: str | None = None  # a JSON page that tells whether it works and how many wait
    flags: Mapping[str, str] = field(default_factory=dict)  # grid key -> flag of the start line
    switches: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # grid key -> flags for true and false
    variables: Mapping[str, str] = field(default_factory=dict)  # grid key -> environment variable of the server
    file_keys: Mapping[str, str] = field(default_factory=dict)  # grid key -> dotted key in `settings_file`
    settings_file: str | None = None
    start: tuple[str, ...] = ()  # a start line to begin from; {port} and MODEL are filled in
    cannot_know: str | None = None  # what no request to this server tells, one sentence

    def knows(self, key: str) -> bool:
        """Whether the grid key is a setting of this server that we can name."""
        return any(key in table for table in (self.flags, self.switches, self.variables, self.file_keys))


OPENAI = ("openai_chat", "openai_completions")
MODELS_ONLY = ("/v1/models",)

LLAMA_SERVER_FLAGS = {
    "max_num_seqs": "-np",
    "max_num_batched_tokens": "-b",
    "max_num_ubatch_tokens": "-ub",
    "context_tokens": "-c",
}
# https://docs.vllm.ai/en/stable/cli/serve/
VLLM_FLAGS = {
    "max_num_seqs": "--max-num-seqs",
    "max_num_batched_tokens": "--max-num-batched-tokens",
    "policy": "--scheduling-policy",
    "context_tokens": "--max-model-len",
    "max_num_active_seqs": "--max-num-active-seqs",
    "max_num_queued_reqs": "--max-num-queued-reqs",
    "max_num_queued_tokens": "--max-num-queued-tokens",
    "long_prefill_token_threshold": "--long-prefill-token-threshold",
    "max_num_partial_prefills": "--max-num-partial-prefills",
    "max_long_partial_prefills": "--max-long-partial-prefills",
    "gpu_memory_utilization": "--gpu-memory-utilization",
    "num_gpu_blocks_override": "--num-gpu-blocks-override",
    "block_size": "--block-size",
    "stream_interval": "--stream-interval",
}
# https://docs.sglang.ai/advanced_features/server_arguments.html
SGLANG_FLAGS = {
    "max_num_seqs": "--max-running-requests",
    "max_num_batched_tokens": "--chunked-prefill-size",
    "max_prefill_tokens": "--max-prefill-tokens",
    "max_num_queued_reqs": "--max-queued-requests",
    "policy": "--schedule-policy",
    "context_tokens": "--context-length",
    "mem_fraction_static": "--mem-fraction-static",
}
# https://huggingface.co/docs/text-generation-inference/reference/launcher
TGI_FLAGS = {
    "max_num_seqs": "--max-batch-size",
    "max_num_batched_tokens": "--max-batch-prefill-tokens",
    "max_batch_total_tokens": "--max-batch-total-tokens",
    "max_concurrent_requests": "--max-concurrent-requests",  # refuses what is beyond, with 429; no batch limit
    "max_waiting_tokens": "--max-waiting-tokens",
    "context_tokens": "--max-total-tokens",
}

KINDS: dict[str, EngineKind] = {
    "simulated": EngineKind(
        "Built-in engine", 8000, OPENAI, metrics_path="/metrics", metrics=VLLM_METRICS,
        flags={
            key: f"--{key.replace('_', '-')}"
            for key in ("max_num_seqs", "max_num_batched_tokens", "scheduler", "preset", "profile", "cost", "kv_tokens",
                        "policy", "batch_wait_ms", "prefill_instances", "decode_instances", "kv_link_gbit_per_s")
        },
        start=("goodput", "engine", "--port", "{port}"),
    ),
    "openai": EngineKind(
        "OpenAI-compatible server", 8000, OPENAI,
        cannot_know="Its queue, its batch and its limits are not shown; only what the client sees is measured.",
    ),
    "vllm": EngineKind(
        "vLLM", 8000, OPENAI, metrics_path="/metrics", metrics=VLLM_METRICS,
        metrics_hint="vLLM shows /metrics unless it was started with --disable-log-stats",
        flags=VLLM_FLAGS,
        switches={
            "enable_chunked_prefill": ("--enable-chunked-prefill", "--no-enable-chunked-prefill"),
            "enable_prefix_caching": ("--enable-prefix-caching", "--no-enable-prefix-caching"),
        },
        start=("vllm", "serve", "MODEL", "--port", "{port}"),
    ),
    "sglang": EngineKind(
        "SGLang", 30000, OPENAI, metrics_path="/metrics", metrics=SGLANG_METRICS,
        metrics_hint="start SGLang with --enable-metrics to see its queue and batch",
        flags=SGLANG_FLAGS,
        start=("python", "-m", "sglang.launch_server", "--model-path", "MODEL", "--enable-metrics", "--port", "{port}"),
    ),
    "llama_cpp": EngineKind(
        "llama.cpp", 8080, (*OPENAI, "llamacpp_completion"), metrics_path="/metrics", metrics=LLAMA_CPP_METRICS,
        metrics_hint="start llama-server with --metrics to see its queue and batch",
        slots_path="/slots",
        flags=LLAMA_SERVER_FLAGS,
        switches={
            "kv_unified": ("--kv-unified", "--no-kv-unified"),
            "cont_batching": ("--cont-batching", "--no-cont-batching"),
            "cache_prompt": ("--cache-prompt", "--no-cache-prompt"),
        },
        start=("llama-server", "-m", "MODEL", "--metrics", "--port", "{port}"),
    ),
    "ollama": EngineKind(
        "Ollama", 11434, ("ollama_chat", "ollama_generate", *OPENAI), ("/api/version",),
        metrics_hint="Ollama has no metrics; /api/ps only tells which models are loaded and how much memory they take",
        # https://docs.ollama.com/faq#how-does-ollama-handle-concurrent-requests
        variables={
            "max_num_seqs": "OLLAMA_NUM_PARALLEL",
            "max_num_queued_reqs": "OLLAMA_MAX_QUEUE",
            "context_tokens": "OLLAMA_CONTEXT_LENGTH",
            "max_loaded_models": "OLLAMA_MAX_LOADED_MODELS",
            "kv_cache_type": "OLLAMA_KV_CACHE_TYPE",
            "flash_attention": "OLLAMA_FLASH_ATTENTION",
        },
        start=("ollama", "serve"),
        cannot_know="Ollama does not tell how many requests it runs at once, nor how many wait.",
    ),
    "tgi": EngineKind(
        "TGI", 3000, ("tgi_generate_stream", "openai_chat"), metrics_path="/metrics", metrics=TGI_METRICS,
        metrics_hint="TGI always shows /metrics; a proxy in front of it may not",
        flags=TGI_FLAGS,
        start=("text-generation-launcher", "--model-id", "MODEL", "--port", "{port}"),
    ),
    "lmstudio": EngineKind(
        "LM Studio", 1234, OPENAI, MODELS_ONLY,
        metrics_hint="LM Studio has no metrics; what the client sees is measured all the same",
        # https://lmstudio.ai/docs/cli/load and https://github.com/lmstudio-ai/lms/pull/442
        flags={"max_num_seqs": "--parallel", "context_tokens": "--context-length"},
        start=("lms", "load", "MODEL"),
        cannot_know="LM Studio does not tell how many requests it runs at once, nor how many wait.",
    ),
    "tabbyapi": EngineKind(
        "TabbyAPI", 5000, OPENAI,
        metrics_hint="TabbyAPI has no metrics; what the client sees is measured all the same",
        # https://github.com/theroyallab/tabbyAPI/blob/main/config_sample.yml
        file_keys={
            "model": "model.model_name",
            "max_num_seqs": "model.max_batch_size",
            "max_num_batched_tokens": "model.chunk_size",
            "kv_tokens": "model.cache_size",
            "context_tokens": "model.max_seq_len",
        },
        settings_file="config.yml",
        cannot_know="TabbyAPI does not tell how many requests it runs at once, nor how many wait.",
    ),
    "koboldcpp": EngineKind(
        "KoboldCpp", 5001, OPENAI, MODELS_ONLY,
        # https://lite.koboldai.net/koboldcpp_api
        status_path="/api/extra/perf",
        metrics_hint="KoboldCpp tells at /api/extra/perf only whether it works and how many wait",
        # https://github.com/LostRuins/koboldcpp/pull/2167: several at once only without context shifting
        flags={
            "max_num_seqs": "--noshift --parallelrequests",
            "max_num_batched_tokens": "--batchsize",
            "context_tokens": "--contextsize",
        },
        start=("koboldcpp", "--model", "MODEL", "--port", "{port}"),
    ),
    "localai": EngineKind(
        "LocalAI", 8080, OPENAI, ("/readyz", "/v1/models"),
        metrics_hint="LocalAI's /metrics tells its API calls, not its queue or batch",
        # https://localai.io/advanced/ and https://localai.io/reference/cli-reference/
        variables={"max_num_seqs": "LLAMACPP_PARALLEL", "context_tokens": "LOCALAI_CONTEXT_SIZE"},
        start=("local-ai", "run"),
        cannot_know="LocalAI does not tell how many requests its backend runs at once, nor how many wait.",
    ),
    "mlx_lm": EngineKind(
        "mlx_lm", 8080, OPENAI,
        metrics_hint="mlx_lm.server has no metrics; what the client sees is measured all the same",
        # https://github.com/ml-explore/mlx-lm/blob/main/mlx_lm/server.py
        flags={
            "max_num_seqs": "--decode-concurrency",
            "prompt_concurrency": "--prompt-concurrency",
            "max_num_batched_tokens": "--prefill-step-size",
        },
        start=("mlx_lm.server", "--model", "MODEL", "--port", "{port}"),
        cannot_know="mlx_lm does not tell how many requests it runs at once, nor how many wait.",
    ),
    "litellm": EngineKind(
        # never /health: it sends a request to every model, https://docs.litellm.ai/docs/proxy/health
        "LiteLLM proxy", 4000, OPENAI, ("/health/liveliness", "/v1/models"),
        metrics_hint="LiteLLM passes requests on: measure the server behind it to see its queue and batch",
        start=("litellm", "--config", "config.yaml", "--port", "{port}"),
        cannot_know="LiteLLM passes requests on: limits, queue and batch are those of the servers behind it.",
    ),
}  # fmt: skip
