"""One request, from its dialect's bytes to its record: every failure is a record, and the key stays secret."""

import asyncio
import json
from dataclasses import asdict, replace
from typing import Any

import httpx
import pytest

from runner.load import backlog as backlog_module
from runner.load import client as client_module
from runner.load.backlog import Backlog
from runner.load.client import Answer, Result, Slot, Target, encode_ask, read_answer, run_request
from runner.load.exchange import Exchange
from runner.load.transport import Collect, StampedTransport
from runner.protocols.facts import Ask
from tests.support.scripted_http import CHUNKED_HEAD, HEAD, Play, chunk, scripted, serving, take_request

ASK = Ask("hello", "m", 8)
KEY = "sk-very-secret-0123456789"


def event(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


STREAM = (CHUNKED_HEAD, chunk(event("Hi")), chunk(event(" there", "stop")), chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")


async def ask_one(play: Play, **changes: object) -> Result:
    """The result of one request to a server that runs `play`."""
    async with serving(play) as url, httpx.AsyncClient(transport=StampedTransport(allow=())) as client:
        target = replace(Target(url), **changes)  # type: ignore[arg-type]
        return await run_request(client, target, ASK, Slot(scheduled_ns=0))


def test_a_good_stream_becomes_a_record() -> None:
    """Text, stamps on the cell's clock, and what was asked stand in the record; all in the order of time."""

    async def run() -> tuple[Result, int]:
        async with (
            serving(scripted(*STREAM, gap_s=0.02)) as url,
            httpx.AsyncClient(transport=StampedTransport(allow=())) as client,
        ):
            clock = asyncio.get_running_loop().time
            origin = round(clock() * 1e9)
            slot = Slot(origin + 5, origin, cell=3, request=7, class_name="chat", prompt_tokens_asked=11)
            return await run_request(client, Target(url), replace(ASK, priority=2), slot), round(clock() * 1e9) - origin

    result, took_ns = asyncio.run(run())
    record = result.record
    assert (record.outcome, record.error_kind, result.text, record.finish_reason) == ("ok", None, "Hi there", "stop")
    assert (record.cell, record.request, record.class_name, record.priority) == (3, 7, "chat", 2)
    assert (record.prompt_tokens_asked, record.output_tokens_asked, record.scheduled_ns) == (11, 8, 5)
    assert record.sent_ns is not None
    assert record.first_byte_ns is not None
    assert record.first_chunk_ns is not None
    assert record.end_ns is not None
    assert 0 < record.sent_ns < record.first_byte_ns < record.first_chunk_ns < record.end_ns < took_ns
    assert record.token_events == 2
    assert record.chunk_deltas_us[0] > 10_000
    assert (record.http_status, record.reused_connection, record.resends) == (200, False, 0)


@pytest.mark.parametrize(
    ("status", "header", "message", "kind", "retry_after_s"),
    [
        ("404 Not Found", "", "model 'm' not found", "model_not_found", None),
        ("401 Unauthorized", "", "missing key", "unauthorized", None),
        ("429 Too Many Requests", "Retry-After: 2\r\n", "slow down", "rate_limited", 2.0),
        ("503 Service Unavailable", "", "queue is full", "overloaded", None),
        ("500 Internal Server Error", "", "boom", "server_error", None),
    ],
)
def test_http_errors_are_classed_records(
    status: str, header: str, message: str, kind: str, retry_after_s: float | None
) -> None:
    """A refusal is a record with its kind, the server's words and the wait it asks for."""
    body = json.dumps({"error": {"message": message}})
    answer = f"HTTP/1.1 {status}\r\n{header}Content-Length: {len(body)}\r\n\r\n{body}".encode()
    record = asyncio.run(ask_one(scripted(answer))).record
    assert (record.outcome, record.error_kind, record.retry_after_s) == ("error", kind, retry_after_s)
    assert record.http_status == int(status[:3])
    assert message in (record.error_detail or "")
    assert record.sent_ns is not None
    assert record.end_ns is not None


def test_a_refusal_whose_body_breaks_off_is_still_a_refusal() -> None:
    """503 with half a body is overloaded, not truncated."""
    answer = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 500\r\n\r\nqueue is"
    record = asyncio.run(ask_one(scripted(answer))).record
    assert (record.error_kind, record.http_status) == ("overloaded", 503)


def test_a_broken_stream_keeps_its_text_and_stamps() -> None:
    """A stream cut in the middle is `truncated` with the text up to there."""
    result = asyncio.run(ask_one(scripted(*STREAM[:2])))
    assert (result.record.outcome, result.record.error_kind, result.text) == ("error", "truncated", "Hi")
    assert result.record.token_events == 1


def test_a_stalled_stream_is_a_timeout_with_what_came() -> None:
    """The user's limit for a whole request ends it; what arrived stays."""

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader)
        writer.write(STREAM[0] + STREAM[1])
        await reader.read()

    result = asyncio.run(ask_one(play, limit_s=0.2))
    assert (result.record.error_kind, result.text) == ("timeout", "Hi")


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/latest", "http://127.0.0.1:1", "ftp://127.0.0.1", "http://[::bad", "http://a b"]
)
def test_unreachable_targets_are_connect_records(url: str) -> None:
    """Nobody there, a forbidden address, nonsense: a record, never an exception."""

    async def run() -> Result:
        async with httpx.AsyncClient(transport=StampedTransport(allow=())) as client:
            return await run_request(client, Target(url), ASK, Slot(scheduled_ns=0))

    record = asyncio.run(run()).record
    assert (record.outcome, record.error_kind) == ("error", "connect")
    assert record.error_detail
    assert record.sent_ns is None


