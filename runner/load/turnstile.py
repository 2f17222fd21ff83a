"""Keeps a burst of starts and ends from stalling the event loop: a few pass in each of its turns, the rest wait.

64 streams that end together would otherwise hold the loop for 20 ms, and tokens that arrive meanwhile on one
connection come in one read with one stamp.
"""

import asyncio
from collections import deque

PER_TURN = 4


class Turnstile:
    """`await enter()` returns at once while fewer than `per_turn` have entered in this turn of the loop."""

    def __init__(self, per_turn: int = PER_TURN) -> None:
        self._per_turn = self._left = per_turn
        self._line: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        if self._left and not self._line:
            self._left -= 1
            if not self._left:  # the next one must wait for a turn
                self._arm()
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(place)
        await place

    def _arm(self) -> None:
        asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._left = self._per_turn
        while self._line and self._left:
            place = self._line.popleft()
            if not place.done():  # not cancelled
                place.set_result(None)
                self._left -= 1
        if not self._left:
            self._arm()
