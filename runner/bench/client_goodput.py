"""Our own client, as a sweep uses it: transport, backlog, parsing, record."""

from array import array
from time import monotonic_ns

import httpx

from runner.bench.closed_loop import Plan, Seen, run_client, run_workers
from runner.load.backlog import Backlog
from runner.load.client import Result, Slot, Target, send_request
from runner.load.event_loop import new_event_loop
from runner.load.garbage import freeze
from runner.load.transport import StampedTransport
from runner.protocols.facts import Ask

clocks: set[str] = set()


async def run(plan: Plan) -> list[Seen]:
    target = Target(plan.url)
    ask = Ask("count", "bench", plan.tokens)
    seen: list[Seen] = []
    backlog = Backlog(lambda _, result: seen.append(seen_in(result)))
    freeze()
    async with httpx.AsyncClient(transport=StampedTransport(), trust_env=False) as client:

        async def fetch() -> None:
            answer = await send_request(client, target, ask, Slot(scheduled_ns=monotonic_ns()))
            backlog.add(answer)

        await run_workers(plan, fetch)
        await backlog.drain()
    return seen


def seen_in(result: Result) -> Seen:
    record = result.record
    if record.error_kind is not None or record.first_chunk_ns is None or record.sent_ns is None:
        raise SystemExit(f"{record.error_kind}: {record.error_detail}")
    stamps = array("q", [record.first_chunk_ns])
    for delta in record.chunk_deltas_us:
        stamps.append(stamps[-1] + delta * 1000)
    clocks.add(record.clock)
    return Seen(record.sent_ns, array("q", map(int, result.text.split())), stamps)


if __name__ == "__main__":
    run_client(run, lambda: "user" if "user" in clocks else "kernel", new_event_loop)
