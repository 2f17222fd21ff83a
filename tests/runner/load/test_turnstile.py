"""A few per turn of the event loop, in order, and nothing lost."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from runner.load.turnstile import Turnstile


@given(visitors=st.integers(1, 40), per_turn=st.integers(1, 5))
def test_at_most_so_many_enter_in_a_turn_and_all_in_order(visitors: int, per_turn: int) -> None:
    """However many come at once, each turn of the loop lets in at most `per_turn`, first come first served."""

    async def run() -> list[tuple[int, int]]:
        turnstile, turn, entered = Turnstile(per_turn), 0, []

        async def visit(number: int) -> None:
            await turnstile.enter()
            entered.append((turn, number))

        tasks = [asyncio.create_task(visit(i)) for i in range(visitors)]
        while not all(t.done() for t in tasks):
            await asyncio.sleep(0)
            turn += 1
        return entered

    entered = asyncio.run(run())
    assert [number for _, number in entered] == list(range(visitors))
    turns = [turn for turn, _ in entered]
    assert max(turns.count(t) for t in turns) <= per_turn


def test_a_single_visitor_does_not_wait() -> None:
    """Without a burst nobody loses a turn of the loop."""

    async def run() -> int:
        turnstile, turns = Turnstile(), 0
        for _ in range(20):
            entering = asyncio.create_task(turnstile.enter())
            await asyncio.sleep(0)
            turns += not entering.done()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return turns

    assert asyncio.run(run()) == 0


def test_a_cancelled_visitor_does_not_hold_the_line() -> None:
    """One who gives up in the line takes nobody's turn."""

    async def run() -> list[bool]:
        turnstile = Turnstile(1)
        tasks = [asyncio.create_task(turnstile.enter()) for _ in range(4)]
        await asyncio.sleep(0)
        tasks[2].cancel()
        await asyncio.wait(tasks, timeout=5)
        return [t.cancelled() for t in tasks]

    assert asyncio.run(run()) == [False, False, True, False]
