"""Result files of `vllm bench serve` and of SGLang's bench_serving, which began as a copy of it. PURE.

Keys as in vllm/benchmarks/serve.py and sglang/benchmark/serving.py: times in ms in the summary, in s in the lists that
`--save-detailed` (vLLM) and `--output-details` (SGLang) add. A vLLM sweep folder holds such files, one a run, with the
sweep's parameters as further keys.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from runner.imports.model import CLASS, MAX_REQUESTS, ImportFailed, Point, ToolFile, ToolRun
from runner.imports.reading import count, items, ms, number, positive, scalar, text, tokens

_KNOWN = frozenset(
    {
        "date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts", "request_rate",
        "burstiness", "max_concurrency", "duration", "completed", "failed", "run_number", "rtfx", "dataset_name",
        "ttfts", "itls", "latencies", "start_times", "queue_times", "generated_texts", "errors", "input_lens",
        "output_lens", "num_warmups", "seed", "tag", "concurrency", "accept_length", "server_info", "cache_report",
        "rps_change_events", "cached_tokens", "cached_tokens_details", "served_model_name", "best_of",
        "slo_attainment", "slo_attainment_by_metric", "goodput_slos_ms", "_benchmark_name",
    }
)  # fmt: skip
_KNOWN_STARTS = (
    "total_", "request_", "output_", "input_", "mean_", "median_", "std_", "max_output_", "max_concurrent_",
    "random_", "sharegpt_", "spec_decode_", "diffusion_", "probe_", "ramp_up_", "sonnet_", "custom_", "hf_", "prefix_",
)  # fmt: skip
_METRICS = {"ttft": "ttft_ms", "tpot": "tpot_ms", "itl": "gap_ms"}
_KINDS = {"vllm": "vllm", "sglang": "sglang", "sglang-oai": "sglang", "sglang-oai-chat": "sglang", "tgi": "tgi"}
BADGES = ("ttft_from_send", "tpot_mean_of_request", "whole_run", "their_clock")


def is_serving(value: object) -> bool:
    """Whether it is one run's result of either tool."""
    return isinstance(value, dict) and "duration" in value and ("mean_ttft_ms" in value or "output_throughput" in value)


def is_failure(value: object) -> bool:
    """Whether it is the note of a run of a vLLM sweep that failed."""
    return isinstance(value, dict) and "error_type" in value and "serve_overrides" in value


def read_serving(found: Sequence[Mapping[str, Any]]) -> ToolFile:
    """One import of all runs in `found`, each `is_serving` or `is_failure`; a run told twice (a sweep's summary.json
    beside its files) counts once."""
    sglang = any("mean_e2e_latency_ms" in one or "total_output_tokens_retokenized" in one for one in found)
    if sum(len(items(one.get("ttfts"))) for one in found) > MAX_REQUESTS:
        raise ImportFailed(f"more than {MAX_REQUESTS:,} requests; import the runs in parts")
    runs = numbered(_once([_failed(one) if is_failure(one) else _run(one) for one in found]))
    first = next((one for one in found if not is_failure(one)), {})
    told = text(first.get("backend")) or text(first.get("endpoint_type")) or ""
    swept = any(run.setting for run in runs)
    kind = "sglang" if sglang and told not in _KINDS else _KINDS.get(told, "vllm" if swept else "openai")
    chat = "chat" in told or told == ""
    badges = BADGES if sglang else (*BADGES, *(("role_chunk",) if chat else ()))
    if any(run.load.get(f"{CLASS}_max_in_flight") for run in runs):
        badges = (*badges, "client_queue")
    return ToolFile(
        tool="sglang" if sglang else "vllm",
        tool_version=None,
        model=text(first.get("model_id")),
        kind=kind,
        runs=tuple(runs),
        badges=badges,
        targets=_targets(first.get("goodput_slos_ms")),
    )


def _targets(told: object) -> dict[str, float]:
    """SGLang writes the targets its goodput was for."""
    slos = told if isinstance(told, dict) else {}
    found = {"ttft_ms": positive(slos.get("ttft")), "gap_ms": positive(slos.get("tpot"))}
    return {key: value for key, value in found.items() if value is not None}


def _run(one: Mapping[str, Any]) -> ToolRun:
    duration_s = positive(one.get("duration"))
    points = _points(one)
    return ToolRun(
        setting={k: v for k, v in ((k, scalar(v)) for k, v in one.items() if _is_setting(k)) if v is not None},
        load=load_of(
            one.get("request_rate"), one.get("max_concurrency"), one.get("num_prompts") or len(points) or None
        ),
        repeat=count(one.get("run_number")) or 0,
        duration_s=duration_s,
        stated=_stated(one),
        points=points,
        timed=bool(items(one.get("start_times"))),
    )


def _is_setting(key: str) -> bool:
    plain = key.replace("-", "_")
    percentile = plain[:1] == "p" and plain.endswith("_ms") and plain[1:2].isdigit()
    return plain not in _KNOWN and not plain.startswith(_KNOWN_STARTS) and not percentile


def load_of(rate: object, concurrency: object, prompts: object) -> dict[str, float | int]:
    """Our words for a load. No rate ("inf") with a bound on requests at once is a closed loop; no rate and no bound
    sends everything at once; a rate with a bound is a dispatcher that holds requests back."""
    per_s, at_once = positive(rate), count(concurrency) or None
    if per_s is None:
        most = at_once or count(prompts)
        return {"max_concurrency": most} if most else {}
    return {"request_rate": per_s, **({f"{CLASS}_max_in_flight": at_once} if at_once else {})}


