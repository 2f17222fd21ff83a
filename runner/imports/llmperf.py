"""llmperf's …_summary.json (flattened keys) and …_individual_responses.json. PURE.

Keys as in llmperf/common_metrics.py and token_benchmark_ray.py. Its inter_token_latency_s is the whole answer's time
over all tokens, the wait for the first included, and is left out: TPOT is worked out from end-to-end time and TTFT.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from runner.imports.model import MAX_REQUESTS, ImportFailed, Point, ToolFile, ToolRun
from runner.imports.reading import LEVELS, count, items, ms, number, positive, text, tokens

BADGES = ("ttft_from_send", "no_gaps", "itl_with_first", "whole_run", "their_clock")
_METRICS = {"ttft_s": "ttft_ms", "end_to_end_latency_s": "e2e_ms"}


def is_summary(value: object) -> bool:
    return isinstance(value, dict) and "results_ttft_s_mean" in value


def is_responses(value: object) -> bool:
    lines = items(value)
    return bool(lines) and all(isinstance(r, dict) and "ttft_s" in r and "end_to_end_latency_s" in r for r in lines[:3])


def read_llmperf(summary: Mapping[str, Any], responses: Sequence[Mapping[str, Any]]) -> ToolFile:
    """One run from its summary, its responses, or both (either may be empty)."""
    if len(responses) > MAX_REQUESTS:
        raise ImportFailed(f"more than {MAX_REQUESTS:,} requests")
    done, per_minute = (positive(summary.get(f"results_num_completed_requests{end}")) for end in ("", "_per_min"))
    at_once = count(summary.get("num_concurrent_requests"))
    run = ToolRun(
        setting={},
        load={"max_concurrency": at_once} if at_once else {},
        repeat=0,
        duration_s=done / per_minute * 60 if done and per_minute else None,
        stated=_stated(summary),
        points=tuple(_point(r) for r in responses if isinstance(r, dict)),
    )
    return ToolFile(
        tool="llmperf",
        tool_version=text(summary.get("version")),
        model=text(summary.get("model")),
        kind="openai",
        runs=(run,),
        badges=BADGES,
    )


def _point(response: Mapping[str, Any]) -> Point:
    lost = response.get("error_code") is not None
    ttft, end = ms(response.get("ttft_s")), ms(response.get("end_to_end_latency_s"))
    n = tokens(response.get("number_output_tokens"))
    lost = lost or not ttft  # it writes 0 for a first token that never came
    spread = end - ttft if ttft is not None and end is not None else None
    return Point(
        sent_s=0.0,
        scheduled_s=0.0,
        ttft_ms=None if lost else ttft,
        gaps_ms=None,
        tpot_ms=max(spread, 0.0) / (n - 1) if spread is not None and n and n > 1 and not lost else None,
        end_ms=None if lost else end,
        output_tokens=None if lost else n,
        prompt_tokens=tokens(response.get("number_input_tokens")),
        error=f"error {response.get('error_code')}" if lost else None,
    )


def _stated(summary: Mapping[str, Any]) -> dict[str, Any]:
    n = count(summary.get("results_num_completed_requests"))
    per_minute = number(summary.get("results_num_completed_requests_per_min"))
    out: dict[str, Any] = {
        "completed": n,
        "failed": count(summary.get("results_number_errors")),
        "scheduled": count(summary.get("results_num_requests_started")),
        "output_tok_per_s": number(summary.get("results_mean_output_throughput_token_per_s")),
        "request_per_s": None if per_minute is None else per_minute / 60,
    }
    for theirs, ours in _METRICS.items():
        levels = {p: ms(summary.get(f"results_{theirs}_quantiles_{p}")) for p in LEVELS}
        out[ours] = {**levels, "mean": ms(summary.get(f"results_{theirs}_mean")), "n": n}
    for ours in ("tpot_ms", "gap_ms"):
        out[ours] = {**dict.fromkeys((*LEVELS, "mean")), "n": 0}
    return out
