"""Our own loop under watch: exact numbers on a scripted clock, and one real stall."""

import asyncio
import time

import pytest

from runner.load.loop_health import watch_loop
from storage.records import ClientSample

MS = 1_000_000


async def scripted(late_ms: list[float], cpu_per_tick_ms: float) -> list[ClientSample]:
    """Runs the watcher with 100 ms ticks and 300 ms intervals; the i-th timer is late by late_ms[i], then it ends."""
    now, cpu, lates = 5_000 * MS, 0.0, iter(late_ms)
    samples: list[ClientSample] = []

    async def sleep(seconds: float) -> None:
        nonlocal now, cpu
        late = next(lates, None)
        if late is None:
            raise asyncio.CancelledError
        now += round(seconds * 1e9 + late * MS)
        cpu += cpu_per_tick_ms * MS

    with pytest.raises(asyncio.CancelledError):
        await watch_loop(
            3, origin_ns=4_000 * MS, now_ns=lambda: now, open_streams=lambda: len(samples) + 7,
            on_sample=samples.append, interval_s=0.3, tick_s=0.1, cpu_ns=lambda: round(cpu), sleep=sleep,
        )  # fmt: skip
    return samples


def test_each_sample_holds_the_worst_lateness_of_its_own_interval():
    """Ticks late by 0, 50, 0 then 0, 0, 10 ms give lags of 50 and 10 ms, stamped from the origin."""
    samples = asyncio.run(scripted([0, 50, 0, 0, 0, 10], 35))
    assert [(s.cell, s.at_ns, s.loop_lag_ms, s.open_streams) for s in samples] == [
        (3, 1_350 * MS, 50.0, 7), (3, 1_660 * MS, 10.0, 8),
    ]  # fmt: skip


def test_cpu_share_is_process_time_over_wall_time():
    """105 ms of CPU in a 350 ms interval are a share of 0.3; several threads may give more than 1."""
    assert asyncio.run(scripted([0, 50, 0], 35))[0].cpu_share == pytest.approx(0.3)
    assert asyncio.run(scripted([0, 0, 0], 200))[0].cpu_share == pytest.approx(2.0)


def test_a_real_stall_shows_as_lag_and_cpu():
    """A loop blocked by 150 ms of busy work shows at least 100 ms of lag and a CPU share well above an idle loop's."""

    async def main() -> ClientSample:
        got: asyncio.Future[ClientSample] = asyncio.get_running_loop().create_future()
        watcher = asyncio.create_task(
            watch_loop(
                0, origin_ns=time.monotonic_ns(), now_ns=time.monotonic_ns, open_streams=lambda: 0,
                on_sample=lambda s: None if got.done() else got.set_result(s), interval_s=0.3,
            )
        )  # fmt: skip
        await asyncio.sleep(0.03)
        end = time.process_time() + 0.15
        while time.process_time() < end:
            pass
        sample = await got
        watcher.cancel()
        return sample

    sample = asyncio.run(main())
    assert sample.loop_lag_ms >= 100
    assert sample.cpu_share > 0.02
