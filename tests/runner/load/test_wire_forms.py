"""One answer in every form that HTTP/1.1 allows for it, over real sockets: the client reads the same from all."""

import asyncio
import contextlib

import httpx
import pytest

from runner.load.client import Result, Slot, Target, run_request
from runner.load.transport import StampedTransport
from runner.protocols.facts import Ask
from tests.support.scripted_http import HEAD, chunk, scripted, serving, take_request

EVENTS = (
    b': ping\n\ndata: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":" there"}}]}\n\n',
    b'data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2}}\n\n',
    b"data: [DONE]\n\n",
)
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
WHOLE = b"".join(EVENTS)
LINES = (
    b'{"message":{"role":"assistant","content":"a word "},"done":false}\n',
    b'{"message":{"role":"assistant","content":"a word "},"done":false}\n',
    b'{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","eval_count":2}\n',
)
FAREWELL = b"0\r\n\r\nHTTP/1.1 408 Request Timeout\r\nContent-Length: 7\r\n\r\nBye bye"


def chunks(size: bytes = b"%x", end: bytes = b"0\r\n\r\n") -> bytes:
    """`size`: how the length of a chunk is written."""
    return b"".join(size % len(event) + b"\r\n" + event + b"\r\n" for event in EVENTS) + end


FORMS: dict[str, tuple[bytes, ...]] = {
    "everything in one write": (CHUNKED + chunks(),),
    "a write for each event": (CHUNKED, *(b"%x\r\n%s\r\n" % (len(e), e) for e in EVENTS), b"0\r\n\r\n"),
    "byte by byte": tuple(bytes([b]) for b in CHUNKED + chunks()),
    "one byte in a chunk": (CHUNKED + b"".join(b"1\r\n%c\r\n" % b for b in WHOLE) + b"0\r\n\r\n",),
    "chunk extensions": (CHUNKED + chunks(b'%x;sig="a;b";last', b"0;end=yes\r\n\r\n"),),
    "sizes with zeros in front": (CHUNKED + chunks(b"%08X", b"000\r\n\r\n"),),
    "trailers": (CHUNKED + chunks(end=b"0\r\nX-Checksum: 1\r\nContent-Length: 5\r\n\r\n"),),
    "the end in pieces": (CHUNKED + chunks(end=b"0"), b"\r", b"\n\r", b"\n"),
    "a length": (HEAD + b"Content-Length: %d\r\n\r\n" % len(WHOLE) + WHOLE,),
    "a length, in pieces": (HEAD + b"Content-Length: %d\r\n\r\n" % len(WHOLE), *EVENTS),
    "more than the length": (HEAD + b"Content-Length: %d\r\n\r\n" % len(WHOLE) + WHOLE + b"data: more\n\n",),
    "until the connection closes": (HEAD + b"Connection: close\r\n\r\n", *EVENTS),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\n", *EVENTS),
    "no reason, odd names": (b"HTTP/1.1 200 \r\nTRANSFER-encoding:CHUNKED\r\n\r\n" + chunks(),),
    "hints before": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + CHUNKED + chunks(),
    ),
    "another content type": (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(),
    ),
    "201": (b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(),),
}


async def answer_of(*writes: bytes) -> Result:
    async with serving(scripted(*writes)) as url, httpx.AsyncClient(transport=StampedTransport(allow=())) as client:
        return await run_request(client, Target(url, limit_s=20.0), Ask("hello", "m", 8), Slot(scheduled_ns=0))


@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_an_answer_changes_nothing(form: str) -> None:
    """Text, tokens, chunks and end of the same stream, whole and without a doubt about it."""
    result = asyncio.run(answer_of(*FORMS[form]))
    record = result.record
    assert (record.outcome, record.error_detail, result.text) == ("ok", None, "Hi there")
    assert (record.token_events, record.output_tokens, record.output_tokens_source) == (2, 2, "usage")
    assert (record.finish_reason, record.saw_terminator, record.malformed_events) == ("stop", True, 0)
    assert record.first_chunk_ns is not None
    assert record.sent_ns is not None
    assert record.end_ns is not None
    assert record.sent_ns < record.first_chunk_ns <= record.end_ns


def test_what_a_server_says_behind_the_end_keeps_nobody_waiting() -> None:
    """A farewell in the same packet as the end of the body, in a dialect without an end mark of its own lines."""

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader)
        writer.write(CHUNKED)
        for line in LINES:
            await asyncio.sleep(0.02)
            writer.write(chunk(line) + (FAREWELL if line is LINES[-1] else b""))
            await writer.drain()
        with contextlib.suppress(asyncio.CancelledError):
            await reader.read()

    async def run() -> Result:
        async with serving(play) as url, httpx.AsyncClient(transport=StampedTransport(allow=())) as client:
            target = Target(url, "ollama_chat", limit_s=60.0)
            return await asyncio.wait_for(run_request(client, target, Ask("hello", "m", 8), Slot(0)), 30)

    result = asyncio.run(run())
    assert (result.record.outcome, result.record.token_events, result.text) == ("ok", 2, "a word a word ")


@pytest.mark.parametrize(
    ("writes", "kind"),
    [
        ((HEAD + b"Content-Length: 34\r\n\r\n<!doctype html><title>Login</title>",), "http_error"),
        ((b"HTTP/1.1 204 No Content\r\n\r\n",), "empty_stream"),
        ((HEAD + b"Content-Length: 0\r\n\r\n",), "empty_stream"),
        ((CHUNKED + b"0\r\n\r\n",), "empty_stream"),
        ((HEAD + b"Content-Length: -1\r\n\r\n",), "http_error"),
        ((HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",), "http_error"),
        ((CHUNKED + b"ffffffffffffffffff\r\n",), "http_error"),
        ((b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",), "http_error"),
        ((b"HTTP/2 200\r\n\r\n",), "http_error"),
        ((b"data: [DONE]\n\n",), "http_error"),
    ],
)
def test_what_is_no_answer_has_its_own_kind(writes: tuple[bytes, ...], kind: str) -> None:
    """A page to log in, nothing, contradictory lengths, a redirect, another protocol."""
    record = asyncio.run(answer_of(*writes)).record
    assert (record.outcome, record.error_kind) == ("error", kind)
    assert record.error_detail
