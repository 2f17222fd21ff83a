"""aiohttp on uvloop, used as benchmark tools use it: one session, stamps in user code, JSON parsed on the way."""

import json
from array import array
from time import monotonic_ns

import aiohttp
import uvloop

from runner.bench.closed_loop import BODY, Plan, Seen, run_client, run_workers


async def run(plan: Plan) -> list[Seen]:
    seen: list[Seen] = []
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as session:

        async def fetch() -> None:
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
            seen.append(Seen(sent_ns, numbers, stamps))

        await run_workers(plan, fetch)
    return seen


if __name__ == "__main__":
    run_client(run, lambda: "user", uvloop.new_event_loop)
