"""What virtual time gave -> the rows that measured requests leave. No time of theirs is a kernel's, and they say so."""

from array import array
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from runner.load.generator import unsent_record
from runner.load.record import MAX_DELTA_US
from runner.simulator.server import BUSY
from runner.simulator.virtual_engine import VirtualRequest
from runner.simulator.virtual_time import VirtualCell
from storage.records import RequestRecord

_UNSENT = {
    "stopped": "not sent: the run was stopped",
    "held": "not sent: the class's cap on running requests held it until the end",
}


def records_of(run: VirtualCell, cell: int, limit_ns: int, max_model_len: int) -> list[RequestRecord]:
    """The requests of one cell as records, in the order they ended; `limit_ns` and `max_model_len` for the words.

    `user_stamps` counts every token: a record of virtual time claims no kernel stamp.
    """
    deltas = deltas_us(run.requests)
    return [_record(r, next(deltas), cell, limit_ns, max_model_len) for r in run.requests]


def deltas_us(requests: list[VirtualRequest]) -> "Iterator[array[int]]":
    """Steps in whole us of each request, rounded as `runner.load.record.deltas_us` does: their sums never drift."""
    counts = np.array([len(r.times_ns) for r in requests], dtype=np.int64)
    flat = np.concatenate([np.zeros(0, dtype=np.int64), *(r.times_ns for r in requests)])
    starts = np.cumsum(counts) - counts
    since_first = flat - np.repeat(flat[np.minimum(starts, len(flat) - 1)], counts) if len(flat) else flat
    steps = np.minimum(np.diff((since_first + 500) // 1000), MAX_DELTA_US)
    # differences between two requests mean nothing and may be negative; each own slice leaves them out
    bits = steps.astype(np.uint32).tobytes()
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        own = array("I")
        own.frombytes(bits[4 * start : 4 * (start + count - 1)] if count else b"")
        yield own


def _record(
    request: VirtualRequest, deltas: "array[int]", cell: int, limit_ns: int, max_model_len: int
) -> RequestRecord:
    spec, times = request.spec, request.times_ns
    if request.sent_ns is None:
        return unsent_record(spec, request.scheduled_ns, cell, _UNSENT[request.fate])
    tokens = len(times)
    first_ns = int(times[0]) if tokens else None
    batched = request.sequence is not None and request.sequence.held
    return RequestRecord(
        cell=cell,
        request=spec.request,
        class_name=spec.class_name,
        priority=spec.priority,
        prompt_tokens_asked=spec.prompt_tokens,
        output_tokens_asked=spec.output_tokens,
        scheduled_ns=request.scheduled_ns,
        sent_ns=request.sent_ns,
        first_byte_ns=request.sent_ns,  # the server's head comes at once
        first_chunk_ns=first_ns,
        first_answer_ns=first_ns,
        end_ns=request.end_ns,
        # read as a sequence only: of a tuple every token would be an object, and the half of a cell's time
        chunk_deltas_us=cast(tuple[int, ...], deltas),
        token_events=tokens,
        shared_stamps=max(0, tokens - 1) if batched else 0,
        user_stamps=tokens,
        **_ending(request, tokens, limit_ns, max_model_len),
    )


def _ending(request: VirtualRequest, tokens: int, limit_ns: int, max_model_len: int) -> dict[str, Any]:
    """The fields that tell how it ended, in the words of a measured record."""
    spec = request.spec
    if request.fate == "ok":
        return {
            "http_status": 200,
            "output_tokens": tokens,
            "output_tokens_source": "usage",
            "prompt_tokens": spec.prompt_tokens,
            "cached_prompt_tokens": request.sequence.cached_tokens if request.sequence else None,
            "saw_terminator": True,
            "finish_reason": "length",
        }
    if request.fate == "too_long":
        wanted = spec.prompt_tokens + spec.output_tokens
        detail = f"the context of {max_model_len} tokens cannot hold prompt and answer of {wanted} tokens"
        return {"outcome": "error", "error_kind": "context_overflow", "error_detail": detail, "http_status": 400}
    if request.fate == "busy":
        return {"outcome": "error", "error_kind": "overloaded", "error_detail": BUSY, "http_status": 503}
    counted = {
        "http_status": 200,
        "output_tokens": tokens or None,
        "output_tokens_source": "estimated" if tokens else None,  # the server's count never came
    }
    if request.fate == "timeout":
        detail = f"no complete answer within {limit_ns / 1e9:g} s"
        return {**counted, "outcome": "error", "error_kind": "timeout", "error_detail": detail}
    return {**counted, "outcome": "cancelled", "error_kind": "cancelled", "error_detail": "cut at the end of the run"}
