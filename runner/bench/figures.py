"""A client's stamps laid beside the server's truth. PURE."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

Figures = dict[str, Any]
MS = 1e6
SETTLE_NS = 1_000_000_000  # the first second, while the streams are being opened, is not counted as open time


def compare(truth: Mapping[str, Sequence[int]], client: Mapping[str, Any], streams: int, started_ns: int) -> Figures:
    """One client in one scenario. `truth`: from the paced server, `client`: from its process, times in ns.

    ttft_error_ms   |TTFT the client reports (from its send) - true TTFT (request received to first token sent)|
    token_lag_ms    the client's stamp of a token - when the server was about to send it
    gap_error_ms    |gap between two tokens at the client - gap at the server|
    """
    received = dict(zip(truth["first_numbers"], truth["received_ns"], strict=True))
    sent = truth["sent_ns"]
    ttft, lags, gaps = [], [], []
    for stream in client["seen"]:
        numbers, stamps = stream["numbers"], stream["stamps_ns"]
        if not numbers:
            continue
        first = numbers[0]
        ttft.append(abs((stamps[0] - stream["sent_ns"]) - (sent[first] - received[first])) / MS)
        own = [stamp - sent[n] for n, stamp in zip(numbers, stamps, strict=True)]
        lags += [lag / MS for lag in own]
        gaps += [abs(b - a) / MS for a, b in pairwise(own)]
    events = len(lags)
    return {
        "streams": streams,
        "events": events,
        "cpu_us_per_event": round(client["cpu_s"] * 1e6 / events, 2) if events else None,
        "ttft_error_ms": percentiles(ttft),
        "token_lag_ms": percentiles(lags),
        "gap_error_ms": percentiles(gaps),
        "streams_open_share": open_share(truth, streams),
        "first_request_s": round((min(truth["received_ns"]) - started_ns) / 1e9, 3) if events else None,
        "rss_mb": round(client["rss_mb"], 1),
        "clock": client["clock"],
    }


def open_share(truth: Mapping[str, Sequence[int]], streams: int) -> float | None:
    """Mean number of streams open at the server, as a share of those asked for: from one second after the first request
    until the last one came; null when that is less than a second."""
    begins, ends = truth["received_ns"], truth["ended_ns"]
    if not begins:
        return None
    low, high = min(begins) + SETTLE_NS, max(begins)
    if high - low < SETTLE_NS:
        return None
    open_ns = sum(max(0, min(end, high) - max(begin, low)) for begin, end in zip(begins, ends, strict=True))
    return round(open_ns / (streams * (high - low)), 4)


def percentiles(values: Sequence[float]) -> dict[str, float | None]:
    """Nearest rank; null when empty."""
    ordered = sorted(values)
    return {
        name: round(ordered[math.ceil(q * len(ordered)) - 1], 4) if ordered else None
        for name, q in (("p50", 0.5), ("p99", 0.99))
    }
