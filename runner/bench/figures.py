"""A client's stamps laid beside the server's truth. PURE."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median, median_low
from typing import Any

from runner.analysis.cell_warnings import CPU_SHARE, LOOP_LAG_MS

Figures = dict[str, Any]
MS = 1e6
SHORTEST_NS = 1_000_000_000  # a shorter steady part says nothing about open streams


def compare(truth: Mapping[str, Sequence[int]], client: Mapping[str, Any], streams: int, started_ns: int) -> Figures:
    """One client in one scenario. `truth`: from the paced server, `client`: from its process, times in ns.

    send_lag_ms     request received by the server's kernel - moment it was due
    ttft_error_ms   |TTFT the client reports (from its send) - true TTFT (request received to first token sent)|
    token_lag_ms    the client's stamp of a token - when the server was about to send it
    gap_error_ms    |gap between two tokens at the client - gap at the server|
    server_late_ms  how late the server itself was with its tokens: where this is high, the machine was too busy
    """
    received = dict(zip(truth["first_numbers"], truth["received_ns"], strict=True))
    sent = truth["sent_ns"]
    send_lags, ttft, lags, gaps = [], [], [], []
    for stream in client["seen"]:
        numbers, stamps = stream["numbers"], stream["stamps_ns"]
        if not numbers:
            continue
        first = numbers[0]
        send_lags.append((received[first] - stream["due_ns"]) / MS)
        ttft.append(abs((stamps[0] - stream["sent_ns"]) - (sent[first] - received[first])) / MS)
        own = [stamp - sent[n] for n, stamp in zip(numbers, stamps, strict=True)]
        lags += [lag / MS for lag in own]
        gaps += [abs(b - a) / MS for a, b in pairwise(own)]
    events, requests, reads = len(lags), len(ttft), client["reads"]
    # all of the run: a part of it would leave out the parsing of streams that end after it
    cpu_us = round(client["cpu_s"] * 1e6 / events, 2) if events else None
    return {
        "streams": streams,
        "requests": requests,
        "events": events,
        "events_per_read": round(events / reads, 2) if reads else None,
        "cpu_us_per_event": cpu_us,
        "cpu_us_per_request": round(cpu_us * events / requests, 1) if cpu_us and requests else None,
        "send_lag_ms": percentiles(send_lags),
        "ttft_error_ms": percentiles(ttft),
        "token_lag_ms": percentiles(lags),
        "gap_error_ms": percentiles(gaps),
        "streams_open_share": open_share(truth, streams, *client["steady_ns"]) if streams else None,
        "saturated": saturated(client["samples"], *client["steady_ns"]),
        "server_late_ms": percentiles([late / MS for late in truth["late_ns"]]),
        "first_request_s": round((min(truth["received_ns"]) - started_ns) / 1e9, 3) if events else None,
        "rss_mb": round(client["rss_mb"], 1),
        "clock": client["clock"],
    }


def open_share(truth: Mapping[str, Sequence[int]], streams: int, low_ns: int, high_ns: int) -> float | None:
    """Mean number of streams open at the server in the steady part, as a share of those asked for; null when that part
    is shorter than a second. A stream is open from the receipt of its request until its last token is sent."""
    if high_ns - low_ns < SHORTEST_NS:
        return None
    spans = zip(truth["received_ns"], truth["ended_ns"], strict=True)
    open_ns = sum(max(0, min(end, high_ns) - max(begin, low_ns)) for begin, end in spans)
    return round(open_ns / (streams * (high_ns - low_ns)), 4)


def saturated(samples: Sequence[Mapping[str, Any]], low_ns: int, high_ns: int) -> bool | None:
    """Whether the client's own process was the limit in the steady part, by the rule for a cell; null without a look
    at it."""
    inside = [s for s in samples if low_ns <= s["at_ns"] < high_ns]
    if not inside:
        return None
    late = sum(s["loop_lag_ms"] > LOOP_LAG_MS for s in inside)
    cpu_share = sum(s["cpu_share"] for s in inside) / len(inside)
    return bool(late > max(1.0, 0.1 * len(inside)) or cpu_share > CPU_SHARE)


def beside_aiohttp(results: Sequence[Figures]) -> list[Figures]:
    """The results of one round, each with `cpu_ratio_to_aiohttp`: its CPU time per event over aiohttp's in the same
    scenario."""
    base = {r["scenario"]: r["cpu_us_per_event"] for r in results if r["client"] == "aiohttp"}
    with_ratio = []
    for result in results:
        own, other = result["cpu_us_per_event"], base.get(result["scenario"])
        with_ratio.append({**result, "cpu_ratio_to_aiohttp": round(own / other, 3) if own and other else None})
    return with_ratio


def middle_of(rounds: Sequence[Figures]) -> Figures:
    """Several rounds of one client in one scenario as one: the median of each number, over the rounds that have it.

    What is true or false is told as the worse: saturated in any round, the kernel's clock in all of them. The speed of
    a small machine's processor changes by a third within seconds, so one round alone says little about CPU time.
    """
    first = rounds[0]
    out: Figures = {}
    for key, value in first.items():
        told = [r[key] for r in rounds if r[key] is not None]
        if isinstance(value, Mapping):
            out[key] = middle_of([r[key] for r in rounds])
        elif key == "saturated":
            out[key] = any(told) if told else None
        elif key == "clock":
            out[key] = value if len(set(told)) == 1 else "user"
        elif told and isinstance(told[0], float):
            out[key] = round(median(told), 4)
        elif told and isinstance(told[0], int):
            out[key] = median_low(told)
        else:
            out[key] = value
    return {**out, "rounds": len(rounds)} if "client" in first else out


def percentiles(values: Sequence[float]) -> dict[str, float | None]:
    """Nearest rank; null when empty."""
    ordered = sorted(values)
    return {
        name: round(ordered[math.ceil(q * len(ordered)) - 1], 4) if ordered else None
        for name, q in (("p50", 0.5), ("p99", 0.99))
    }
