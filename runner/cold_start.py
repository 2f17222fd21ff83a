"""What the first request to a server paid for: a model load, a compilation. It is no part of any cell. PURE."""

from runner.analysis.request_object import COLD_LOAD_MS
from storage.records import RequestRecord

SLOWER = 5.0  # times the first token of the requests right after
AT_LEAST_MS = 1000.0


def first_token_ms(record: RequestRecord) -> float | None:
    """From sending to the first chunk with text; None without one."""
    if record.first_chunk_ns is None or record.sent_ns is None:
        return None
    return (record.first_chunk_ns - record.sent_ns) / 1e6


def cold_start_note(load_ms: float | None, first_ttft_ms: float | None, warm_ttft_ms: float | None) -> str | None:
    """A sentence for the cell, or None for a server that was warm.

    `load_ms`: what the server itself told of the very first request. A server that tells nothing (any OpenAI-like
    one) is judged by its first tokens: the first request's (from sending) against the best of those right after.
    """
    if load_ms is not None and load_ms > COLD_LOAD_MS:
        return f"the first request loaded the model in {load_ms / 1000:.1f} s, before the warm-up; no figure has it"
    if first_ttft_ms is None or warm_ttft_ms is None:
        return None
    if first_ttft_ms - warm_ttft_ms < AT_LEAST_MS or first_ttft_ms < SLOWER * warm_ttft_ms:
        return None
    return (
        f"the first request waited {first_ttft_ms / 1000:.1f} s for its first token and the next ones "
        f"{warm_ttft_ms / 1000:.1f} s, as when a model is loaded; that was before the warm-up, and no figure has it"
    )
