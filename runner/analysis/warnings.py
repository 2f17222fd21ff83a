"""What makes a number doubtful, each with its remedy. Texts are templates plus values, so they can be translated."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# id -> (what is wrong, what to do); placeholders are filled from `values`
TEXTS: dict[str, tuple[str, str]] = {
    "client_saturated": (
        "Goodput Lab itself was too slow here: timers late by {loop_lag_ms:.0f} ms, {cpu_share:.0%} of a core busy.",
        "Run it on another machine than the server, or at a lower load.",
    ),
    "send_lag": (
        "Requests left late: send lag P99 was {send_lag_ms:.0f} ms, allowed are {allowed_ms:.0f} ms.",
        "Close other programs on this machine or lower the load.",
    ),
    "machine_busy": (
        "Other programs kept {share:.0%} of this machine's processors busy meanwhile.",
        "Measure again when they have ended; where they always run, read the result as that of a shared machine.",
    ),
    "rate_not_reached": (
        "Only {sent} of {scheduled} scheduled requests were sent inside the window.",
        "Lower the request rate or run Goodput Lab on a faster machine.",
    ),
    "server_serialises": (
        "The server served one stream at a time although up to {in_system} requests were waiting for it.",
        "Raise its number of parallel slots (for Ollama OLLAMA_NUM_PARALLEL, for llama.cpp -np) and restart it.",
    ),
    "server_restarted": (
        "The server restarted during this cell: its lifetime counters fell back.",
        "Read its log for the reason, then measure the cell again.",
    ),
    "metrics_lost": (
        "The server stopped telling its own numbers {missing_s:.0f} s before the window's end.",
        "Read what is said about its batch and cache as that of the time before; the answers were measured to the end.",
    ),
    "low_n": (
        "Only {n} requests were completed in the window; percentiles and shares need at least {needs}.",
        "Measure longer or at a higher rate.",
    ),
    "no_steady_state": (
        "The time to first token kept drifting through the whole window, so its percentiles depend on the run length.",
        "Use a longer warm-up and window, or a lower load.",
    ),
    "overload": (
        "Requests came faster than the server could finish them: this load is not sustainable at this setting.",
        "Lower the load; the longer such a run lasts, the worse its numbers get.",
    ),
    "multi_token_chunks": (
        "{share:.0%} of the answers carried more than one token in a chunk: token gaps are hidden inside the chunks.",
        "Read gaps as chunk gaps; switch off speculative decoding or stream coalescing to see single tokens.",
    ),
    "tokens_estimated": (
        "The server told no token counts for {share:.0%} of the answers: chunks were counted instead.",
        "Switch usage in streams on (stream_options.include_usage) or choose another API dialect.",
    ),
    "stream_buffered": (
        "{share:.0%} of the answers arrived in one block: something between here and the server buffers the stream.",
        "Switch buffering off in the proxy (nginx: proxy_buffering off) or measure the server directly.",
    ),
    "prefix_cached": (
        "{share:.0%} of the prompt tokens came from the prefix cache although every prompt should be new.",
        "Switch prefix caching off for the measurement, or give the class shared_prefix_tokens if it is meant so.",
    ),
    "prefix_share_not_held": (
        "{share:.0%} of the prompt tokens came from the prefix cache; {intended:.0%} were shared on purpose.",
        "If less: switch prefix caching on (llama.cpp --cache-prompt, vLLM --enable-prefix-caching) and warm up until "
        "every slot has seen the prefix. If more: see whether the server kept the prompts of an earlier run.",
    ),
    "cold_load": (
        "{share:.0%} of the answers waited for the model to be loaded.",
        "Keep the model loaded (for Ollama OLLAMA_KEEP_ALIVE) and use a longer warm-up.",
    ),
    "malformed_events": (
        "{share:.0%} of the answers held events that could not be read.",
        "Look at the server's stream with goodput probe; a proxy may be cutting it.",
    ),
    "no_terminator": (
        "{share:.0%} of the answers ended without the end mark of their API dialect.",
        "Check that the API dialect is the right one; answers may have been cut short.",
    ),
    "output_length_not_held": (
        "{share:.0%} of the answers were not as long as asked, so the settings did not do the same work.",
        "Use a server that takes ignore_eos or min_tokens, and compare settings by tokens as well.",
    ),
    "prompt_length_mismatch": (
        "{share:.0%} of the prompts were counted by the server with another length than asked.",
        "Check that the backend's model is the one that was probed before the run.",
    ),
    "errors": (
        "{share:.0%} of the requests failed ({kinds}). They count as missed.",
        "Look at the error texts; latencies of the answered ones describe the lucky requests only.",
    ),
    "user_clock": (
        "Token times were taken by the program, not by the kernel, for {share:.0%} of the reads.",
        "Use plain HTTP on Linux for kernel stamps; otherwise read differences below 1 ms as noise.",
    ),
    "clock_stepped": (
        "The wall clock was set, or the machine slept, while this cell was measured ({count} times).",
        "Keep the machine awake and let its clock be corrected slowly (NTP slews it), then measure the cell again.",
    ),
    "cut_short": (
        "This cell was cut short: more of its requests had missed their targets than a pass allows.",
        "Lower the load; [run] stop_hopeless = false measures such a cell to its end.",
    ),
    "short_warmup": (
        "Warm-up was {warmup_s:.0f} s, less than the usual {usual_s:.0f} s: the run is short.",
        "Read the result as indicative and measure longer before acting on it.",
    ),
    "drift": (
        "The first cell, measured again at the end, gave {changes}: the machine changed while the sweep ran.",
        "End other work on the machine, let it cool down between cells ([run] cool_down_s) and measure again; do not "
        "trust small differences between settings that were measured far apart.",
    ),
    "rule_sensitive": (
        "The chosen setting depends on the gap rule: {rules} would choose another one.",
        "Compare the rules on the results page and decide which stall your users notice.",
    ),
    "stalls_hidden": (
        "{count} requests pass on their mean token time but stalled for longer than their target.",
        "Keep the rule that looks at each request's own gaps; a mean cannot see a freeze.",
    ),
}

# A point with one of these measures something other than the server under this load: hollow, and never chosen.
# low_n is not among them, nor is what the server really does to its users (errors, serialising, chunk sizes).
INVALIDATING = frozenset(
    {
        "client_saturated", "send_lag", "rate_not_reached", "server_restarted", "no_steady_state", "overload",
        "stream_buffered", "prefix_cached", "prefix_share_not_held", "cold_load",
    }
)  # fmt: skip

CELL_FLAGS = frozenset(TEXTS) - {
    "metrics_lost",
    "machine_busy",
    "drift",
    "cut_short",
    "errors",
    "user_clock",
    "short_warmup",
    "rule_sensitive",
    "stalls_hidden",
}


@dataclass(frozen=True)
class MeasurementWarning:
    """One doubt about one cell (or, with cell None, about the sweep)."""

    message_id: str  # a key of TEXTS
    cell: int | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return TEXTS[self.message_id][0].format(**self.values)

    @property
    def remedy(self) -> str:
        return TEXTS[self.message_id][1].format(**self.values)

    def as_dict(self) -> dict[str, Any]:
        """Strict-JSON-able: type, cell, invalidates, text, remedy, and template with values for translation."""
        what, remedy = TEXTS[self.message_id]
        return {
            "type": self.message_id,
            "cell": self.cell,
            "invalidates": self.message_id in INVALIDATING,
            "text": self.text,
            "remedy": self.remedy,
            "template": what,
            "remedy_template": remedy,
            "values": dict(self.values),
        }
