"""Is our own load generator the bottleneck? Lateness of the event loop's timers and CPU share, once a second."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from storage.records import ClientSample

TICK_S = 0.05  # each look wakes a sleeping processor; a lateness that counts is twice as long
INTERVAL_S = 1.0


async def watch_loop(
    cell: int,
    *,
    origin_ns: int,
    now_ns: Callable[[], int],
    open_streams: Callable[[], int],
    on_sample: Callable[[ClientSample], None],
    interval_s: float = INTERVAL_S,
    tick_s: float = TICK_S,
    cpu_ns: Callable[[], int] = time.process_time_ns,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Hands over a ClientSample every `interval_s` until cancelled; `at_ns` counts from the origin.

    Lag is the worst lateness in ms of a timer set every `tick_s` (about 1 ms on an idle loop: timers count in ms).
    The CPU share is that of the whole process, all threads, over one core: above 1 with several threads.
    """
    began_ns, cpu_began_ns, worst_ns = now_ns(), cpu_ns(), 0
    while True:
        asked_ns = now_ns()
        await sleep(tick_s)
        at_ns = now_ns()
        worst_ns = max(worst_ns, at_ns - asked_ns - round(tick_s * 1e9))
        if at_ns - began_ns < interval_s * 1e9:
            continue
        cpu_at_ns = cpu_ns()
        share = (cpu_at_ns - cpu_began_ns) / (at_ns - began_ns)
        on_sample(ClientSample(cell, at_ns - origin_ns, worst_ns / 1e6, share, open_streams()))
        began_ns, cpu_began_ns, worst_ns = at_ns, cpu_at_ns, 0
