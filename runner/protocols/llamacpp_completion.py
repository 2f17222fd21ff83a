"""llama.cpp's own completion dialect: no choices and no [DONE]; the last event has `stop: true` and the timings."""

from collections.abc import Sequence
from typing import Any

from runner.protocols.answer import Answer
from runner.protocols.channels import text_in
from runner.protocols.counts import Counts, openai_counts, told_counts
from runner.protocols.facts import Ask, ServerParams, StampedRead, StreamFacts
from runner.protocols.openai_body import sampling_fields
from runner.protocols.reading import read_answer

PATH = "/completion"

Json = dict[str, Any]


def build_body(ask: Ask, params: ServerParams) -> dict[str, object]:
    """The JSON body of one streamed request. The server has one model, so none is named."""
    body: dict[str, object] = {"prompt": ask.prompt, "n_predict": ask.max_tokens, "stream": True}
    if ask.hold_length and params.ignore_eos:
        body["ignore_eos"] = True
    if params.cache_prompt:
        body["cache_prompt"] = False
    return body | sampling_fields(ask)


def read_stream(reads: Sequence[StampedRead], *, content_type: str | None, clean_end: bool) -> StreamFacts:
    """The facts of one answer of status 200; never raises. `clean_end`: the body ended as HTTP says it must."""
    return read_answer(reads, _take, _counts, content_type=content_type, clean_end=clean_end)


def _take(chunk: Json, stamp: int, answer: Answer) -> None:
    answer.add(stamp, text_in(chunk.get("content")))
    if "tokens_predicted" in chunk:  # a running count
        answer.usage = chunk
    if isinstance(chunk.get("timings"), dict):
        answer.timings = chunk["timings"]
    if chunk.get("stop") is True:
        answer.ended = True
        # versions before 2025 have no stop_type but flags
        answer.note_finish(chunk.get("stop_type") or ("limit" if chunk.get("stopped_limit") else "eos"))


def _counts(last: Json, timings: Json) -> Counts:
    if not last:
        return openai_counts({}, timings)
    return told_counts(last.get("tokens_predicted"), last.get("tokens_evaluated"), cached=timings.get("cache_n"))
