"""One load process: `python -m runner.load.worker`. Started by `runner.load.workers`, never by hand.

Standard input brings a job, then the cell's origin; standard output takes the batches. Standard input stays open as
long as the runner lives and wants more: at its end, and at SIGTERM, the load is cut, recorded, and the process ends.
"""

import asyncio
import contextlib
import signal
import sys
import time

import httpx

from runner.load.clock import Clock
from runner.load.event_loop import new_event_loop
from runner.load.garbage import freeze
from runner.load.generator import run_load
from runner.load.loop_health import watch_loop
from runner.load.messages import Batch, Job, pack, read_message
from runner.load.sender import Pending, Sender
from runner.load.transport import StampedTransport
from runner.load.workload import RequestSpec
from storage.records import ClientSample, RequestRecord

BATCH_S = 0.1


async def work() -> None:
    reader, writer = await _standard_streams()
    stop = asyncio.Event()
    with contextlib.suppress(NotImplementedError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    job: Job = await read_message(reader)
    clock = Clock()
    transport = StampedTransport(clock=clock)
    async with httpx.AsyncClient(transport=transport, trust_env=False, timeout=30.0) as client:
        sender = Sender(client, transport, job.sender)
        load = _Load(job, sender, clock, writer)
        await sender.open_ahead(job.trace)
        freeze()
        writer.write(pack("ready"))
        origin_ns: int = await read_message(reader)
        leash = asyncio.create_task(_stop_at_end(reader, stop))
        await load.run(origin_ns, stop)
        leash.cancel()


async def _standard_streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


async def _stop_at_end(reader: asyncio.StreamReader, stop: asyncio.Event) -> None:
    """The runner closes the pipe to stop the load; it closes too when the runner is killed."""
    await reader.read()
    stop.set()


class _Load:
    """The job as it runs, and what of it has not been told yet."""

    def __init__(self, job: Job, sender: Sender, clock: Clock, writer: asyncio.StreamWriter) -> None:
        self._job, self._sender, self._clock, self._writer = job, sender, clock, writer
        self._records: list[RequestRecord] = []
        self._samples: list[ClientSample] = []
        self._open_streams = 0
        self._steps_before = clock.steps

    async def run(self, origin_ns: int, stop: asyncio.Event) -> None:
        job = self._job

        async def send(spec: RequestSpec, scheduled_ns: int) -> RequestRecord | Pending:
            self._open_streams += 1
            try:
                return await self._sender.send(spec, job.cell, scheduled_ns, origin_ns)
            finally:
                self._open_streams -= 1

        helpers = [
            watch_loop(
                job.cell,
                origin_ns=origin_ns,
                now_ns=time.monotonic_ns,
                open_streams=lambda: self._open_streams,
                on_sample=self._samples.append,
            ),
            self._sender.keep_ahead(),
            self._tell_regularly(),
        ]
        tasks = [asyncio.create_task(h) for h in helpers]
        await run_load(
            job.trace,
            send,
            origin_ns=origin_ns,
            end_ns=origin_ns + job.total_ns,
            drain_ns=job.drain_ns,
            now_ns=time.monotonic_ns,
            on_record=self._records.append,
            stop=stop,
            max_in_flight={},
            cell=job.cell,
        )
        for task in tasks:
            task.cancel()
        self._tell(finished=True)
        self._writer.transport.set_write_buffer_limits(0)
        await self._writer.drain()  # with limits of 0: until the pipe has taken everything

    async def _tell_regularly(self) -> None:
        while True:
            await asyncio.sleep(BATCH_S)
            self._tell()

    def _tell(self, finished: bool = False) -> None:
        records, samples = tuple(self._records), tuple(self._samples)
        self._records.clear()
        self._samples.clear()
        steps = self._clock.steps - self._steps_before
        self._writer.write(pack(Batch(records, samples, self._open_streams, steps, finished)))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the runner stops us in order
    with asyncio.Runner(loop_factory=new_event_loop) as runner, contextlib.suppress(EOFError, ConnectionError):
        runner.run(work())  # the runner is gone: nobody is left to tell


if __name__ == "__main__":
    main()
