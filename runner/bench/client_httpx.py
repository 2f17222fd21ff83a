"""Plain httpx with its own pool on asyncio, its limit lifted: what a script without further thought does."""

import json
from array import array
from time import monotonic_ns

import httpx

from runner.bench.measured_client import BODY, Plan, Seen, Work, run_client, send_all


async def run(plan: Plan) -> Work:
    work = Work([], None, "user")
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(limits=limits, timeout=None, trust_env=False) as client:

        async def fetch(due_ns: int) -> None:
            numbers, stamps = array("q"), array("q")
            sent_ns = monotonic_ns()
            async with client.stream("POST", f"{plan.url}/v1/chat/completions", json=BODY) as response:
                async for line in response.aiter_lines():
                    now = monotonic_ns()
                    if line.startswith("data: {") and (choices := json.loads(line[6:])["choices"]):
                        text = choices[0]["delta"].get("content")
                        if text:
                            numbers.append(int(text))
                            stamps.append(now)
            work.seen.append(Seen(due_ns, sent_ns, numbers, stamps))

        await send_all(plan, fetch)
    return work


if __name__ == "__main__":
    run_client(run)
