"""The bytes of an answer, as vLLM words them: stream events, whole JSON bodies, HTTP frames. Pure.

One token is one word. All words have one length, so that a stream's event can be put together from ready parts.
"""

import json

WORDS = (
    b"batch", b"cache", b"chunk", b"clock", b"count", b"curve", b"drain", b"frame", b"gauge", b"graph", b"index",
    b"layer", b"limit", b"logit", b"model", b"phase", b"pitch", b"point", b"prior", b"queue", b"quiet", b"range",
    b"ratio", b"share", b"shard", b"slice", b"slots", b"space", b"speed", b"split", b"stack", b"state", b"steps",
    b"table", b"tempo", b"timer", b"token", b"topic", b"trace", b"train", b"units", b"usual", b"value", b"watch",
    b"width", b"words", b"yield",
)  # fmt: skip
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nserver: goodput-engine\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 413: "Content Too Large",
           503: "Service Unavailable"}  # fmt: skip


def word(order: int, index: int) -> bytes:
    """Token `index` (from 0) of answer `order`: the same word whenever it is asked for."""
    return WORDS[(order * 31 + index * 7) % len(WORDS)]


def text(order: int, tokens: int) -> str:
    """The whole answer: as many words as tokens."""
    return b" ".join(word(order, i) for i in range(tokens)).decode()


def http_reply(status: int, body: bytes, content_type: str = "application/json") -> bytes:
    """A whole HTTP/1.1 reply."""
    head = f"HTTP/1.1 {status} {REASONS[status]}\r\nserver: goodput-engine\r\ncontent-length: {len(body)}\r\n"
    return f"{head}content-type: {content_type}\r\n\r\n".encode() + body


def http_chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Wording:
    """One answer's identity and its ready-made parts: `event(index)` is the hot path."""

    def __init__(self, chat: bool, model: str, order: int, created_s: int) -> None:
        self.chat = chat
        self.model = model
        self.order = order
        self.created_s = created_s
        self.id = f"{'chatcmpl' if chat else 'cmpl'}-{order:016x}"
        self._parts = _event_parts(self._event([self._choice("\0", None)]))

    def event(self, index: int) -> bytes:
        """A middle token's stream event, framed as one HTTP chunk."""
        before, after = self._parts
        return before + word(self.order, index) + after

    def role(self, usage: dict[str, object] | None) -> bytes:
        """The event with the role and no text that opens a chat stream; nothing on completions."""
        if not self.chat:
            return b""
        choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        return http_chunk(_sse(self._event([choice], usage)))

    def token(self, index: int, reason: str | None, usage: dict[str, object] | None) -> bytes:
        """Any token's event: the first, the last (`reason`), or one that carries usage."""
        said = ("" if index == 0 else " ") + word(self.order, index).decode()
        return http_chunk(_sse(self._event([self._choice(said, reason)], usage)))

    def end(self, usage: dict[str, object] | None) -> bytes:
        """What follows the last token: the usage event if asked for, [DONE], the end of the chunked body."""
        tail = _sse(self._event([], usage)) if usage else b""
        return http_chunk(tail + b"data: [DONE]\n\n") + b"0\r\n\r\n"

    def whole(self, tokens: int, reason: str, usage: dict[str, object]) -> bytes:
        """The JSON body of an answer that was not streamed."""
        said = text(self.order, tokens)
        carrier: dict[str, object] = (
            {"message": {"role": "assistant", "content": said}} if self.chat else {"text": said}
        )
        choice = {"index": 0, **carrier, "logprobs": None, "finish_reason": reason, "stop_reason": None}
        kind = "chat.completion" if self.chat else "text_completion"
        return _json(self._event([choice], usage) | {"object": kind})

    def _choice(self, said: str, reason: str | None) -> dict[str, object]:
        carrier: dict[str, object] = {"delta": {"content": said}} if self.chat else {"text": said}
        return {"index": 0, **carrier, "logprobs": None, "finish_reason": reason, "stop_reason": None}

    def _event(self, choices: list[dict[str, object]], usage: dict[str, object] | None = None) -> dict[str, object]:
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        event = {"id": self.id, "object": kind, "created": self.created_s, "model": self.model, "choices": choices}
        return event | {"usage": usage} if usage else event


def usage_of(prompt_tokens: int, output_tokens: int, cached_tokens: int = 0) -> dict[str, object]:
    """The usage object."""
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + output_tokens,
        "completion_tokens": output_tokens,
        "prompt_tokens_details": {"cached_tokens": cached_tokens},
    }


def _event_parts(event: dict[str, object]) -> tuple[bytes, bytes]:
    """The framed event before and after its word, which is one space and one of WORDS."""
    before, after = _sse(event).split(b"\\u0000")
    size = len(before) + 1 + len(WORDS[0]) + len(after)
    return b"%x\r\n%b " % (size, before), after + b"\r\n"


def _sse(event: dict[str, object]) -> bytes:
    return b"data: " + _json(event) + b"\n\n"


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
