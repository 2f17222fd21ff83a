"""Ollama's own chat dialect: JSON lines, the last one with `done: true` and the counts."""

from collections.abc import Sequence
from typing import Any

from runner.protocols.answer import Answer
from runner.protocols.channels import reasoning_in, text_in, tool_pieces
from runner.protocols.counts import Counts, part, told_counts
from runner.protocols.facts import Ask, ServerParams, StampedRead, StreamFacts
from runner.protocols.openai_body import sampling_fields
from runner.protocols.reading import read_answer

PATH = "/api/chat"

Json = dict[str, Any]

# Ollama throws a model out of memory after five idle minutes; the next request would pay for loading it again.
_KEEP_ALIVE = "1h"


def build_body(ask: Ask, params: ServerParams) -> dict[str, object]:
    """The JSON body of one streamed request. Ollama cannot hold a length: it has no way to ignore the end token."""
    return {"messages": [{"role": "user", "content": ask.prompt}], **ollama_fields(ask)}


def read_stream(reads: Sequence[StampedRead], *, content_type: str | None, clean_end: bool) -> StreamFacts:
    """The facts of one answer of status 200; never raises. `clean_end`: the body ended as HTTP says it must."""
    return read_answer(reads, _take, ollama_counts, content_type=content_type, clean_end=clean_end)


def _take(chunk: Json, stamp: int, answer: Answer) -> None:
    message = part(chunk, "message")
    answer.add(stamp, text_in(message.get("content")), reasoning_in(message), tool_pieces(message))
    take_done(chunk, answer)


def take_done(chunk: Json, answer: Answer) -> None:
    """The last line of both Ollama dialects: why it ended, and the counts."""
    if chunk.get("done") is True:
        answer.ended = True
        answer.note_finish(chunk.get("done_reason"))
        answer.usage = chunk


def ollama_fields(ask: Ask) -> dict[str, object]:
    """Everything but the prompt, for both Ollama dialects."""
    body: dict[str, object] = {
        "stream": True,
        "keep_alive": _KEEP_ALIVE,
        "options": {"num_predict": ask.max_tokens, **sampling_fields(ask)},
    }
    return body if ask.model is None else {"model": ask.model, **body}


def ollama_counts(last: Json, timings: Json) -> Counts:
    """From the last line. `prompt_eval_count` is missing where the whole prompt was cached by older versions."""
    return told_counts(last.get("eval_count"), last.get("prompt_eval_count"), load_ns=last.get("load_duration"))
