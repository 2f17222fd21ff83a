"""Waking at a moment: never early, with the loop free meanwhile, wherever there is a timer and where there is none."""

import asyncio
import time
from pathlib import Path

import pytest

import runner.load.alarm as alarm_module
from runner.load.alarm import Alarm

MS = 1_000_000


@pytest.fixture(params=["timer", "naps"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the system's timer, and as where it has none."""
    if request.param == "naps":
        open_timer = alarm_module._open_timer

        def without() -> object:
            libc, fd = open_timer()
            if fd is not None:
                alarm_module.os.close(fd)
            return libc, None

        monkeypatch.setattr(alarm_module, "_open_timer", without)
    return str(request.param)


def test_an_exact_sleep_is_never_early_and_lets_the_loop_turn(kind: str) -> None:
    """An exact sleep ends at or after its deadline, and other tasks run all the while."""

    async def main() -> tuple[list[int], int]:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.0005)

        task = asyncio.create_task(other())
        late: list[int] = []
        with Alarm() as alarm:
            for _ in range(20):
                deadline = time.monotonic_ns() + 5 * MS
                await alarm.sleep_until(deadline, True)
                late.append(time.monotonic_ns() - deadline)
        task.cancel()
        return late, turns

    late, turns = asyncio.run(main())
    assert min(late) >= 0
    assert sorted(late)[10] < 50 * MS
    assert turns >= 20


def test_a_passed_deadline_still_gives_the_loop_a_turn(kind: str) -> None:
    """A burst that is overdue can't starve the readers: each sleep to a passed deadline yields once."""

    async def main() -> list[str]:
        seen: list[str] = []
        with Alarm() as alarm:
            asyncio.get_running_loop().call_soon(seen.append, "reader")
            await alarm.sleep_until(0, True)
            seen.append("sender")
        return seen

    assert asyncio.run(main()) == ["reader", "sender"]


def test_being_late_again_and_again_costs_a_turn_for_four_requests(kind: str) -> None:
    """Of eight moments that have all passed, the first and the fifth let the loop turn; after a true sleep it begins
    anew."""

    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            loop.call_soon(turn)

        counts: list[int] = []
        with Alarm() as alarm:
            loop.call_soon(turn)
            for deadline in [0] * 8 + [time.monotonic_ns() + 2 * MS, 0]:
                before = turns
                await alarm.sleep_until(deadline, True)
                counts.append(min(1, turns - before))
        return counts

    assert asyncio.run(main()) == [1, 0, 0, 0, 1, 0, 0, 0, 1, 1]


def test_a_sleep_that_was_cut_does_not_wake_the_next_one_early() -> None:
    """The moment of a cancelled sleep passes in silence; the sleep after it ends at its own moment."""

    async def main() -> int:
        with Alarm() as alarm:
            cut = asyncio.create_task(alarm.sleep_until(time.monotonic_ns() + 5 * MS, True))
            await asyncio.sleep(0)
            cut.cancel()
            deadline = time.monotonic_ns() + 30 * MS
            await alarm.sleep_until(deadline, True)
            return time.monotonic_ns() - deadline

    assert asyncio.run(main()) >= 0


def test_closing_gives_the_file_back() -> None:
    """As many files are open after an alarm as before it."""

    async def main() -> tuple[int, int]:
        before = len(list(Path("/proc/self/fd").iterdir()))
        with Alarm() as alarm:
            await alarm.sleep_until(time.monotonic_ns() + MS, True)
        return before, len(list(Path("/proc/self/fd").iterdir()))

    before, after = asyncio.run(main())
    assert before == after
