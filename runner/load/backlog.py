"""Answers that wait to be read: some at a time, whenever the event loop has had its turn with the sockets."""

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic_ns

from runner.load.client import Answer, Result, read_answer

MAX_PENDING_BYTES = 64 * 1024 * 1024
FULL = 16  # so many that wait are read in one go, each at a third of the price of one that is read alone
PATIENCE_S = 0.5  # fewer are read after this time
BUSY_NS = 300_000  # a turn that takes longer had a burst to work off
BUSY_TURNS = 50  # then some answers are read all the same
PORTION_NS = 500_000  # what may be read in one turn


class Backlog:
    """Reads answers in quiet turns of the event loop, in the order in which they were added, and gives them to `sink`.

    A burst of answers that end together then stalls the loop for a few of them at a time, not for all. Beyond 64 MB
    of waiting bytes `add` reads at once. A thread would be worse: it holds the interpreter for up to 5 ms at a time.
    """

    def __init__(self, sink: Callable[[Answer, Result], None]) -> None:
        self._sink = sink
        self._waiting: deque[tuple[Answer, int]] = deque()
        self._bytes = 0
        self._patience: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def add(self, answer: Answer, *, soon: bool = False) -> None:
        """Returns at once; `sink(answer, result)` follows within about `PATIENCE_S`, with `soon` in the next turns."""
        size = answer.exchange.body_bytes
        self._waiting.append((answer, size))
        self._bytes += size
        while self._bytes > MAX_PENDING_BYTES:
            self._read_one()
        if soon or len(self._waiting) >= FULL:
            self._begin()
        elif self._patience is None:
            self._patience = asyncio.get_running_loop().call_later(PATIENCE_S, self._begin)

    async def drain(self) -> None:
        """Returns when everything added so far has been read."""
        self._begin()
        while self._task is not None:
            await self._task

    def _begin(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if self._waiting and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._quiet_turn()
                until_ns = monotonic_ns() + PORTION_NS
                while self._waiting:
                    self._read_one()
                    if monotonic_ns() > until_ns:
                        break
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
