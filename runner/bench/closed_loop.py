"""What the measured clients share: workers that send again at once, and the figures of their own process.

Each client is a process of its own, so that its start, its CPU time and its memory are its own.
"""

import argparse
import asyncio
import json
import sys
import time
from array import array
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Seen:
    """One stream as the client saw it; ns of the monotonic clock."""

    sent_ns: int  # what the client takes for the moment of sending
    numbers: "array[int]"  # token numbers in order of arrival
    stamps_ns: "array[int]"


@dataclass(frozen=True, slots=True)
class Plan:
    url: str
    streams: int
    seconds: float
    tokens: int


Fetch = Callable[[], Awaitable[None]]
BODY = {"model": "bench", "messages": [{"role": "user", "content": "count"}], "stream": True}


async def run_workers(plan: Plan, fetch: Fetch) -> None:
    """`plan.streams` workers, each one stream after the other; a stream begun before the end is finished."""
    end = time.monotonic() + plan.seconds

    async def work() -> None:
        while time.monotonic() < end:
            await fetch()

    async with asyncio.TaskGroup() as group:
        for _ in range(plan.streams):
            group.create_task(work())


def run_client(
    run: Callable[[Plan], Coroutine[Any, Any, list[Seen]]],
    clock: Callable[[], str],
    new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> None:
    """The main function of a client's process: reads the plan, runs it, writes what was seen and what it cost."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--streams", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    plan = Plan(args.url, args.streams, args.seconds, args.tokens)
    began_cpu = time.process_time()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        seen = runner.run(run(plan))
    cpu_s = time.process_time() - began_cpu
    figures = {"cpu_s": cpu_s, "rss_mb": peak_rss_mb(), "clock": clock(), "seen": [as_json(s) for s in seen]}
    args.out.write_text(json.dumps(figures))


def as_json(seen: Seen) -> dict[str, object]:
    return {"sent_ns": seen.sent_ns, "numbers": seen.numbers.tolist(), "stamps_ns": seen.stamps_ns.tolist()}


def peak_rss_mb() -> float:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024 if sys.platform == "linux" else peak / 1024 / 1024
