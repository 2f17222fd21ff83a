"""OpenAI text completions: the older dialect of the same servers, without a chat template around the prompt."""

from collections.abc import Sequence
from typing import Any

from runner.protocols.answer import Answer
from runner.protocols.channels import reasoning_in, text_in
from runner.protocols.counts import openai_counts, part
from runner.protocols.facts import Ask, ServerParams, StampedRead, StreamFacts
from runner.protocols.openai_body import openai_fields
from runner.protocols.openai_chat import take_extras
from runner.protocols.reading import read_answer

PATH = "/v1/completions"

Json = dict[str, Any]


def build_body(ask: Ask, params: ServerParams) -> dict[str, object]:
    """The JSON body of one streamed request. This dialect only knows `max_tokens` (16 when it is left out)."""
    return {"prompt": ask.prompt, **openai_fields(ask, params, "max_tokens")}


def read_stream(reads: Sequence[StampedRead], *, content_type: str | None, clean_end: bool) -> StreamFacts:
    """The facts of one answer of status 200; never raises. `clean_end`: the body ended as HTTP says it must."""
    return read_answer(reads, _take, openai_counts, content_type=content_type, clean_end=clean_end)


def _take(chunk: Json, stamp: int, answer: Answer) -> None:
    take_extras(chunk, answer)
    choices = chunk.get("choices")
    text = reasoning = ""
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict):
            answer.note_finish(choice.get("finish_reason"))
            text += text_in(choice.get("text")) or text_in(part(choice, "delta").get("content"))
            reasoning += reasoning_in(choice)
    answer.add(stamp, text, reasoning)
