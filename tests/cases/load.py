"""The real generator and the real client against a server of the test, for the cases about load."""

import asyncio
import time
from collections.abc import Coroutine
from typing import TypeVar

import httpx

from runner.load.client import Slot, Target, read_answer, send_request
from runner.load.event_loop import new_event_loop
from runner.load.generator import LoadOutcome, run_load
from runner.load.transport import StampedTransport
from runner.load.workload import PromptScale, RequestSpec, Trace, make_prompt
from runner.protocols.facts import Ask
from storage.records import RequestRecord
from tests.support.scripted_http import CHUNKED_HEAD, chunk

T = TypeVar("T")
LEAD_NS = 50_000_000


def token(text: str) -> bytes:
    """One chat event on the wire."""
    return chunk(b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % text.encode())


HEAD = CHUNKED_HEAD
DONE = chunk(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n') + b"0\r\n\r\n"


async def drive(url: str, trace: Trace, *, end_s: float, drain_s: float) -> tuple[LoadOutcome, list[RequestRecord]]:
    """One cell's load as a sweep drives it: sent until `end_s`, cut `drain_s` later; records by request number."""
    records: list[RequestRecord] = []
    async with httpx.AsyncClient(transport=StampedTransport(allow=())) as client:
        origin_ns = time.monotonic_ns() + LEAD_NS

        async def send(spec: RequestSpec, scheduled_ns: int) -> RequestRecord:
            ask = Ask(make_prompt(spec, PromptScale()), "m", spec.output_tokens)
            slot = Slot(scheduled_ns, origin_ns, 0, spec.request, spec.class_name, spec.prompt_tokens)
            return read_answer(await send_request(client, Target(url), ask, slot)).record

        outcome = await run_load(
            trace,
            send,
            origin_ns=origin_ns,
            end_ns=origin_ns + round(end_s * 1e9),
            drain_ns=round(drain_s * 1e9),
            now_ns=time.monotonic_ns,
            on_record=records.append,
            stop=asyncio.Event(),
            max_in_flight={},
        )
    return outcome, sorted(records, key=lambda r: r.request)


def on_our_loop(main: Coroutine[object, object, T]) -> T:
    """Runs on the event loop that the runner uses."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
