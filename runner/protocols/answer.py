"""What has come of one answer so far, and the facts it amounts to. Shared by every dialect."""

from collections.abc import Sequence
from dataclasses import replace
from operator import eq
from typing import Any

from runner.protocols.channels import ToolPiece
from runner.protocols.counts import Counts
from runner.protocols.facts import StreamFacts, ToolCall

Json = dict[str, Any]


class Answer:
    """Collects chunks in order. Dialects fill `finish_reason`, `usage`, `timings` and `ended` as they meet them."""

    __slots__ = (
        "ended",
        "error",
        "finish_reason",
        "first_answer_ns",
        "malformed",
        "reasoning",
        "stamps",
        "text",
        "timings",
        "tools",
        "usage",
    )

    def __init__(self) -> None:
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.tools: list[ToolPiece] = []
        self.stamps: list[int] = []
        self.first_answer_ns: int | None = None
        self.finish_reason: str | None = None
        self.usage: Json = {}  # the server's token counts, as last told
        self.timings: Json = {}
        self.malformed = 0
        self.ended = False  # the dialect's own end mark was seen
        self.error: tuple[str, str] | None = None  # (kind, detail), the first that the server told

    def add(self, stamp: int, text: str, reasoning: str = "", tools: Sequence[ToolPiece] = ()) -> None:
        """One event's generated text, by channel.

        An event counts once, whatever it carries, and not at all if it carries nothing.
        """
        if text:
            self.text.append(text)
            if self.first_answer_ns is None:
                self.first_answer_ns = stamp
        elif not (reasoning or tools):
            return
        if reasoning:
            self.reasoning.append(reasoning)
        self.tools += tools
        self.stamps.append(stamp)

    def add_texts(self, stamps: Sequence[int], texts: Sequence[str]) -> None:
        """Events that carry answer text and nothing else, one text for each stamp."""
        self.text += texts
        self.stamps += stamps
        if self.first_answer_ns is None:
            self.first_answer_ns = stamps[0]

    def note_usage(self, usage: object) -> None:
        """The last count wins (some servers send a running one); a zero never replaces a count."""
        if isinstance(usage, dict) and (usage.get("completion_tokens") or not self.usage):
            self.usage = usage

    def note_finish(self, reason: object) -> None:
        """`stop`, `length`, `tool_calls` ... in the words of the OpenAI dialect."""
        if isinstance(reason, str) and reason:
            # a name, whatever a server puts there: short, and fit to be stored
            self.finish_reason = _FINISH_WORDS.get(reason, reason[:40].encode("utf-8", "replace").decode())


# other dialects' words for the same reasons
_FINISH_WORDS = {"eos": "stop", "word": "stop", "eos_token": "stop", "stop_sequence": "stop", "limit": "length"}


def facts_of(answer: Answer, counts: Counts, *, clean_end: bool, streamed: bool) -> StreamFacts:
    """`clean_end`: the body ended as HTTP says it must. `streamed`: it was a stream, not one JSON answer."""
    stamps = answer.stamps
    if counts.output_tokens is None and stamps:
        counts = replace(counts, output_tokens=len(stamps), output_tokens_source="estimated")
    error_kind, error_detail = _error_of(answer, clean_end=clean_end) or (None, None)
    return StreamFacts(
        text=_whole_text(answer.text),
        reasoning_text=_whole_text(answer.reasoning),
        chunk_stamps_ns=stamps,
        shared_stamps=sum(map(eq, stamps, stamps[1:])),
        first_answer_ns=answer.first_answer_ns,
        output_tokens=counts.output_tokens,
        output_tokens_source=counts.output_tokens_source,
        reasoning_tokens=counts.reasoning_tokens,
        prompt_tokens=counts.prompt_tokens,
        cached_prompt_tokens=counts.cached_prompt_tokens,
        load_ms=counts.load_ms,
        finish_reason=answer.finish_reason,
        malformed_events=answer.malformed,
        saw_terminator=answer.ended and streamed,
        error_kind=error_kind,
        error_detail=error_detail,
        tool_calls=_whole_calls(answer.tools),
    )


def _error_of(answer: Answer, *, clean_end: bool) -> tuple[str, str] | None:
    """What the server told comes first; then a stream that broke off; then one without any generated text.

    A connection that drops after the answer's own end (end mark or finish reason) cost nothing: no error.
    """
    if answer.error:
        return answer.error
    if answer.finish_reason in ("error", "abort"):
        return "server_error", f"the server ended the answer with finish_reason {answer.finish_reason!r}"
    if not clean_end and not answer.ended and answer.finish_reason is None:
        return "truncated", f"the connection closed in the middle of the answer, after {len(answer.stamps)} chunks"
    if not answer.stamps:
        unreadable = f"; {answer.malformed} events could not be read" if answer.malformed else ""
        return "empty_stream", f"the answer ended without any generated text{unreadable}"
    return None


def _whole_calls(pieces: Sequence[ToolPiece]) -> tuple[ToolCall, ...]:
    """The calls in order of their first piece, the pieces of one number joined."""
    by_call: dict[object, list[ToolPiece]] = {}
    for at, piece in enumerate(pieces):
        by_call.setdefault((at, None) if piece[0] is None else piece[0], []).append(piece)
    return tuple(
        ToolCall(name=_whole_text([p[1] for p in of_one]), arguments=_whole_text([p[2] for p in of_one]))
        for of_one in by_call.values()
    )


def _whole_text(parts: list[str]) -> str:
    """The parts joined. JSON may carry the two halves of a character in two events; a half alone becomes U+FFFD."""
    text = "".join(parts)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
