"""One timer for the limits of all requests that run."""

import asyncio
from collections.abc import Callable
from time import monotonic_ns

from runner.load.limits import Limits

MS = 1_000_000


def calls(plan: Callable[[Limits, Callable[[str], Callable[[], None]]], None], last: str) -> list[tuple[str, int]]:
    """(name, ns of the monotonic clock) of what is called after `plan(limits, named)`, until `last` is."""
    seen: list[tuple[str, int]] = []

    async def run() -> None:
        limits, done = Limits(), asyncio.Event()

        def named(name: str) -> Callable[[], None]:
            def late() -> None:
                seen.append((name, monotonic_ns()))
                if name == last:
                    done.set()

            return late

        plan(limits, named)
        await asyncio.wait_for(done.wait(), 60)
        limits.close()

    asyncio.run(run())
    return seen


def test_each_is_called_once_and_never_before_its_moment() -> None:
    """Whatever the order in which they were given; one that is earlier than all before is not kept waiting."""
    now = monotonic_ns()
    due = {"third": now + 90 * MS, "first": now + 20 * MS, "second": now + 50 * MS}

    def plan(limits: Limits, named: Callable[[str], Callable[[], None]]) -> None:
        for name, at in due.items():
            limits.add(named(name), at)

    seen = calls(plan, "third")
    assert [name for name, _ in seen] == ["first", "second", "third"]
    assert all(at >= due[name] for name, at in seen)


def test_what_was_taken_back_is_not_called() -> None:
    """Neither before its moment nor by one that is late in the same look; what was never there does no harm."""

    def plan(limits: Limits, named: Callable[[str], Callable[[], None]]) -> None:
        now = monotonic_ns()
        gone, other = named("gone"), named("other")
        limits.add(gone, now + 10 * MS)
        limits.remove(gone)
        limits.remove(named("never"))
        limits.add(lambda: limits.remove(other), now - MS)
        limits.add(other, now - MS)
        limits.add(named("last"), now + 40 * MS)

    assert [name for name, _ in calls(plan, "last")] == ["last"]


def test_one_that_is_late_may_begin_another() -> None:
    """A limit given in the middle of a look counts as any other, also when it is the only one left."""

    def plan(limits: Limits, named: Callable[[str], Callable[[], None]]) -> None:
        limits.add(lambda: limits.add(named("next"), monotonic_ns() + 5 * MS), monotonic_ns())

    assert [name for name, _ in calls(plan, "next")] == ["next"]
