"""One request as the command line prints it: times in ms after it was sent, and flags, derived from raw facts. PURE."""

from collections.abc import Mapping, Sequence

from storage.records import RequestRecord

COLD_LOAD_MS = 500
BUFFERED_US_PER_CHUNK = 100
BUFFERED_TOKENS = 16
CACHED_SHARE = 0.1


def request_object(
    record: RequestRecord, text: str, reasoning_text: str, tool_calls: Sequence[Mapping[str, object]] = ()
) -> dict[str, object]:
    """The *request object* of the interface page; strict JSON, null where there is nothing to tell.

    Times are ms after the request was sent, rounded to 1 µs. `e2e_ms` is the end of the stream, or of the attempt.
    An error keeps its text, `token_events` and `chunk_gaps_ms`, but has no `ttft_ms`, `ttft_answer_ms`,
    `last_token_ms` and `tpot_ms`: it must not be taken for a fast answer. A buffered stream has no `tpot_ms` and
    no `chunk_gaps_ms` (null): what arrives in one piece says nothing about how it was generated. Only an answer that
    called tools has the key `tool_calls`: [{"name", "arguments"}].
    """
    flags = request_flags(record)
    failed = record.outcome == "error"
    gaps = None if "stream_buffered" in flags else [delta / 1000 for delta in record.chunk_deltas_us]
    return {
        "outcome": record.outcome,
        "error_kind": record.error_kind,
        "error_detail": record.error_detail,
        "http_status": record.http_status,
        "text": text,
        "reasoning_text": reasoning_text,
        "finish_reason": record.finish_reason,
        "scheduled_ns": record.scheduled_ns,
        "sent_ns": record.sent_ns,
        "connect_ms": _connect_ms(record),
        "ttft_ms": None if failed else _after_sent(record, record.first_chunk_ns),
        "ttft_answer_ms": None if failed else _after_sent(record, record.first_answer_ns),
        "last_token_ms": None if failed else _after_sent(record, _last_chunk_ns(record)),
        "e2e_ms": _after_sent(record, record.end_ns),
        "tpot_ms": None if failed or gaps is None else _tpot_ms(record),
        "chunk_gaps_ms": gaps,
        "token_events": record.token_events,
        "output_tokens": record.output_tokens,
        "output_tokens_source": record.output_tokens_source,
        "reasoning_tokens": record.reasoning_tokens,
        "prompt_tokens": record.prompt_tokens,
        "cached_prompt_tokens": record.cached_prompt_tokens,
        "load_ms": record.load_ms,
        "retry_after_s": record.retry_after_s,
        "malformed_events": record.malformed_events,
        "clock": record.clock,
        "flags": flags,
        **({"tool_calls": [dict(call) for call in tool_calls]} if tool_calls else {}),
    }


def request_flags(record: RequestRecord) -> list[str]:
    """What a reader of this request's numbers must know. Lengths asked for may be 0: unknown, nothing to compare.

    - `multi_token_chunks`: tokens exceed chunks by more than one and by more than 5 %. One token may come without
      text (the end token, a stop word held back), and a few characters need two tokens.
    - `tokens_estimated`: tokens are counted by chunks, since the server told no count.
    - `stream_buffered`: the answer came in one piece, so gaps mean nothing: chunks less than 0.1 ms apart on
      average, or a single chunk that holds 16 tokens or more, or one of several tokens without the stream's end
      mark (a JSON answer of a server that does not stream).
    - `prefix_cached`: the server took more than a tenth of the prompt from its cache (a chat template's own
      tokens are always there).
    - `cold_load`: loading the model took more than 500 ms of this request.
    - `malformed_events`: at least one event was no JSON object.
    - `no_terminator`: a good answer with neither an end mark nor a finish reason: it may have been cut short.
    - `output_length_not_held`: a good answer whose told length is off by more than two tokens and more than 10 %.
    - `prompt_length_mismatch`: told and asked prompt length differ by more than 32 tokens (a chat template) and 20 %.
    """
    good = record.outcome == "ok"
    checks = {
        "multi_token_chunks": _chunks_hold_several(record),
        "tokens_estimated": record.output_tokens_source == "estimated",
        "stream_buffered": good and _buffered(record),
        "prefix_cached": (record.cached_prompt_tokens or 0) > CACHED_SHARE * (record.prompt_tokens or 0),
        "cold_load": (record.load_ms or 0) > COLD_LOAD_MS,
        "malformed_events": record.malformed_events > 0,
        "no_terminator": good and not record.saw_terminator and record.finish_reason is None,
        "output_length_not_held": good and _length_not_held(record),
        "prompt_length_mismatch": _prompt_mismatch(record),
    }
    return [flag for flag, raised in checks.items() if raised]


def _chunks_hold_several(record: RequestRecord) -> bool:
    if not record.token_events or record.output_tokens is None:
        return False
    return record.output_tokens - record.token_events > max(1, 0.05 * record.token_events)


def _buffered(record: RequestRecord) -> bool:
    if record.token_events > 1:
        return sum(record.chunk_deltas_us) < BUFFERED_US_PER_CHUNK * (record.token_events - 1)
    tokens = record.output_tokens or 0
    return record.token_events == 1 and tokens > 1 and (tokens >= BUFFERED_TOKENS or not record.saw_terminator)


def _length_not_held(record: RequestRecord) -> bool:
    asked, told = record.output_tokens_asked, record.output_tokens
    if not asked or told is None or record.output_tokens_source == "estimated":
        return False
    return abs(told - asked) > max(2, 0.1 * asked)


def _prompt_mismatch(record: RequestRecord) -> bool:
    asked, told = record.prompt_tokens_asked, record.prompt_tokens
    return bool(asked) and told is not None and abs(told - asked) > 32 + 0.2 * asked


def _connect_ms(record: RequestRecord) -> float | None:
    """TCP and TLS set-up together; null on a reused connection."""
    if record.connect_ns is None:
        return None
    return round((record.connect_ns + (record.tls_ns or 0)) / 1e6, 3)


def _last_chunk_ns(record: RequestRecord) -> int | None:
    """Never after the end: gaps are kept in whole µs, so their sum may be half of one too long."""
    if record.first_chunk_ns is None:
        return None
    last_ns = record.first_chunk_ns + 1000 * sum(record.chunk_deltas_us)
    return last_ns if record.end_ns is None else min(last_ns, record.end_ns)


def _after_sent(record: RequestRecord, at_ns: int | None) -> float | None:
    return None if at_ns is None or record.sent_ns is None else round((at_ns - record.sent_ns) / 1e6, 3)


def _tpot_ms(record: RequestRecord) -> float | None:
    """(y_m - y_1) / (n - 1); null for one token or one chunk."""
    if record.token_events < 2 or record.output_tokens is None or record.output_tokens < 2:
        return None
    return round(sum(record.chunk_deltas_us) / 1000 / (record.output_tokens - 1), 3)
