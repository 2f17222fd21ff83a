"""Metric names of real servers, as data: field of storage.records.EngineSample -> names to look for, newest first.

A name counts with its colon or with an underscore in its place, and may pick one series: `name{label="value"}`. Where
each came from: vLLM, docs.vllm.ai/en/stable/design/metrics; SGLang, its python/sglang/srt/metrics/collector.py;
llama.cpp, its tools/server/README.md; TGI, its docs/source/reference/metrics.md.
"""

VLLM_METRICS: dict[str, tuple[str, ...]] = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "swapped": ("vllm:num_requests_swapped",),  # V0 only
    "kv_cache_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "num_preemptions_total": ("vllm:num_preemptions_total", "vllm:num_preemptions"),
    "prompt_tokens_total": ("vllm:prompt_tokens_total", "vllm:prompt_tokens"),
    "generation_tokens_total": ("vllm:generation_tokens_total", "vllm:generation_tokens"),
    "iterations_total": ("vllm:iteration_tokens_total_count",),
    "iteration_tokens_total": ("vllm:iteration_tokens_total_sum",),
    # a name of the built-in engine only: vLLM tells tokens per step, not sequences
    "iteration_seqs_total": ("goodput_engine:iteration_seqs_total",),
    "rejected_total": ("vllm:admission_rejections_total", "vllm:admission_rejections"),
    "queue_time_s_total": ("vllm:request_queue_time_seconds_sum", "vllm:time_in_queue_requests_sum"),
    "queue_time_count": ("vllm:request_queue_time_seconds_count", "vllm:time_in_queue_requests_count"),
    "ttft_s_total": ("vllm:time_to_first_token_seconds_sum",),
    "ttft_count": ("vllm:time_to_first_token_seconds_count",),
    "itl_s_total": ("vllm:inter_token_latency_seconds_sum", "vllm:time_per_output_token_seconds_sum"),
    "itl_count": ("vllm:inter_token_latency_seconds_count", "vllm:time_per_output_token_seconds_count"),
    "prefix_cache_queries_total": (
        "vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries",
        "vllm:gpu_prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries",
    ),
    "prefix_cache_hits_total": (
        "vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits",
        "vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits",
    ),
}  # fmt: skip

# Its tokens-per-second gauges start anew at every scrape, so that two watchers spoil each other's: not read.
LLAMA_CPP_METRICS: dict[str, tuple[str, ...]] = {
    "running": ("llamacpp:requests_processing",),
    "waiting": ("llamacpp:requests_deferred",),
    "kv_cache_usage": ("llamacpp:kv_cache_usage_ratio",),  # gone in newer versions, which show it in /slots
    "prompt_tokens_total": ("llamacpp:prompt_tokens_total",),
    "generation_tokens_total": ("llamacpp:tokens_predicted_total",),  # moves only when a request ends
    "iterations_total": ("llamacpp:n_decode_total",),
    "prefix_cache_hits_total": ("llamacpp:prompt_tokens_cached_total",),
}

SGLANG_METRICS: dict[str, tuple[str, ...]] = {
    "running": ("sglang:num_running_reqs",),
    "waiting": ("sglang:num_queue_reqs",),
    "swapped": ("sglang:num_retracted_reqs",),  # those thrown out since it last told
    "seats": ("sglang:max_running_requests",),
    "kv_cache_usage": ("sglang:token_usage", "sglang:full_token_usage"),
    "num_preemptions_total": ("sglang:num_retracted_requests_total",),
    # both move only when a request ends
    "prompt_tokens_total": ("sglang:prompt_tokens_total",),
    "generation_tokens_total": ("sglang:generation_tokens_total",),
    "queue_time_s_total": ("sglang:queue_time_seconds_sum",),
    "queue_time_count": ("sglang:queue_time_seconds_count",),
    "ttft_s_total": ("sglang:time_to_first_token_seconds_sum",),
    "ttft_count": ("sglang:time_to_first_token_seconds_count",),
    "itl_s_total": ("sglang:inter_token_latency_seconds_sum", "sglang:time_per_output_token_seconds_sum"),
    "itl_count": ("sglang:inter_token_latency_seconds_count", "sglang:time_per_output_token_seconds_count"),
    "prefix_cache_queries_total": ("sglang:prompt_tokens_total",),
    "prefix_cache_hits_total": ("sglang:cached_tokens_total",),
}

# It shows a counter only from its first event on, and no KV use and no time to first token at all.
TGI_METRICS: dict[str, tuple[str, ...]] = {
    "running": ("tgi_batch_current_size",),
    "waiting": ("tgi_queue_size",),
    "prompt_tokens_total": ("tgi_request_input_length_sum",),
    "generation_tokens_total": ("tgi_request_generated_tokens_sum",),  # moves only when a request ends
    "iterations_total": ("tgi_batch_inference_count",),
    "iteration_seqs_total": ("tgi_batch_inference_batch_size_sum",),
    "rejected_total": ('tgi_request_failure{err="overloaded"}',),
    "queue_time_s_total": ("tgi_request_queue_duration_sum",),
    "queue_time_count": ("tgi_request_queue_duration_count",),
    "itl_s_total": ("tgi_request_mean_time_per_token_duration_sum",),  # one entry a request: its own mean
    "itl_count": ("tgi_request_mean_time_per_token_duration_count",),
}

_KNOWN = (VLLM_METRICS, LLAMA_CPP_METRICS, SGLANG_METRICS, TGI_METRICS)
# for a server that does not say what it is but whose metrics page the user names
ANY_METRICS: dict[str, tuple[str, ...]] = {
    name: tuple(n for some in _KNOWN for n in some.get(name, ()))
    for name in dict.fromkeys(name for some in _KNOWN for name in some)
}

ITERATION_TOKENS_BUCKET = "vllm:iteration_tokens_total_bucket"
PROCESS_START = "process_start_time_seconds"
