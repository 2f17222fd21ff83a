"""genai-bench's result files, one a scenario and concurrency, and its experiment_metadata.json. PURE.

Keys as in genai_bench/metrics/metrics.py; times in the unit told by `_time_unit`, s where none is told.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from runner.imports.model import MAX_REQUESTS, ImportFailed, Point, ToolFile, ToolRun
from runner.imports.reading import count, items, number, part, percentiles_of, positive, text, tokens

BADGES = ("ttft_from_send", "no_gaps", "whole_run", "their_clock")
_METRICS = {"ttft": "ttft_ms", "tpot": "tpot_ms", "e2e_latency": "e2e_ms"}
_KINDS = {"vLLM": "vllm", "SGLang": "sglang", "TGI": "tgi"}


def is_genai_bench(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("aggregated_metrics"), dict)


def is_metadata(value: object) -> bool:
    return isinstance(value, dict) and "experiment_folder_name" in value and "benchmark_version" in value


def read_genai_bench(found: Sequence[Mapping[str, Any]], metadata: Mapping[str, Any]) -> ToolFile:
    """One import of all result files of an experiment; `metadata` may be empty."""
    if sum(len(items(one.get("individual_request_metrics"))) for one in found) > MAX_REQUESTS:
        raise ImportFailed(f"more than {MAX_REQUESTS:,} requests; import the files in parts")
    scenarios = {text(part(one, "aggregated_metrics").get("scenario")) for one in found}
    return ToolFile(
        tool="genai_bench",
        tool_version=text(metadata.get("benchmark_version")),
        model=text(metadata.get("model")),
        kind=_KINDS.get(str(metadata.get("server_engine")), "openai"),
        runs=tuple(_run(one, several=len(scenarios) > 1) for one in found),
        badges=BADGES,
    )


def _run(one: Mapping[str, Any], *, several: bool) -> ToolRun:
    whole = part(one, "aggregated_metrics")
    at_once = count(whole.get("num_concurrency"))
    scale = 1.0 if one.get("_time_unit") == "ms" else 1000.0
    scenario = text(whole.get("scenario"))
    requests = [r for r in items(one.get("individual_request_metrics")) if isinstance(r, dict)]
    return ToolRun(
        setting={"traffic_scenario": scenario} if several and scenario else {},
        load={"max_concurrency": at_once} if at_once else {},
        repeat=0,
        duration_s=positive(whole.get("run_duration")),
        stated=_stated(whole, scale),
        points=tuple(_point(r, scale) for r in requests),
    )


def _point(request: Mapping[str, Any], scale: float) -> Point:
    lost = request.get("error_code") is not None
    ttft, tpot, end = (number(request.get(key)) for key in ("ttft", "tpot", "e2e_latency"))
    n = tokens(request.get("num_output_tokens"))
    return Point(
        sent_s=0.0,
        scheduled_s=0.0,
        ttft_ms=None if lost or ttft is None else ttft * scale,
        gaps_ms=None,
        tpot_ms=tpot * scale if tpot and n and n > 1 and not lost else None,
        end_ms=None if lost or end is None else end * scale,
        output_tokens=None if lost else n,
        prompt_tokens=tokens(request.get("num_input_tokens")),
        error=f"error {request.get('error_code')}" if lost else None,
    )


def _stated(whole: Mapping[str, Any], scale: float) -> dict[str, Any]:
    n = count(whole.get("num_completed_requests"))
    out: dict[str, Any] = {
        "completed": n,
        "failed": count(whole.get("num_error_requests")),
        "scheduled": count(whole.get("num_requests")),
        "output_tok_per_s": number(whole.get("mean_output_throughput_tokens_per_s")),
        "prompt_tok_per_s": number(whole.get("mean_input_throughput_tokens_per_s")),
        "request_per_s": number(whole.get("requests_per_second")),
    }
    for theirs, ours in _METRICS.items():
        out[ours] = {**percentiles_of(part(whole, "stats", theirs), scale), "n": n}
    out["gap_ms"] = {**percentiles_of({}), "n": 0}
    return out