def test_a_request_that_our_own_run_cuts_is_a_cancelled_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelling the task gives a `cancelled` record with what had arrived, not an exception."""
    collects: list[Collect] = []

    def collect(**options: Any) -> Collect:  # noqa: ANN401 - passed on
        collects.append(Collect(**options))
        return collects[-1]

    monkeypatch.setattr(client_module, "Collect", collect)

    async def run() -> Result:
        async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await take_request(reader)
            writer.write(STREAM[0] + STREAM[1])
            await reader.read()

        async with serving(play) as url, httpx.AsyncClient(transport=StampedTransport(allow=())) as client:
            task = asyncio.create_task(run_request(client, Target(url), ASK, Slot(scheduled_ns=0)))
            while not collects or not collects[0].exchange.parts:
                await asyncio.sleep(0)
            task.cancel()
            return await task

    result = asyncio.run(run())
    assert (result.record.outcome, result.record.error_kind) == ("cancelled", "cancelled")
    assert result.text == "Hi"


def test_the_key_is_sent_and_appears_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of the environment goes out as a bearer token; a server that echoes it can't bring it into a record."""
    monkeypatch.setenv("TEST_LLM_KEY", KEY + "\n")
    heads: list[bytes] = []

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await take_request(reader))[0])
        body = f"the key {KEY} is wrong".encode()
        writer.write(b"HTTP/1.1 401 U\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()

    result = asyncio.run(ask_one(play, api_key_env="TEST_LLM_KEY"))
    assert f"authorization: bearer {KEY}\r\n".encode() in heads[0].lower()
    assert result.record.error_kind == "unauthorized"
    assert KEY not in json.dumps(asdict(result.record))
    assert KEY not in repr(Target("http://x", api_key_env="TEST_LLM_KEY"))


def test_a_key_with_a_line_break_inside_is_a_record_that_does_not_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged key can't smuggle a header in, and its text is in no message."""
    monkeypatch.setenv("TEST_LLM_KEY", "abc\r\nX-Evil: 1")
    record = asyncio.run(ask_one(scripted(*STREAM), api_key_env="TEST_LLM_KEY")).record
    assert record.error_kind == "connect"
    assert "Evil" not in (record.error_detail or "")


def test_no_compression_is_asked_for() -> None:
    """Compression would merge tokens into one read."""
    _, payload = encode_ask(Target("http://127.0.0.1:8000"), ASK)
    assert b"\r\nAccept-Encoding: identity\r\n" in payload


def test_bytes_that_are_no_http_are_a_record() -> None:
    """Whatever speaks on that port, the record says http_error."""
    assert asyncio.run(ask_one(scripted(b"hello\r\n\r\n"))).record.error_kind == "http_error"


def test_the_backlog_hands_over_every_answer_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that end together are read one after the other; beyond the byte limit `add` itself reads."""

    def answer(text: str) -> Answer:
        headers = [(b"content-type", b"text/event-stream")]
        exchange = Exchange(sent_ns=1, end_ns=9, status=200, complete=True, headers=headers)
        exchange.parts.append(event(text, "stop") + b"data: [DONE]\n\n")
        exchange.stamps.append(5)
        exchange.counts.append(1)
        return Answer(Target("http://x"), ASK, Slot(0), exchange)

    async def run() -> int:
        backlog = Backlog(lambda _, result: texts.append(result.text))
        for i in range(50):
            backlog.add(answer(f"{i}"))
        read_by_add = len(texts)
        await backlog.drain()
        return read_by_add

    texts: list[str] = []
    assert asyncio.run(run()) == 0
    assert texts == [str(i) for i in range(50)]
    texts.clear()
    monkeypatch.setattr(backlog_module, "MAX_PENDING_BYTES", 10 * answer("0").exchange.body_bytes)
    assert asyncio.run(run()) >= 39
    assert texts == [str(i) for i in range(50)]


def test_compressed_answers_in_a_foreign_encoding_are_records() -> None:
    """An encoding that was not asked for is http_error with the encoding's name."""
    answer = HEAD + b"Content-Encoding: zstd\r\nContent-Length: 2\r\n\r\nxx"
    record = asyncio.run(ask_one(scripted(answer))).record
    assert record.error_kind == "http_error"
    assert "zstd" in (record.error_detail or "")


def test_read_answer_of_nothing_is_an_error_record() -> None:
    """An answer that never got a byte is read without an exception."""
    record = read_answer(Answer(Target("http://x"), ASK, Slot(0), error=("connect", "nobody there"))).record
    assert (record.outcome, record.error_kind, record.error_detail) == ("error", "connect", "nobody there")
