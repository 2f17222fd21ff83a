"""Ollama's own completion dialect: JSON lines with `response`, the last one with `done: true` and the counts."""

from collections.abc import Sequence
from typing import Any

from runner.protocols.answer import Answer
from runner.protocols.channels import reasoning_in, text_in
from runner.protocols.facts import Ask, ServerParams, StampedRead, StreamFacts
from runner.protocols.ollama_chat import ollama_counts, ollama_fields, take_done
from runner.protocols.reading import read_answer

PATH = "/api/generate"

Json = dict[str, Any]


def build_body(ask: Ask, params: ServerParams) -> dict[str, object]:
    """The JSON body of one streamed request. Ollama cannot hold a length: it has no way to ignore the end token."""
    return {"prompt": ask.prompt, **ollama_fields(ask)}


def read_stream(reads: Sequence[StampedRead], *, content_type: str | None, clean_end: bool) -> StreamFacts:
    """The facts of one answer of status 200; never raises. `clean_end`: the body ended as HTTP says it must."""
    return read_answer(reads, _take, ollama_counts, content_type=content_type, clean_end=clean_end)


def _take(chunk: Json, stamp: int, answer: Answer) -> None:
    answer.add(stamp, text_in(chunk.get("response")), reasoning_in(chunk))
    take_done(chunk, answer)
