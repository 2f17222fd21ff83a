"""Answers that wait to be read: one at a time, whenever the event loop has had its turn with the sockets."""

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic_ns

from runner.load.client import Answer, Result, read_answer

MAX_PENDING_BYTES = 64 * 1024 * 1024
BUSY_NS = 300_000  # a turn that takes longer had a burst to work off
BUSY_TURNS = 50  # then one answer is read all the same


class Backlog:
    """Reads one answer per quiet turn of the event loop, in the order in which they were added, and gives it to `sink`.

    A burst of answers that end together then stalls the loop for one of them at a time, not for all. Beyond 64 MB of
    waiting bytes `add` reads at once. A thread would be worse: it holds the interpreter for up to 5 ms at a time.
    """

    def __init__(self, sink: Callable[[Answer, Result], None]) -> None:
        self._sink = sink
        self._waiting: deque[tuple[Answer, int]] = deque()
        self._bytes = 0
        self._task: asyncio.Task[None] | None = None

    def add(self, answer: Answer) -> None:
        """Returns at once; `sink(answer, result)` is called soon after."""
        size = answer.exchange.body_bytes
        self._waiting.append((answer, size))
        self._bytes += size
        while self._bytes > MAX_PENDING_BYTES:
            self._read_one()
        if self._waiting and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def drain(self) -> None:
        """Returns when everything added so far has been read."""
        while self._task is not None:
            await self._task

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._quiet_turn()
                if self._waiting:
                    self._read_one()
        finally:
            self._task = None

    async def _quiet_turn(self) -> None:
        """One turn of the loop, or more while it is busy with sockets, starts and ends: these come first."""
        for _ in range(BUSY_TURNS):
            before = monotonic_ns()
            await asyncio.sleep(0)
            if monotonic_ns() - before < BUSY_NS:
                return

    def _read_one(self) -> None:
        answer, size = self._waiting.popleft()
        self._bytes -= size
        self._sink(answer, read_answer(answer))
