"""Rows from the event loop to the sweep's database: batches, once a second, on a thread of their own."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from storage.records import CellRecord, ClientSample, EngineSample, RequestRecord
from storage.sweep_store import SweepStore

T = TypeVar("T")


@dataclass
class Rows:
    """All rows of the cell that runs, kept until the next one begins: its summary is made from them."""

    requests: list[RequestRecord] = field(default_factory=list)
    engine: list[EngineSample] = field(default_factory=list)
    client: list[ClientSample] = field(default_factory=list)


class Writer:
    """The only user of a SweepStore. Adding is instant; a batch reaches the disk at the latest a second later."""

    def __init__(self, open_store: Callable[[], SweepStore]) -> None:
        # One thread: DuckDB's connection stays on it, and appends keep their order.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="storage")
        self._open = open_store
        self._store: SweepStore | None = None
        self._flushed = (0, 0, 0)  # rows of each kind that are on disk
        self.rows = Rows()

    async def open(self) -> None:
        """Opens the store on the writer thread. Raises StorageError."""
        self._store = await self._call(self._open)

    async def begin_cell(self) -> None:
        """A new cell's rows; those before are on disk afterwards. Raises StorageError."""
        await self.flush()
        self.rows, self._flushed = Rows(), (0, 0, 0)

    async def flush(self) -> None:
        """Writes what has come since the last flush as one transaction. Raises StorageError (full or lost disk).

        What is on disk is counted where it is written: a flush that is cancelled while it waits for the thread leaves
        its rows to the next one.
        """
        if self._flushed != self._counts():
            await self._call(self._write_new)

    async def flush_every_second(self) -> None:
        """Runs until cancelled; a StorageError ends it and with it the sweep."""
        while True:
            await asyncio.sleep(1.0)
            await self.flush()

    async def put_cell(self, cell: CellRecord) -> None:
        """Flushes, then writes the cell: a finished cell on disk has all of its rows on disk."""
        await self.flush()
        await self._call(lambda: self._held.put_cell(cell))

    async def finished_cells(self) -> dict[int, CellRecord]:
        return await self._call(lambda: self._held.finished_cells())

    async def close(self) -> None:
        """Writes the rest and closes the database; the file is then complete and can be opened by anyone."""
        try:
            if self._store is not None:
                await self.flush()
        finally:
            if self._store is not None:
                await self._call(self._store.close)
                self._store = None
            self._thread.shutdown(wait=True)

    def _counts(self) -> tuple[int, int, int]:
        return len(self.rows.requests), len(self.rows.engine), len(self.rows.client)

    def _write_new(self) -> None:
        """On the writer thread. The event loop may add rows meanwhile, but begins a cell only after a flush."""
        rows, (i, j, k), (to_i, to_j, to_k) = self.rows, self._flushed, self._counts()
        self._held.append(rows.requests[i:to_i], rows.engine[j:to_j], rows.client[k:to_k])
        self._flushed = to_i, to_j, to_k

    @property
    def _held(self) -> SweepStore:
        if self._store is None:
            raise RuntimeError("the writer is not open")
        return self._store

    async def _call(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def store_opener(folder: Path, make: Callable[[], SweepStore]) -> Callable[[], SweepStore]:
    """Reopens a sweep that has a database already (resume), else makes a new one."""
    return (lambda: SweepStore.reopen(folder)) if (folder / "sweep.duckdb").exists() else make
