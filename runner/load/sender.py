"""Sends the measured requests of a cell, in whichever process: prompt, request, answer, record."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from runner.load.backlog import Backlog
from runner.load.client import Answer, Result, Slot, Target, read_answer, send_request
from runner.load.transport import StampedTransport
from runner.load.workload import PromptScale, RequestSpec, Trace, make_prompt, most_arrivals
from runner.protocols.facts import Ask
from storage.records import RequestRecord

Pending = asyncio.Future[RequestRecord]
REFILL_S = 0.25
FEW_READS = 4  # an answer this short may be a refusal told inside the stream


@dataclass(frozen=True, slots=True)
class SenderFacts:
    """What was found out about the server, small and plain: it goes to other processes."""

    target: Target
    model: str | None
    scale: PromptScale
    prefix_tokens: Mapping[str, int]  # shared prefix of each class
    preopen: bool = False  # connections are opened before requests need them


class Sender:
    """One per process: `client` uses `transport`, the answers wait in one backlog."""

    def __init__(self, client: httpx.AsyncClient, transport: StampedTransport, facts: SenderFacts) -> None:
        self._client = client
        self._transport = transport
        self._facts = facts
        self._spare = 0
        self._waiting: dict[int, Pending] = {}
        self._backlog = Backlog(self._hand_over)

    async def open_ahead(self, trace: Trace) -> None:
        """Before the load begins: a connection for every closed-loop user, and for the arrivals of any half second."""
        if self._facts.preopen:
            users = sum(loop.workers for loop in trace.closed_loops)
            self._spare = most_arrivals(trace.open_loop, round(2 * REFILL_S * 1e9))
            await self._transport.preopen(self._facts.target.base_url, users + self._spare)

    async def keep_ahead(self) -> None:
        """While the load runs: connections for what may come before the next look, beside those in use."""
        while self._spare:
            await asyncio.sleep(REFILL_S)
            await self._transport.preopen(self._facts.target.base_url, self._spare)

    async def send(self, spec: RequestSpec, cell: int, scheduled_ns: int, origin_ns: int) -> RequestRecord | Pending:
        """One measured request. Never retried, never an exception: a failure is a record.

        Returns when the answer has ended: a user who waited for it goes on now, and the record follows when the answer
        has been read. Only of an answer that may be a refusal is the record waited for.
        """
        facts = self._facts
        prompt = make_prompt(spec, facts.scale, facts.prefix_tokens.get(spec.class_name, 0))
        ask = Ask(prompt, facts.model, spec.output_tokens, priority=spec.priority)
        slot = Slot(scheduled_ns, origin_ns, cell, spec.request, spec.class_name, spec.prompt_tokens)
        answer = await send_request(self._client, facts.target, ask, slot)
        record: Pending = asyncio.get_running_loop().create_future()
        self._waiting[id(answer)] = record
        long = answer.exchange.complete and len(answer.exchange.stamps) > FEW_READS
        self._backlog.add(answer, soon=not long)
        if long:
            return record
        try:
            return await record
        except asyncio.CancelledError:  # cut at the end of the drain, with the answer already here
            return read_answer(answer).record

    def _hand_over(self, answer: Answer, result: Result) -> None:
        record = self._waiting.pop(id(answer))
        if not record.done():
            record.set_result(result.record)
