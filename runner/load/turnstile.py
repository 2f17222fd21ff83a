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
        self._armed = False
        self._line: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._armed:
            self._armed = True
            loop.call_soon(self._next_turn, loop)
        if self._left and not self._line:
            self._left -= 1
            return
        place: asyncio.Future[None] = loop.create_future()
        self._line.append(place)
        await place

    def _next_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        used = self._left < self._per_turn
        self._left = self._per_turn
        while self._line and self._left:
            place = self._line.popleft()
            if not place.done():  # not cancelled
                place.set_result(None)
                self._left -= 1
        self._armed = used or self._left < self._per_turn or bool(self._line)
        if self._armed:
            loop.call_soon(self._next_turn, loop)
