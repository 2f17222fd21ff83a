"""What the runner and its load processes say to each other: pickled values, each behind its length.

Both ends are this program on this machine, joined by a pipe that nobody else can write to: pickle is safe here.
"""

import asyncio
import pickle
import struct
from dataclasses import dataclass
from typing import Any

from runner.load.sender import SenderFacts
from runner.load.workload import Trace
from storage.records import ClientSample, RequestRecord

_LENGTH = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Job:
    """One process's share of a cell. Its origin is sent later, when every process is ready."""

    trace: Trace
    sender: SenderFacts
    cell: int
    total_ns: int  # from the origin to the end of sending
    drain_ns: int


@dataclass(frozen=True, slots=True)
class Batch:
    """What a load process has seen since its last one."""

    records: tuple[RequestRecord, ...] = ()
    samples: tuple[ClientSample, ...] = ()
    open_streams: int = 0
    clock_steps: int = 0
    finished: bool = False  # the last one: all of its share is recorded


def pack(message: object) -> bytes:
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(data)) + data


async def read_message(reader: asyncio.StreamReader) -> Any:  # noqa: ANN401 - whatever was packed
    """The next message. Raises EOFError when the other end is gone, also in the middle of one."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        return pickle.loads(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        raise EOFError("the other end of the pipe is closed") from None
