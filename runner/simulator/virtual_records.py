"""What virtual time gave -> the rows that measured requests leave. No time of theirs is a kernel's, and they say so."""

from dataclasses import replace
from typing import Any

import numpy as np

from runner.load.generator import unsent_record
from runner.load.record import MAX_DELTA_US
from runner.simulator.server import BUSY
from runner.simulator.virtual_engine import Ints, VirtualRequest
from runner.simulator.virtual_time import VirtualCell
from storage.records import RequestRecord


def records_of(run: VirtualCell, cell: int, limit_ns: int, max_model_len: int) -> list[RequestRecord]:
    """The requests of one cell as records, in the order they ended. `user_stamps` counts every token: a record of
    virtual time claims no kernel stamp.
    """
    return [_record(request, cell, limit_ns, max_model_len) for request in run.requests]


def deltas_us(times_ns: Ints) -> tuple[int, ...]:
    """Steps in whole us, rounded as `runner.load.record.deltas_us` does: their sums never drift."""
    if not len(times_ns):
        return ()
    steps = np.diff((times_ns - times_ns[0] + 500) // 1000)
    return tuple(np.minimum(steps, MAX_DELTA_US).tolist())


def _record(request: VirtualRequest, cell: int, limit_ns: int, max_model_len: int) -> RequestRecord:
    if request.sent_ns is None:
        detail = (
            "not sent: the run was stopped"
            if request.fate == "stopped"
            else "not sent: the class's cap on running requests held it until the end"
        )
        return unsent_record(request.spec, request.scheduled_ns, cell, detail)
    times = request.times_ns
    first_ns = int(times[0]) if len(times) else None
    sent = replace(
        unsent_record(request.spec, request.scheduled_ns, cell, ""),
        sent_ns=request.sent_ns,
        first_byte_ns=request.sent_ns,  # the server's head comes at once
        first_chunk_ns=first_ns,
        first_answer_ns=first_ns,
        end_ns=request.end_ns,
        chunk_deltas_us=deltas_us(times),
        token_events=len(times),
        shared_stamps=int(np.count_nonzero(np.diff(times) == 0)),
        user_stamps=len(times),
    )
    return replace(sent, **_ending(request, len(times), limit_ns, max_model_len))


def _ending(request: VirtualRequest, tokens: int, limit_ns: int, max_model_len: int) -> dict[str, Any]:
    """The fields that tell how it ended, in the words of a measured record."""
    spec = request.spec
    if request.fate == "ok":
        return {
            "outcome": "ok",
            "error_kind": None,
            "error_detail": None,
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
