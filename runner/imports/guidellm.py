"""guidellm's benchmarks.json. PURE.

Keys as in guidellm/benchmark/schemas (versions 1 and 2 of the report). Each request tells when it was due and sent and
when its first and last token came, but no single gaps. Its time_per_output_token_ms includes the wait for the first
token and is left out; its inter_token_latency_ms is our TPOT.
"""

from collections.abc import Mapping
from typing import Any

from runner.imports.model import MAX_REQUESTS, ImportFailed, Point, ToolFile, ToolRun
from runner.imports.reading import count, items, number, part, percentiles_of, positive, text, tokens

BADGES = ("ttft_from_send", "no_gaps", "their_clock")
_SCHEDULED = ("constant", "poisson", "trace")  # strategies that define when a request is due
_METRICS = {"time_to_first_token_ms": "ttft_ms", "inter_token_latency_ms": "tpot_ms"}


def is_guidellm(value: object) -> bool:
    benchmarks = items(value.get("benchmarks")) if isinstance(value, dict) else []
    return any(
        "time_to_first_token_ms" in part(b, "metrics") or "request_totals" in part(b, "metrics") for b in benchmarks
    )


def read_guidellm(value: Mapping[str, Any]) -> ToolFile:
    """Every benchmark of the report is a run."""
    benchmarks = [b for b in items(value.get("benchmarks")) if isinstance(b, dict)]
    if sum(len(items(group)) for b in benchmarks for group in part(b, "requests").values()) > MAX_REQUESTS:
        raise ImportFailed(f"more than {MAX_REQUESTS:,} requests; save the benchmarks in parts")
    runs = tuple(_run(b) for b in benchmarks)
    first = benchmarks[0]
    slo = part(first, "config", "slo")
    told = {"ttft_ms": positive(slo.get("ttft_ms")), "gap_ms": positive(slo.get("tpot_ms"))}
    due = any(p.scheduled_s != p.sent_s for run in runs for p in run.points)
    return ToolFile(
        tool="guidellm",
        tool_version=text(part(value, "metadata").get("guidellm_version")),
        model=text(part(first, "config", "backend").get("model")) or text(part(value, "args").get("model")),
        kind="openai",
        runs=runs,
        badges=(*(("ttft_from_due",) if due else BADGES[:1]), *BADGES[1:], "tpot_with_first"),
        targets={key: v for key, v in told.items() if v is not None},
    )


def _run(one: Mapping[str, Any]) -> ToolRun:
    strategy = {**part(one, "scheduler", "strategy"), **part(one, "config", "strategy")}
    if not strategy:  # version 1 of the report
        strategy = dict(part(one, "args", "strategy"))
    kind = text(strategy.get("type_")) or ""
    start, end = number(one.get("start_time")), number(one.get("end_time"))
    duration_s = positive(one.get("duration")) or (end - start if start is not None and end is not None else None)
    groups = part(one, "requests")
    points = [
        _point(request, start or 0.0, kind in _SCHEDULED, status)
        for status in ("successful", "incomplete", "errored")
        for request in items(groups.get(status))
        if isinstance(request, dict)
    ]
    totals = part(one, "metrics", "request_totals")
    known = count(totals.get("total"))
    sampled = known is not None and known != len(points)  # only some requests were kept
    points.sort(key=lambda p: p.scheduled_s)
    return ToolRun(
        setting={},
        load=_load(kind, strategy, duration_s),
        repeat=0,
        duration_s=duration_s if duration_s and duration_s > 0 else None,
        stated=_stated(one, totals),
        points=() if sampled else tuple(points),
        timed=True,
    )


def _load(kind: str, strategy: Mapping[str, Any], duration_s: float | None) -> dict[str, float | int]:
    if kind in _SCHEDULED and (rate := positive(strategy.get("rate"))):
        return {"request_rate": rate}
    if kind == "synchronous":
        return {"max_concurrency": 1}
    at_once = count(strategy.get("streams")) or count(strategy.get("max_concurrency"))
    return {"max_concurrency": at_once} if at_once else {}


def _point(request: Mapping[str, Any], start: float, scheduled: bool, status: str) -> Point:
    timings = part(request, "info", "timings") or part(request, "scheduler_info", "request_timings") or _old(request)
    sent = number(timings.get("request_start"))
    sent = start if sent is None else sent
    due = number(timings.get("targeted_start")) if scheduled else None
    first, last = (
        number(timings.get(f"{end}_token_iteration", timings.get(f"{end}_iteration"))) for end in ("first", "last")
    )
    end = number(timings.get("request_end"))
    ok = status == "successful"
    n = tokens(request.get("output_tokens"))
    tpot = (last - first) * 1000 / (n - 1) if ok and first is not None and last is not None and n and n > 1 else None
    return Point(
        sent_s=sent - start,
        scheduled_s=(sent if due is None else min(due, sent)) - start,
        ttft_ms=(first - sent) * 1000 if ok and first is not None else None,
        gaps_ms=None,
        tpot_ms=tpot,
        end_ms=None if end is None else max(end - sent, 0.0) * 1000,
        output_tokens=n,
        prompt_tokens=tokens(request.get("prompt_tokens")),
        error="failed" if status == "errored" else None,
        cancelled=status == "incomplete",
    )


def _old(request: Mapping[str, Any]) -> dict[str, Any]:
    """The times of a request as version 0.2 told them: beside its other values."""
    names = {
        "request_start": "start_time",
        "first_token_iteration": "first_token_time",
        "last_token_iteration": "last_token_time",
        "request_end": "end_time",
    }
    return {ours: request.get(theirs) for ours, theirs in names.items()}


def _stated(one: Mapping[str, Any], totals: Mapping[str, Any]) -> dict[str, Any]:
    metrics = part(one, "metrics")
    n = count(totals.get("successful"))
    out: dict[str, Any] = {
        "completed": n,
        "failed": count(totals.get("errored")),
        "cancelled": count(totals.get("incomplete")),
        "scheduled": count(totals.get("total")),
        "output_tok_per_s": number(part(metrics, "output_tokens_per_second", "successful").get("mean")),
        "prompt_tok_per_s": number(part(metrics, "prompt_tokens_per_second", "successful").get("mean")),
        "request_per_s": number(part(metrics, "requests_per_second", "successful").get("mean")),
    }
    for theirs, ours in _METRICS.items():
        out[ours] = {**_levels(part(metrics, theirs, "successful")), "n": n}
    seconds = _levels(part(metrics, "request_latency", "successful"))
    out["e2e_ms"] = {**{k: None if v is None else v * 1000 for k, v in seconds.items()}, "n": n}
    out["gap_ms"] = {**percentiles_of({}), "n": 0}
    return out


def _levels(summary: Mapping[str, Any]) -> dict[str, float | None]:
    return {**percentiles_of(part(summary, "percentiles")), "mean": number(summary.get("mean"))}
