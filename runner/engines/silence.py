"""Whether a server hung or went away in mid-cell, from the cell's own rows: nobody else tells. PURE."""

from collections.abc import Sequence

from runner.errors import SettingFailed
from storage.records import EngineSample, RequestRecord

QUIET_S = 60.0  # a slow machine may read a long prompt that long before anybody sees a token
TTFT_TIMES = 3.0
REFUSED = 3  # requests in a row that found nobody; one or two may be a full queue of new connections
_PROGRESS = ("prompt_tokens_total", "generation_tokens_total", "iterations_total", "kv_cache_usage")


def silence(
    requests: Sequence[RequestRecord], engine: Sequence[EngineSample], request_timeout_s: float
) -> SettingFailed | None:
    """Why the cell's end measured nothing; null when the server served until then.

    server_hung: requests were open up to the end, no token came to anyone for at least 60 s and three times the longest
    TTFT seen (at most request_timeout_s), and the server's own counters stood still. unreachable: every request sent
    after the last token, at least three, could not connect.
    """
    tokens = [_last_token_ns(r) for r in requests if r.first_chunk_ns is not None]
    last_ns = max(tokens, default=None)
    return _gone(requests, last_ns) or _hung(requests, engine, last_ns, request_timeout_s)


def _last_token_ns(r: RequestRecord) -> int:
    return (r.first_chunk_ns or 0) + sum(r.chunk_deltas_us) * 1000


def _gone(requests: Sequence[RequestRecord], last_ns: int | None) -> SettingFailed | None:
    if last_ns is None:
        return None
    after = [r for r in requests if r.scheduled_ns > last_ns and r.outcome != "cancelled"]
    if len(after) < REFUSED or any(r.error_kind != "connect" for r in after):
        return None
    detail = f"the server went away in mid-cell: the last {len(after)} requests could not connect; start it again"
    return SettingFailed("unreachable", detail)


def _hung(
    requests: Sequence[RequestRecord], engine: Sequence[EngineSample], last_ns: int | None, request_timeout_s: float
) -> SettingFailed | None:
    tried = [(r.sent_ns, r.end_ns) for r in requests if r.sent_ns is not None and r.end_ns is not None and _starved(r)]
    open_then = [(sent, end) for sent, end in tried if end > (last_ns or 0)]
    if not open_then:
        return None
    end_ns = max(end for _, end in open_then)
    since_ns = max(last_ns or 0, min(sent for sent, _ in open_then))
    ttfts = [r.first_chunk_ns - r.sent_ns for r in requests if r.first_chunk_ns is not None and r.sent_ns is not None]
    limit_s = min(request_timeout_s, max(QUIET_S, TTFT_TIMES * max(ttfts, default=0) / 1e9))
    quiet_s = (end_ns - since_ns) / 1e9
    if quiet_s < limit_s or _progressed(engine, since_ns):
        return None
    detail = (
        f"the server hangs: {len(open_then)} requests were open, and no token came to any of them in the last "
        f"{quiet_s:.0f} s of the cell; see its log, it is started anew for the next cell where we start it"
    )
    return SettingFailed("server_hung", detail)


def _starved(r: RequestRecord) -> bool:
    return r.outcome == "cancelled" or r.error_kind == "timeout"


def _progressed(engine: Sequence[EngineSample], since_ns: int) -> bool:
    """Whether the server says that it worked meanwhile, on a long prompt for instance."""
    seen = [s for s in engine if s.at_ns >= since_ns]
    return any(len({v for s in seen if (v := getattr(s, name)) is not None}) > 1 for name in _PROGRESS)
