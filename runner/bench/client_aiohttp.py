"""aiohttp on uvloop, used as benchmark tools use it: one session, stamps in user code, JSON parsed on the way."""

import json
from array import array
from time import monotonic_ns

import aiohttp
import uvloop
from aiohttp.client_proto import ResponseHandler

from runner.bench.measured_client import BODY, Plan, Seen, Work, run_client, send_all


async def run(plan: Plan) -> Work:
    work = Work([], 0, "user")
    receive = ResponseHandler.data_received

    def count(handler: ResponseHandler, data: bytes) -> None:
        work.reads = (work.reads or 0) + bool(data)  # without data it is told to go on with what it has
        receive(handler, data)

    ResponseHandler.data_received = count  # type: ignore[assignment, method-assign]
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as session:

        async def fetch(due_ns: int) -> None:
            numbers, stamps = array("q"), array("q")
            sent_ns = monotonic_ns()
            async with session.post(f"{plan.url}/v1/chat/completions", json=BODY) as response:
                async for line in response.content:
                    now = monotonic_ns()
                    if line.startswith(b"data: {") and (choices := json.loads(line[6:])["choices"]):
                        text = choices[0]["delta"].get("content")
                        if text:
                            numbers.append(int(text))
                            stamps.append(now)
            work.seen.append(Seen(due_ns, sent_ns, numbers, stamps))

        await send_all(plan, fetch)
    return work


if __name__ == "__main__":
    run_client(run, uvloop.new_event_loop)
