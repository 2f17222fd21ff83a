"""What the measured clients share: when they send, and the figures of their own process.

Each client is a process of its own, so that its start, its CPU time and its memory are its own.
"""

import argparse
import asyncio
import contextlib
import json
import random
import sys
import time
from array import array
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from time import monotonic_ns
from typing import Any

from runner.bench.scenario import SETTLE_S, ramp_s
from runner.load.loop_health import watch_loop
from storage.records import ClientSample


@dataclass(frozen=True, slots=True)
class Seen:
    """One stream as the client saw it; ns of the monotonic clock."""

    due_ns: int  # when it was to be sent
    sent_ns: int  # what the client takes for the moment of sending
    numbers: "array[int]"  # token numbers in order of arrival
    stamps_ns: "array[int]"


@dataclass(frozen=True, slots=True)
class Plan:
    url: str
    streams: int  # 0: open loop
    requests_per_s: float
    seconds: float
    tokens: int


@dataclass(slots=True)
class Work:
    """What a client did. `reads`: of the socket, with body bytes; None where they can't be counted.

    `later` gives what the client keeps in a form of its own: put into ours after the clock has stopped.
    """

    seen: list[Seen]
    reads: int | None
    clock: str
    later: Callable[[], Iterable[Seen]] = tuple


Fetch = Callable[[int], Awaitable[None]]  # gets the moment at which the request is due
SleepUntil = Callable[[int], Awaitable[None]]
BODY = {"model": "bench", "messages": [{"role": "user", "content": "count"}], "stream": True}


async def sleep_until(deadline_ns: int) -> None:
    """As anyone would write it."""
    await asyncio.sleep((deadline_ns - monotonic_ns()) / 1e9)


async def send_all(plan: Plan, fetch: Fetch, sleep: SleepUntil = sleep_until) -> None:
    """Carries out the plan; what was begun before its end is finished."""
    began_ns = monotonic_ns()
    end_ns = began_ns + round(plan.seconds * 1e9)
    async with asyncio.TaskGroup() as group:
        if not plan.streams:
            for due_ns in arrivals_ns(plan.requests_per_s, began_ns, end_ns):
                await sleep(due_ns)
                group.create_task(_call(fetch, due_ns))
        for number in range(plan.streams):
            first_ns = began_ns + round(ramp_s(plan.seconds) * 1e9 * number / plan.streams)
            group.create_task(_one_after_the_other(fetch, first_ns, end_ns))


def arrivals_ns(requests_per_s: float, began_ns: int, end_ns: int) -> list[int]:
    """The same Poisson arrivals for every client."""
    draw = random.Random(1)
    due_ns, due = began_ns, []
    while (due_ns := due_ns + round(draw.expovariate(requests_per_s) * 1e9)) < end_ns:
        due.append(due_ns)
    return due


async def _one_after_the_other(fetch: Fetch, first_ns: int, end_ns: int) -> None:
    await sleep_until(first_ns)
    while (now_ns := monotonic_ns()) < end_ns:
        await fetch(now_ns)


async def _call(fetch: Fetch, due_ns: int) -> None:
    await fetch(due_ns)


def run_client(
    run: Callable[[Plan], Coroutine[Any, Any, Work]],
    new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> None:
    """The main function of a client's process: reads the plan, runs it, writes what was seen and what it cost."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--streams", type=int, required=True)
    parser.add_argument("--requests-per-s", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    plan = Plan(args.url, args.streams, args.requests_per_s, args.seconds, args.tokens)
    samples: list[ClientSample] = []
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.get_loop()  # the loop and its imports are part of the start
        began_ns, began_cpu_s = monotonic_ns(), time.process_time()
        work = runner.run(_watched(run(plan), samples))
        cpu_s, rss_mb = time.process_time() - began_cpu_s, peak_rss_mb()
    steady_s = (ramp_s(plan.seconds) + SETTLE_S, plan.seconds)
    figures = {
        "cpu_s": cpu_s,
        "rss_mb": rss_mb,
        "clock": work.clock,
        "reads": work.reads,
        "steady_ns": [began_ns + round(s * 1e9) for s in steady_s],
        "samples": [asdict(s) for s in samples],
        "seen": [as_json(s) for s in chain(work.seen, work.later())],
    }
    args.out.write_text(json.dumps(figures))


async def _watched(work: Coroutine[Any, Any, Work], samples: list[ClientSample]) -> Work:
    watch = asyncio.create_task(
        watch_loop(0, origin_ns=0, now_ns=monotonic_ns, open_streams=lambda: 0, on_sample=samples.append)
    )
    try:
        return await work
    finally:
        watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watch


def as_json(seen: Seen) -> dict[str, object]:
    numbers, stamps_ns = seen.numbers.tolist(), seen.stamps_ns.tolist()
    return {"due_ns": seen.due_ns, "sent_ns": seen.sent_ns, "numbers": numbers, "stamps_ns": stamps_ns}


def peak_rss_mb() -> float:
    """Of this program alone: what `getrusage` tells counts the process that started it as well."""
    if sys.platform == "linux":
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 / 1024
