"""text-generation-inference's own dialect: one token per event, the last one with `generated_text` and `details`."""

from collections.abc import Sequence
from typing import Any

from runner.protocols.answer import Answer
from runner.protocols.channels import text_in
from runner.protocols.counts import Counts, part, told_counts
from runner.protocols.facts import Ask, ServerParams, StampedRead, StreamFacts
from runner.protocols.reading import read_answer

PATH = "/generate_stream"

Json = dict[str, Any]


def build_body(ask: Ask, params: ServerParams) -> dict[str, object]:
    """The JSON body of one streamed request. The server has one model, so none is named."""
    parameters: dict[str, object] = {"max_new_tokens": ask.max_tokens, "details": True}
    if ask.hold_length and params.ignore_eos:
        parameters["ignore_eos_token"] = True
    if ask.seed is not None:
        parameters["seed"] = ask.seed
    if ask.temperature:  # the server refuses 0; without one it is greedy
        parameters |= {"temperature": ask.temperature, "do_sample": True}
    return {"inputs": ask.prompt, "parameters": parameters}


def read_stream(reads: Sequence[StampedRead], *, content_type: str | None, clean_end: bool) -> StreamFacts:
    """The facts of one answer of status 200; never raises. `clean_end`: the body ended as HTTP says it must."""
    return read_answer(reads, _take, _counts, content_type=content_type, clean_end=clean_end)


def _take(chunk: Json, stamp: int, answer: Answer) -> None:
    token = part(chunk, "token")
    if token.get("special") is not True:  # the end token is no text
        answer.add(stamp, text_in(token.get("text")))
    details = part(chunk, "details")
    if details:
        answer.usage = details
        answer.note_finish(details.get("finish_reason"))
    whole_text = chunk.get("generated_text")
    if isinstance(whole_text, str):
        answer.ended = True
        if not answer.stamps and not token:  # a server that answered without streaming
            answer.add(stamp, whole_text)


def _counts(details: Json, timings: Json) -> Counts:
    return told_counts(details.get("generated_tokens"), details.get("input_length"))
