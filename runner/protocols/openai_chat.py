"""OpenAI chat completions, the dialect that nearly every server speaks."""

from collections.abc import Sequence
from typing import Any

from runner.protocols.answer import Answer
from runner.protocols.channels import ToolPiece, reasoning_in, text_in, tool_pieces
from runner.protocols.counts import openai_counts
from runner.protocols.facts import Ask, ServerParams, StampedRead, StreamFacts
from runner.protocols.openai_body import openai_fields
from runner.protocols.reading import read_answer

PATH = "/v1/chat/completions"

Json = dict[str, Any]


def build_body(ask: Ask, params: ServerParams) -> dict[str, object]:
    """The JSON body of one streamed request."""
    message = {"role": "user", "content": ask.prompt}
    return {"messages": [message], **openai_fields(ask, params, params.max_tokens_name)}


def read_stream(reads: Sequence[StampedRead], *, content_type: str | None, clean_end: bool) -> StreamFacts:
    """The facts of one answer of status 200; never raises. `clean_end`: the body ended as HTTP says it must."""
    return read_answer(reads, _take, openai_counts, content_type=content_type, clean_end=clean_end)


def _take(chunk: Json, stamp: int, answer: Answer) -> None:
    take_extras(chunk, answer)
    choices = chunk.get("choices")
    if not isinstance(choices, list):
        return
    text = reasoning = ""
    tools: list[ToolPiece] = []
    for choice in choices:
        if not isinstance(choice, dict):
            continue
        answer.note_finish(choice.get("finish_reason"))
        answer.note_usage(choice.get("usage"))
        # a whole message behind its own pieces is a repeat, as some servers send it with an empty last delta
        message = choice.get("delta") or (None if answer.stamps else choice.get("message"))
        if not isinstance(message, dict):
            text += text_in(choice.get("text"))  # servers that answer both endpoints in the older form
            continue
        text += text_in(message.get("content")) + text_in(message.get("refusal"))
        if len(message) > 1 or not isinstance(message.get("content"), str):  # else `content` alone, as nearly always
            reasoning += reasoning_in(message)
            tools += tool_pieces(message)
    answer.add(stamp, text, reasoning, tools)


def take_extras(chunk: Json, answer: Answer) -> None:
    """Usage and llama.cpp's timings, which may stand in any chunk, with or without choices."""
    if chunk.get("usage"):
        answer.note_usage(chunk["usage"])
    timings = chunk.get("timings")
    if isinstance(timings, dict):
        answer.timings = timings