def _failed(one: Mapping[str, Any]) -> ToolRun:
    over = {**_dict(one.get("serve_overrides")), **_dict(one.get("bench_overrides"))}
    setting = {k: v for k, v in ((k, scalar(v)) for k, v in over.items() if _is_setting(k)) if v is not None}
    plain = {k.replace("-", "_"): v for k, v in over.items()}
    load = load_of(plain.get("request_rate"), plain.get("max_concurrency"), None)
    kind = text(one.get("error_type")) or "failed"
    return ToolRun(setting, load, count(one.get("run_number")) or 0, None, {}, error=kind)


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _stated(one: Mapping[str, Any]) -> dict[str, Any]:
    n = count(one.get("completed"))
    failed = count(one.get("failed"))
    duration_s = positive(one.get("duration"))
    prompt = number(one.get("total_input_tokens"))
    out: dict[str, Any] = {
        "completed": n,
        "failed": failed,
        "scheduled": None if n is None else n + (failed or 0),
        "output_tok_per_s": number(one.get("output_throughput")),
        "prompt_tok_per_s": None if prompt is None or not duration_s else prompt / duration_s,
        "request_per_s": number(one.get("request_throughput")),
        "goodput_per_s": number(one.get("request_goodput", one.get("request_goodput:"))),  # older ones with the colon
    }
    e2e = "e2e_latency" if "mean_e2e_latency_ms" in one else "e2el"
    for theirs, ours in (*_METRICS.items(), (e2e, "e2e_ms")):
        levels = {p: number(one.get(f"{p}_{theirs}_ms")) for p in ("p90", "p95", "p99")}
        told = {"p50": number(one.get(f"median_{theirs}_ms")), **levels, "mean": number(one.get(f"mean_{theirs}_ms"))}
        out[ours] = {**told, "n": n}
    return out


def _points(one: Mapping[str, Any]) -> tuple[Point, ...]:
    ttfts, itls = items(one.get("ttfts")), items(one.get("itls"))
    if not ttfts or len(itls) != len(ttfts):
        return ()
    starts, waits = items(one.get("start_times")), items(one.get("queue_times"))
    if len(starts) != len(ttfts):
        starts = []
    due = [(number(s) or 0.0) - _wait(waits, i) for i, s in enumerate(starts)]
    origin = min(due, default=0.0)
    errors = items(one.get("errors"))
    return tuple(
        _point(
            ttft=ttfts[i],
            gaps=itls[i],
            sent_s=(number(starts[i]) or 0.0) - origin if starts else 0.0,
            wait_s=_wait(waits, i) if starts else 0.0,
            error=errors[i] if i < len(errors) else "",
            output=_at(one.get("output_lens"), i),
            prompt=_at(one.get("input_lens"), i),
        )
        for i in range(len(ttfts))
    )


def _point(
    *, ttft: object, gaps: object, sent_s: float, wait_s: float, error: object, output: object, prompt: object
) -> Point:
    first = ms(ttft)
    lost = bool(error) or not first
    told = tuple(ms(g) or 0.0 for g in items(gaps))
    return Point(
        sent_s=sent_s,
        scheduled_s=sent_s - wait_s,
        ttft_ms=None if lost else first,
        gaps_ms=None if lost else told,
        tpot_ms=None,
        end_ms=None if lost or first is None else first + sum(told),
        output_tokens=None if lost else tokens(output),
        prompt_tokens=tokens(prompt),
        error=_kind(error) if lost else None,
    )


def _kind(error: object) -> str:
    """The name of the exception in a traceback: the rest may tell addresses and keys."""
    names = re.findall(
        r"\b[A-Za-z]{3,60}(?:Error|Exception|Timeout)\b", error[-4000:] if isinstance(error, str) else ""
    )
    return names[-1] if names else "failed" if error else "no first token"


def _wait(waits: Sequence[object], i: int) -> float:
    found = number(waits[i]) if i < len(waits) else None
    return max(found or 0.0, 0.0)


def _at(values: object, i: int) -> object:
    found = items(values)
    return found[i] if i < len(found) else None


def _once(runs: Sequence[ToolRun]) -> list[ToolRun]:
    """The runs without those told twice; of two that differ in detail the one with requests."""
    by_key: dict[str, ToolRun] = {}
    for run in runs:
        key = repr((sorted(run.setting.items()), sorted(run.load.items()), run.repeat, run.duration_s, run.error))
        if key not in by_key or (run.points and not by_key[key].points):
            by_key[key] = run
    return list(by_key.values())


def numbered(runs: Sequence[ToolRun]) -> list[ToolRun]:
    """Runs of one point that all call themselves the first become repeats."""
    seen: dict[str, set[int]] = {}
    out = []
    for run in runs:
        taken = seen.setdefault(repr((sorted(run.setting.items()), sorted(run.load.items()))), set())
        repeat = next(n for n in chain([run.repeat], range(len(runs) + 1)) if n not in taken)
        taken.add(repeat)
        out.append(run if repeat == run.repeat else _as_repeat(run, repeat))
    return out


def _as_repeat(run: ToolRun, repeat: int) -> ToolRun:
    return ToolRun(run.setting, run.load, repeat, run.duration_s, run.stated, run.points, run.timed, run.error)
