"""From what an answer said and when its bytes came to the row that is stored."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from operator import sub
from typing import Any

from runner.protocols.facts import StreamFacts
from runner.protocols.scrub import hide, scrub
from storage.records import RequestRecord

MAX_DELTA_US = 2**32 - 1

_SAME_IN_BOTH = (
    "shared_stamps", "output_tokens", "output_tokens_source", "reasoning_tokens", "prompt_tokens",
    "cached_prompt_tokens", "load_ms", "malformed_events", "saw_terminator",
)  # fmt: skip

# What the reader of a stream can only guess at; the transport knows better why a stream stopped.
_GUESSED = ("truncated", "empty_stream")


def to_record(
    sent: Mapping[str, Any], facts: StreamFacts | None, *, origin_ns: int = 0, secrets: Iterable[str] = ()
) -> RequestRecord:
    """The finished row of one request.

    `sent` holds, by the names of a RequestRecord, what was asked, the transport's stamps (ns since the cell's origin),
    the HTTP status and, if the transport or the status told of one, `error_kind` and `error_detail`. `facts` is None
    where no answer was read (no connection, an HTTP error); its stamps are on the transport's clock, on which the
    cell's origin is `origin_ns`. `secrets` are hidden in the texts.

    An error that the server told in its stream comes first; then the transport's (timeout, cancelled ...); then
    what the stream looks like. An answer that had reached its own end is good, whatever the connection did later.
    """
    told = {} if facts is None else _told(facts, origin_ns)
    error_kind, error_detail = sent.get("error_kind"), sent.get("error_detail")
    if facts is not None and (error_kind is None or facts.error_kind not in _GUESSED):
        error_kind, error_detail = facts.error_kind, facts.error_detail
    finish_reason = None if facts is None else facts.finish_reason
    judged = {
        "outcome": {None: "ok", "cancelled": "cancelled"}.get(error_kind, "error"),
        "error_kind": error_kind,
        "error_detail": None if error_detail is None else scrub(error_detail, secrets),
        "finish_reason": None if finish_reason is None else hide(finish_reason, secrets),
    }
    # in one go: a frozen row of forty columns costs as much to make as a short answer to read
    return RequestRecord(**{**sent, **told, **judged})


def _told(facts: StreamFacts, origin_ns: int) -> dict[str, Any]:
    stamps = facts.chunk_stamps_ns
    return {
        "first_chunk_ns": stamps[0] - origin_ns if stamps else None,
        "first_answer_ns": None if facts.first_answer_ns is None else facts.first_answer_ns - origin_ns,
        "chunk_deltas_us": deltas_us(stamps),
        "token_events": len(stamps),
        **{name: getattr(facts, name) for name in _SAME_IN_BOTH},
    }


def deltas_us(stamps_ns: Sequence[int]) -> tuple[int, ...]:
    """Steps between chunks in whole µs, never negative; one fewer than stamps.

    Each is the difference of two rounded distances from the first chunk, so their sums never drift. A read without
    a kernel stamp is dated a little late: a stamp before an earlier one is taken as that one. A step has 32 bits in
    the store: one of 71 minutes or more is told as 71 minutes, and what comes after it keeps its own steps.
    """
    if not stamps_ns:
        return ()
    start = stamps_ns[0] - 500
    rounded = [(stamp - start) // 1000 for stamp in stamps_ns]
    steps = tuple(map(sub, rounded[1:], rounded))
    if min(steps, default=0) < 0:
        return deltas_us(list(accumulate(stamps_ns, max)))
    return steps if max(steps, default=0) <= MAX_DELTA_US else tuple(min(step, MAX_DELTA_US) for step in steps)
