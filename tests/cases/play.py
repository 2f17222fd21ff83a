"""Plays every stream case to the real client over loopback, all at the same time, and keeps what both sides saw."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from time import monotonic_ns
from typing import Any

import httpx

from runner.analysis.request_object import request_object
from runner.load.client import Answer, Result, Slot, Target, read_answer, send_request
from runner.load.event_loop import new_event_loop
from runner.load.transport import StampedTransport
from runner.protocols.dialects import DIALECTS
from runner.protocols.facts import Ask, StreamFacts
from storage.records import RequestRecord
from tests.cases.load_cases import StreamCase, load_stream_cases
from tests.cases.replay_server import Played, replay_server

MAX_TOKENS = 64


@dataclass(frozen=True)
class Outcome:
    """One case as the client saw it (`shown` is the request object) and as the server played it."""

    case: StreamCase
    answer: Answer
    result: Result
    shown: dict[str, Any]
    played: Played

    @property
    def record(self) -> RequestRecord:
        return self.result.record

    @property
    def facts(self) -> StreamFacts:
        """What the dialect makes of the very bytes and stamps of this answer."""
        content_type = (self.answer.exchange.header(b"content-type") or b"").decode()
        read_stream = DIALECTS[self.case.api].read_stream
        exchange = self.answer.exchange
        return read_stream(exchange.reads(), content_type=content_type, clean_end=exchange.complete)

    def server_late_ms(self, due_ms: float) -> float:
        """How late the server itself wrote the chunk that was due `due_ms` after the request was sent; 0 = on time."""
        due = list(accumulate(delay_ms for delay_ms, _ in self.case.chunks))
        return self._lateness_ms()[due.index(round(due_ms))]

    @property
    def worst_late_ms(self) -> float:
        """The server's greatest lateness in this stream: by so much may one gap be longer, and another shorter."""
        return max(self._lateness_ms())

    def _lateness_ms(self) -> list[float]:
        due = accumulate(delay_ms for delay_ms, _ in self.case.chunks)
        sent_ns = self.record.sent_ns or 0
        return [max(0.0, (at - sent_ns) / 1e6 - ms) for ms, at in zip(due, self.played.written_ns, strict=True)]


def play_all() -> dict[str, Outcome]:
    """Every stream case by id; takes as long as the longest of them."""
    return _played(load_stream_cases())


def holds(check: Callable[[Outcome], None], outcome: Outcome, again: int = 2) -> None:
    """Raises what `check` raises. A machine that stands still for 30 ms makes one read of two chunks, so a case that
    does not hold is played again alone: what is wrong with the client is wrong each time."""
    for _ in range(again):
        try:
            return check(outcome)
        except AssertionError:
            outcome = _played([outcome.case])[outcome.case.id]
    check(outcome)


def _played(cases: list[StreamCase]) -> dict[str, Outcome]:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_play(cases))


async def _play(cases: list[StreamCase]) -> dict[str, Outcome]:
    log: list[Played] = []
    async with replay_server(log=log) as base, httpx.AsyncClient(transport=StampedTransport(allow=())) as client:
        answers = await asyncio.gather(*(_send(client, base, case) for case in cases))
    played = {p.case_id: p for p in log}
    outcomes = {}
    for case, answer in zip(cases, answers, strict=True):  # read when all have ended, as a sweep does when it is busy
        result = read_answer(answer)
        shown = request_object(result.record, result.text, result.reasoning_text, result.tool_calls)
        outcomes[case.id] = Outcome(case, answer, result, shown, played[case.id])
    return outcomes


async def _send(client: httpx.AsyncClient, base: str, case: StreamCase) -> Answer:
    # the words of the request are those of `goodput probe`: up to max_tokens, the answer may end by itself
    ask = Ask("hello", "m", case.request.get("max_tokens", MAX_TOKENS), hold_length=False)
    return await send_request(client, Target(f"{base}/{case.id}", case.api), ask, Slot(monotonic_ns()))
