"""One measured request: when its user may go on, and what its record is."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from runner.load.client import Target
from runner.load.event_loop import new_event_loop
from runner.load.sender import Pending, Sender, SenderFacts
from runner.load.transport import StampedTransport
from runner.load.workload import PromptScale, RequestSpec
from storage.records import RequestRecord
from tests.support.paced_sse import paced_server
from tests.support.posting_server import models, server

SPEC = RequestSpec(4, "chat", 0, 0, 12, 30, 99, 4)


def with_sender(url: str, use: Callable[[Sender], Awaitable[RequestRecord | Pending]]) -> RequestRecord | Pending:
    async def main() -> RequestRecord | Pending:
        transport = StampedTransport()
        async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
            facts = SenderFacts(Target(url), "m", PromptScale(), {})
            return await use(Sender(client, transport, facts))

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main())


@pytest.mark.skipif(sys.platform != "linux", reason="the server is built on epoll")
def test_a_streamed_answer_frees_its_user_before_it_is_read(tmp_path: Path) -> None:
    """`send` gives a future that is not done yet; its record then has every token, and the slot it was sent for."""

    async def use(sender: Sender) -> RequestRecord:
        scheduled_ns = time.monotonic_ns()
        given = await sender.send(SPEC, 3, scheduled_ns, scheduled_ns - 1000)
        assert isinstance(given, asyncio.Future)
        assert not given.done()
        return await given

    with paced_server(tmp_path, rate=200, ttft_ms=5) as paced:
        record = with_sender(paced.url, use)
    assert isinstance(record, RequestRecord)
    assert (record.outcome, record.output_tokens) == ("ok", 30)
    assert (record.cell, record.request, record.class_name, record.scheduled_ns) == (3, 4, "chat", 1000)
    assert record.prompt_tokens == 12


def test_a_refusal_inside_the_stream_is_known_before_its_user_goes_on() -> None:
    """Status 200 and an error as the only event: the record itself comes, so that a closed-loop user can pause."""
    refusal = 'data: {"error": {"message": "no slot available", "code": 503}}\n\n'

    async def use(sender: Sender) -> RequestRecord | Pending:
        return await sender.send(SPEC, 0, time.monotonic_ns(), 0)

    with server({"/v1/models": models("m")}, lambda *_: (200, refusal)) as (url, _):
        record = with_sender(url, use)
    assert isinstance(record, RequestRecord)
    assert record.outcome == "error"


def test_a_server_that_is_gone_gives_a_record_not_an_exception() -> None:
    """Nobody listens: error kind connect."""

    async def use(sender: Sender) -> RequestRecord | Pending:
        return await sender.send(SPEC, 0, time.monotonic_ns(), 0)

    with server({}, lambda *_: (200, "")) as (url, _):
        pass
    record = with_sender(url, use)
    assert isinstance(record, RequestRecord)
    assert (record.outcome, record.error_kind) == ("error", "connect")
