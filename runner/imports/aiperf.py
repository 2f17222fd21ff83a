"""aiperf's profile_export_aiperf.json (summary) and profile_export.jsonl (one request a line). PURE.

Keys as in aiperf/common/models/export_models.py and record_models.py, units as told beside each value. Its
inter_token_latency is our TPOT, its inter_chunk_latency our gaps; the JSONL has the latter as a list.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from runner.imports.model import MAX_REQUESTS, ImportFailed, Point, ToolFile, ToolRun
from runner.imports.reading import count, items, number, part, percentiles_of, positive, scalar, text, tokens

BADGES = ("ttft_from_send", "itl_is_tpot", "whole_run", "their_clock")
_UNITS_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3, "sec": 1e3}
_METRICS = {
    "time_to_first_token": "ttft_ms",
    "inter_token_latency": "tpot_ms",
    "inter_chunk_latency": "gap_ms",
    "request_latency": "e2e_ms",
}


def is_aiperf(value: object) -> bool:
    """Whether it is a run's summary."""
    return isinstance(value, dict) and ("aiperf_version" in value or "unit" in part(value, "request_throughput"))


def is_records(value: object) -> bool:
    """Whether it is the list of a JSONL file's requests."""
    lines = items(value)
    return bool(lines) and all(isinstance(one, dict) and "metrics" in one and "metadata" in one for one in lines[:3])


def read_aiperf(summary: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> ToolFile:
    """One run from its summary, its requests, or both (either may be empty)."""
    if len(records) > MAX_REQUESTS:
        raise ImportFailed(f"more than {MAX_REQUESTS:,} requests")
    points, duration_s = _points(records)
    told = positive(_ms(part(summary, "benchmark_duration")))
    config = part(summary, "input_config")
    run = ToolRun(
        setting=_setting(summary),
        load=_load(config),
        repeat=count(part(summary, "run_info").get("trial")) or 0,
        duration_s=told / 1000 if told else duration_s,
        stated=_stated(summary),
        points=points,
        timed=True,
    )
    named = items(part(config, "models").get("items")) or items(part(config, "endpoint").get("model_names"))
    model = named[0].get("name") if named and isinstance(named[0], dict) else named[0] if named else None
    slos = part(config, "slos") or part(config, "input", "goodput")
    wanted = {
        "ttft_ms": positive(slos.get("time_to_first_token")),
        "gap_ms": positive(slos.get("inter_token_latency")),
    }
    return ToolFile(
        tool="aiperf",
        tool_version=text(summary.get("aiperf_version")),
        model=text(model),
        kind="openai",
        runs=(run,),
        badges=BADGES,
        targets={key: v for key, v in wanted.items() if v is not None},
    )


def _setting(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What a sweep of aiperf varied, except the load."""
    varied = part(summary, "run_info", "variation_values")
    told = {str(k).rsplit(".", 1)[-1]: scalar(v) for k, v in varied.items()}
    return {k: v for k, v in told.items() if v is not None and k not in ("concurrency", "rate", "request_rate")}


def _load(config: Mapping[str, Any]) -> dict[str, float | int]:
    """From the phase that is measured; older versions tell it under `loadgen`."""
    phases = [p for p in items(config.get("phases")) if isinstance(p, dict) and text(p.get("kind")) != "warmup"]
    phase = phases[-1] if phases else part(config, "loadgen")
    rate = positive(phase.get("rate")) or positive(phase.get("request_rate"))
    at_once = count(phase.get("concurrency"))
    return {"request_rate": rate} if rate else {"max_concurrency": at_once} if at_once else {}


def _ms(told: Mapping[str, Any], key: str = "avg") -> float | None:
    value, scale = number(told.get(key)), _UNITS_MS.get(str(told.get("unit")))
    return None if value is None or scale is None else value * scale


def _stated(summary: Mapping[str, Any]) -> dict[str, Any]:
    n, failed = _avg(summary, "request_count"), _avg(summary, "error_request_count")
    out: dict[str, Any] = {
        "completed": count(n),
        "failed": count(failed),
        "scheduled": None if n is None else count(n + (failed or 0.0)),
        "output_tok_per_s": _avg(summary, "output_token_throughput"),
        "request_per_s": _avg(summary, "request_throughput"),
        "goodput_per_s": _avg(summary, "goodput"),
    }
    for theirs, ours in _METRICS.items():
        told = part(summary, theirs)
        levels = percentiles_of({**told, "mean": told.get("avg")}, _UNITS_MS.get(str(told.get("unit")), 1.0))
        out[ours] = {**levels, "n": count(n)}
    return out


def _avg(summary: Mapping[str, Any], tag: str) -> float | None:
    return number(part(summary, tag).get("avg"))


def _points(records: Sequence[Mapping[str, Any]]) -> tuple[tuple[Point, ...], float | None]:
    """The measured requests in order of sending, and the time from the first one's start to the last one's end in s."""
    measured = [r for r in records if text(part(r, "metadata").get("benchmark_phase")) != "warmup"]
    starts = [wall_ns(part(r, "metadata").get("request_start_ns")) for r in measured]
    ends = [wall_ns(part(r, "metadata").get("request_end_ns")) for r in measured]
    origin = min((s for s in starts if s is not None), default=0)
    points = [_point(r, ((s or origin) - origin) / 1e9) for r, s in zip(measured, starts, strict=True)]
    last = max((e for e in ends if e is not None), default=origin)
    return tuple(sorted(points, key=lambda p: p.sent_s)), (last - origin) / 1e9 if last > origin else None


def wall_ns(value: object) -> int | None:
    """A wall-clock time in ns: larger than any other number of a file."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def _point(record: Mapping[str, Any], sent_s: float) -> Point:
    metrics, metadata = part(record, "metrics"), part(record, "metadata")
    error = record.get("error")
    cancelled = metadata.get("was_cancelled") is True
    lost = bool(error) or cancelled
    chunks = part(metrics, "inter_chunk_latency")
    scale = _UNITS_MS.get(str(chunks.get("unit")), 1.0)
    gaps = tuple((number(g) or 0.0) * scale for g in items(chunks.get("value")))
    ttft = _ms(part(metrics, "time_to_first_token"), "value")
    n = tokens(part(metrics, "output_sequence_length").get("value"))
    has_gaps = bool(gaps) or (n is not None and n <= 1)
    return Point(
        sent_s=sent_s,
        scheduled_s=sent_s,
        ttft_ms=None if lost else ttft,
        gaps_ms=gaps if has_gaps and not lost else None,
        tpot_ms=None if lost else _ms(part(metrics, "inter_token_latency"), "value"),
        end_ms=_ms(part(metrics, "request_latency"), "value"),
        output_tokens=n,
        prompt_tokens=tokens(part(metrics, "input_sequence_length").get("value")),
        error=None if not error else text(part(error).get("type")) or "failed",
        cancelled=cancelled,
    )
