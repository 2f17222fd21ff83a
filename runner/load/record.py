"""From what an answer said and when its bytes came to the row that is stored."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from runner.protocols.facts import StreamFacts
from runner.protocols.scrub import hide, scrub
from storage.records import RequestRecord

MAX_DELTA_US = 2**32 - 1

# What the reader of a stream can only guess at; the transport knows better why a stream stopped.
_GUESSED = ("truncated", "empty_stream")


def to_record(
    sent: RequestRecord, facts: StreamFacts | None, *, origin_ns: int = 0, secrets: Iterable[str] = ()
) -> RequestRecord:
    """The finished row of one request.

    `sent` holds what was asked, the transport's stamps (ns since the cell's origin), the HTTP status and, if the
    transport or the status told of one, `error_kind` and `error_detail`. `facts` is None where no answer was read
    (no connection, an HTTP error); its stamps are on the transport's clock, on which the cell's origin is
    `origin_ns`. `secrets` are hidden in the texts.

    An error that the server told in its stream comes first; then the transport's (timeout, cancelled ...); then
    what the stream looks like. An answer that had reached its own end is good, whatever the connection did later.
    """
    record = sent if facts is None else _with_facts(sent, facts, origin_ns)
    detail = record.error_detail
    return replace(
        record,
        outcome={None: "ok", "cancelled": "cancelled"}.get(record.error_kind, "error"),
        error_detail=None if detail is None else scrub(detail, secrets),
        finish_reason=None if record.finish_reason is None else hide(record.finish_reason, secrets),
    )


def _with_facts(sent: RequestRecord, facts: StreamFacts, origin_ns: int) -> RequestRecord:
    stamps = facts.chunk_stamps_ns
    error_kind, error_detail = facts.error_kind, facts.error_detail
    if error_kind in _GUESSED and sent.error_kind is not None:
        error_kind, error_detail = sent.error_kind, sent.error_detail
    return replace(
        sent,
        first_chunk_ns=stamps[0] - origin_ns if stamps else None,
        first_answer_ns=None if facts.first_answer_ns is None else facts.first_answer_ns - origin_ns,
        chunk_deltas_us=deltas_us(stamps),
        token_events=len(stamps),
        shared_stamps=facts.shared_stamps,
        output_tokens=facts.output_tokens,
        output_tokens_source=facts.output_tokens_source,
        reasoning_tokens=facts.reasoning_tokens,
        prompt_tokens=facts.prompt_tokens,
        cached_prompt_tokens=facts.cached_prompt_tokens,
        load_ms=facts.load_ms,
        malformed_events=facts.malformed_events,
        saw_terminator=facts.saw_terminator,
        finish_reason=facts.finish_reason,
        error_kind=error_kind,
        error_detail=error_detail,
    )


def deltas_us(stamps_ns: Sequence[int]) -> tuple[int, ...]:
    """Steps between chunks in whole µs, never negative; one fewer than stamps.

    Each is the difference of two rounded distances from the first chunk, so their sums never drift. A read without
    a kernel stamp is dated a little late: a stamp before an earlier one is taken as that one. A step has 32 bits in
    the store: one of 71 minutes or more is told as 71 minutes, and what comes after it keeps its own steps.
    """
    rounded = [(latest - stamps_ns[0] + 500) // 1000 for latest in accumulate(stamps_ns, max)]
    return tuple(min(after - before, MAX_DELTA_US) for before, after in pairwise(rounded))
