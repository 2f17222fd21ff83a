"""Our own client, as a sweep uses it: pacing, transport, backlog, parsing, record."""

from array import array
from functools import partial
from itertools import accumulate

import httpx

from runner.bench.measured_client import Plan, Seen, Work, run_client, send_all
from runner.load.alarm import Alarm
from runner.load.backlog import Backlog
from runner.load.client import Answer, Result, Slot, Target, send_request
from runner.load.event_loop import new_event_loop
from runner.load.garbage import freeze
from runner.load.transport import StampedTransport
from runner.protocols.facts import Ask

# moments due, sent and of the first token in ns, then the steps between tokens, and the text
Kept = tuple[int, int, int, "array[int]", str]


async def run(plan: Plan) -> Work:
    target = Target(plan.url)
    ask = Ask("count", "bench", plan.tokens)
    kept: list[Kept] = []
    work = Work([], 0, "kernel", lambda: map(seen_in, kept))
    backlog = Backlog(partial(note, work, kept))
    async with httpx.AsyncClient(transport=StampedTransport(), trust_env=False) as client:

        async def fetch(due_ns: int) -> None:
            backlog.add(await send_request(client, target, ask, Slot(due_ns)))

        with Alarm() as alarm:
            await send_all(plan, fetch, partial(alarm.sleep_until, exact=True))
        await backlog.drain()
    return work


def note(work: Work, kept: list[Kept], answer: Answer, result: Result) -> None:
    record = result.record
    if record.error_kind is not None or record.first_chunk_ns is None or record.sent_ns is None:
        raise SystemExit(f"{record.error_kind}: {record.error_detail}")
    deltas_us = array("L", record.chunk_deltas_us)
    kept.append((record.scheduled_ns, record.sent_ns, record.first_chunk_ns, deltas_us, result.text))
    work.reads = (work.reads or 0) + len(answer.exchange.stamps)
    if record.clock != "kernel":
        work.clock = record.clock


def seen_in(kept: Kept) -> Seen:
    scheduled_ns, sent_ns, first_ns, deltas_us, text = kept
    stamps_ns = array("q", accumulate((1000 * delta for delta in deltas_us), initial=first_ns))
    return Seen(scheduled_ns, sent_ns, array("q", map(int, text.split())), stamps_ns)


if __name__ == "__main__":
    freeze()  # part of the start, as it is part of getting ready for a cell
    run_client(run, new_event_loop)
