"""Rows reach the sweep's database once each, whatever happens to the task that sends them there."""

import asyncio
import threading
from pathlib import Path

import pytest

from runner.writer import Writer
from storage.errors import StorageError
from storage.queries import read_sweep
from storage.records import ClientSample, EngineSample, RequestRecord, SweepMeta
from storage.sweep_store import SCHEMA_VERSION, SweepStore
from tests.support.tables import make_request

META = SweepMeta("20261129-181502-x-ab12", "x", SCHEMA_VERSION, "0.1.0", 5, True, "{}", "{}", "{}")


class Held(SweepStore):
    """A store whose next append waits until it is let go."""

    def __init__(self, store: SweepStore) -> None:
        self.__dict__.update(store.__dict__)
        self.began, self.go = threading.Event(), threading.Event()

    def append(self, *rows: list[RequestRecord] | list[EngineSample] | list[ClientSample]) -> None:
        self.began.set()
        assert self.go.wait(60)
        super().append(*rows)  # type: ignore[arg-type]


@pytest.mark.parametrize("queued", [True, False])
def test_a_flush_that_is_cancelled_loses_no_row_and_writes_none_twice(tmp_path: Path, queued: bool) -> None:
    """The end of a sweep cancels the flush of every second: while it waits for the thread, or while it writes."""
    held = Held(SweepStore.create(tmp_path, META))

    async def sweep() -> None:
        writer = Writer(lambda: held)
        await writer.open()
        writer.rows.requests.append(make_request(0))
        flushes = [asyncio.create_task(writer.flush())]
        await asyncio.to_thread(held.began.wait, 60)  # it writes
        if queued:
            writer.rows.requests.extend([make_request(1), make_request(2)])
            flushes.append(asyncio.create_task(writer.flush()))
            await asyncio.sleep(0)  # its turn: it waits for the thread
        for flush in flushes:
            flush.cancel()
        await asyncio.gather(*flushes, return_exceptions=True)
        writer.rows.requests.append(make_request(3))
        held.go.set()
        await writer.close()

    asyncio.run(sweep())
    assert list(read_sweep(tmp_path).requests["request"]) == ([0, 1, 2, 3] if queued else [0, 3])


def test_what_a_lost_disk_kept_from_the_database_is_not_counted_as_written(tmp_path: Path) -> None:
    """A flush that fails raises, and its rows are in the next one that succeeds."""
    store = SweepStore.create(tmp_path, META)
    broken = True

    class Full(Held):
        def append(self, *rows: list[RequestRecord] | list[EngineSample] | list[ClientSample]) -> None:
            if broken:
                raise StorageError("the disk is full")
            super().append(*rows)

    full = Full(store)
    full.go.set()

    async def sweep() -> None:
        nonlocal broken
        writer = Writer(lambda: full)
        await writer.open()
        writer.rows.requests.append(make_request(0))
        with pytest.raises(StorageError, match="full"):
            await writer.flush()
        broken = False
        await writer.close()

    asyncio.run(sweep())
    assert list(read_sweep(tmp_path).requests["request"]) == [0]
