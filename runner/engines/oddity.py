"""What is said of settings that a server ignores, refuses or takes for something else. PURE."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["refused", "ignored", "note"]
# templates, so that they can be translated; numbers are filled in as they stand in a sweep file or a start line
TEXTS = {
    "unknown_setting": "{title} has no setting that is known here as {key}: when asked, set what you mean by it.",
    "priority_not_sent": (
        "{title} is sent no priorities: all classes wait in one queue, their priorities change nothing."
    ),
    "priority_needs_policy": "{title} accepts priorities and ignores them unless its policy is priority ({how}).",
    "request_refused": (
        "The longest request of class {name} ({longest} tokens) does not fit the context of {context} tokens: "
        "{title} will refuse it."
    ),
    "request_cut": (
        "The longest request of class {name} ({longest} tokens) does not fit the context of {context} tokens: "
        "{title} cuts its prompt short or refuses it, depending on version and model."
    ),
    "partial_prefills_gone": "vLLM {version} does not start with {flag}, which went with 0.27: leave {key} out.",
    "partial_prefills_unenforced": (
        "vLLM has not enforced {key} since its V1 engine: values above 1 stop it from starting, and from 0.27 on "
        "it does not know {flag}. What is left is long_prefill_token_threshold."
    ),
    "queue_limit_too_new": "vLLM {version} does not know {flag}, which came with 0.29.",
    "budget_below_seqs": (
        "vLLM does not start with max_num_batched_tokens = {budget} below max_num_seqs = {seqs}: every running "
        "answer needs a token of each iteration."
    ),
    "budget_below_context": (
        "Without chunked prefill vLLM does not start with max_num_batched_tokens = {budget} below its context of "
        "{context} tokens."
    ),
    "budget_needs_context": (
        "Without chunked prefill vLLM does not start with a max_num_batched_tokens below its context: keep it at "
        "--max-model-len or above."
    ),
    "active_above_seqs": "vLLM does not start with max_num_active_seqs = {active} above max_num_seqs = {seqs}.",
    "queue_counts_running": (
        "vLLM counts running requests against max_num_queued_reqs = {queued}: max_num_seqs = {seqs} is never reached."
    ),
    "slot_too_small": (
        "{seqs} slots divide the context of {context} tokens into {slot} each: the longest request of class "
        "{name} ({longest} tokens) will be refused. Set -c to {needed} or add --kv-unified."
    ),
    "slots_divide": (
        "llama.cpp divides its context among the slots unless --kv-unified is given: raise -c along with "
        "max_num_seqs = {seqs}, or long prompts are refused."
    ),
    "kv_can_run_out": (
        "{seqs} requests of up to {longest} tokens share a context of {context}: when it is full, llama.cpp ends "
        "every running answer with an error."
    ),
    "ubatch_cut": "llama.cpp cuts -ub {ubatch} to -b {batch}: a larger value changes nothing.",
    "ollama_restart": (
        "Ollama reads its variables when it starts. As a service: systemctl edit ollama, a line Environment= for "
        "each below [Service], then systemctl restart ollama."
    ),
    "ollama_memory": (
        "Ollama reserves memory for {seqs} × {context} = {tokens} tokens of context: see in `ollama ps` that the "
        "model still fits the GPU."
    ),
    "ollama_memory_unknown": (
        "Ollama reserves a whole context for each of {seqs} requests at once: see in `ollama ps` that the model "
        "still fits the GPU."
    ),
    "ollama_queue": (
        "Ollama does not count requests for a loaded model against OLLAMA_MAX_QUEUE: max_num_queued_reqs changes "
        "nothing here."
    ),
    "sglang_memory": "SGLang lowers max_num_seqs to what its KV memory holds: compare it with the batch that is seen.",
    "tgi_prompt_over_budget": (
        "TGI takes no prompt longer than max_num_batched_tokens = {budget}: class {name} has prompts of up to "
        "{longest} tokens."
    ),
    "tgi_concurrent": "TGI refuses what is above max_concurrent_requests (429): it limits the queue, not the batch.",
    "tgi_batch_size": (
        "TGI means --max-batch-size for hardware without unpadded inference; on a GPU its batch is limited by "
        "max_batch_total_tokens."
    ),
    "lmstudio_reload": (
        "LM Studio runs 4 at once again after it has loaded the model by itself, on demand or after its time-out:"
        " keep the model loaded during the sweep."
    ),
    "kobold_parallel": (
        "KoboldCpp answers several at once only in newer versions, with --parallelrequests and --noshift; older "
        "ones queue them."
    ),
    "kobold_batch": (
        "KoboldCpp does not start with --batchsize {budget}: it takes 16, 32, 64, 128, 256, 512, 1024, 2048 or 4096."
    ),
    "tabby_cache": "TabbyAPI wants cache_size as a multiple of 256, not {kv}.",
    "localai_yaml": (
        "What a model's YAML file says (options: parallel, context_size) goes before LocalAI's environment."
    ),
    "mlx_batchable": "mlx_lm decodes at once only what it can batch: with a draft model it answers one after another.",
}


@dataclass(frozen=True)
class Oddity:
    """`refused`: the server will not run so; `ignored`: the value changes nothing; `note`: worth knowing.

    `values` fill the template of `code`; of several oddities with one code and class the heaviest is told.
    """

    code: str
    severity: Severity
    values: Mapping[str, str | int] = field(default_factory=dict)
    weight: float = 0.0

    @property
    def template(self) -> str:
        return TEXTS[self.code]

    @property
    def sentence(self) -> str:
        return self.template.format(**self.values)
