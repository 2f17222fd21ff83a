"""Answers that wait to be read: one at a time, whenever the event loop has had its turn with the sockets."""

import asyncio
from collections import deque

from runner.load.client import Answer, Result, read_answer

MAX_PENDING_BYTES = 64 * 1024 * 1024


class Backlog:
    """Reads one answer per turn of the event loop, in the order in which they ended.

    A burst of answers that end together then stalls the loop for one of them at a time, not for all. Beyond 64 MB of
    waiting bytes answers are read at once. A thread would be worse: it holds the interpreter for up to 5 ms at a time.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Answer, int, asyncio.Future[Result]]] = deque()
        self._bytes = 0
        self._task: asyncio.Task[None] | None = None

    async def read(self, answer: Answer) -> Result:
        """The answer's result. A task that is cancelled meanwhile gets it at once."""
        size = answer.exchange.body_bytes
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((answer, size, future))
        self._bytes += size
        while self._bytes > MAX_PENDING_BYTES:
            self._read_one()
        if self._waiting and self._task is None:
            self._task = loop.create_task(self._run())
        try:
            return await future
        except asyncio.CancelledError:
            return read_answer(answer)

    async def _run(self) -> None:
        while self._waiting:
            await asyncio.sleep(0)  # what the sockets have comes first
            if self._waiting:
                self._read_one()
        self._task = None

    def _read_one(self) -> None:
        answer, size, future = self._waiting.popleft()
        self._bytes -= size
        if not future.done():
            future.set_result(read_answer(answer))
