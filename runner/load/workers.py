"""A cell's load made by several processes, when one event loop would be too slow for it."""

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from runner.errors import SettingFailed
from runner.load.messages import Batch, Job, pack, read_message
from storage.records import ClientSample, RequestRecord

READY_LIMIT_S = 60.0
GRACE_S = 30.0  # beyond the cell's own end; a process that says nothing until then hangs
STOP_LIMIT_S = 10.0
LAST_WORDS = 4000


@dataclass
class Workers:
    """The load processes of one cell. Use: `start`, `run`, and in any case `close`."""

    jobs: Sequence[Job]
    on_record: Callable[[RequestRecord], None]
    on_sample: Callable[[ClientSample], None]
    on_open_streams: Callable[[int], None]  # of all processes together
    clock_steps: int = 0
    _processes: list[asyncio.subprocess.Process] = field(default_factory=list)
    _errors: list[asyncio.Task[bytes]] = field(default_factory=list)
    _open: dict[int, int] = field(default_factory=dict)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    async def start(self) -> None:
        """Returns when every process has its job and is ready. Raises SettingFailed."""
        try:
            async with asyncio.timeout(READY_LIMIT_S):
                await self._start()
        except TimeoutError:
            raise SettingFailed("not_ready", f"a load process of ours did not start in {READY_LIMIT_S:g} s") from None

    async def _start(self) -> None:
        for _ in self.jobs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "runner.load.worker",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # Ctrl-C of the terminal is for the runner alone
            )
            assert process.stderr is not None
            self._processes.append(process)
            self._errors.append(asyncio.create_task(process.stderr.read()))
        await asyncio.gather(*(self._give(i, job) for i, job in enumerate(self.jobs)))

    async def run(self, origin_ns: int, stop: asyncio.Event) -> None:
        """Returns when every share has been recorded in full; `stop` cuts them all at once.

        Raises SettingFailed when a process dies or falls silent; the others are then cut, and what they recorded
        until then has been handed over.
        """
        for process in self._processes:
            _write(process, pack(origin_ns))
        end_ns = origin_ns + max(job.total_ns + job.drain_ns for job in self.jobs)
        watch = asyncio.create_task(self._end_in_time(stop, (end_ns - time.monotonic_ns()) / 1e9 + GRACE_S))
        listeners = [asyncio.create_task(self._listen(i)) for i in range(len(self._processes))]
        everything: asyncio.Future[Any] = asyncio.gather(*listeners)
        tasks: list[asyncio.Future[Any]] = [watch, everything, *listeners]
        try:
            await asyncio.wait(tasks[:2], return_when=asyncio.FIRST_COMPLETED)
            if everything.done():
                everything.result()
            else:
                watch.result()
        except SettingFailed:
            self._let_go()
            await asyncio.wait(listeners, timeout=STOP_LIMIT_S)
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """No process is left afterwards."""
        self._let_go()
        for process in self._processes:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), 0.5)
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        for task in self._errors:
            task.cancel()
        await asyncio.gather(*self._errors, return_exceptions=True)

    async def _give(self, number: int, job: Job) -> None:
        process = self._processes[number]
        assert process.stdout is not None
        _write(process, pack(job))
        try:
            await read_message(process.stdout)
        except EOFError:
            raise await self._died(number) from None

    async def _listen(self, number: int) -> None:
        """Hands over what one process tells, until it has told everything."""
        process = self._processes[number]
        assert process.stdout is not None
        while True:
            try:
                batch: Batch = await read_message(process.stdout)
            except EOFError:
                raise await self._died(number) from None
            for record in batch.records:
                self.on_record(record)
            for sample in batch.samples:
                self.on_sample(sample)
            self.clock_steps = max(self.clock_steps, batch.clock_steps)
            self._open[number] = batch.open_streams
            self.on_open_streams(sum(self._open.values()))
            if batch.finished:
                return

    async def _died(self, number: int) -> SettingFailed:
        """Why a process ended before its work was done, from its code and its last words."""
        process = self._processes[number]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STOP_LIMIT_S)
        words = ""
        if process.returncode is not None:
            words = (await self._errors[number]).decode(errors="replace").strip()[-LAST_WORDS:]
        last = words.splitlines()[-1] if words else f"exit code {process.returncode}"
        return SettingFailed(
            "exited",
            f"a load process of ours died while the cell was measured ({last})",
            exit_code=process.returncode,
            log_tail=words or None,
        )

    async def _end_in_time(self, stop: asyncio.Event, limit_s: float) -> None:
        """Cuts the load at a stop. Raises SettingFailed when the processes then, or at the limit, do not end."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), limit_s)
        self._let_go()
        await asyncio.sleep(STOP_LIMIT_S)
        raise SettingFailed("exited", "a load process of ours did not end; the cell was given up")

    def _let_go(self) -> None:
        """The end of its standard input tells a process to cut its load, record it and end."""
        for process in self._processes:
            if process.stdin is not None:
                process.stdin.close()


def _write(process: asyncio.subprocess.Process, data: bytes) -> None:
    """The pipe's buffer takes it; a process that has died is noticed where its answer is awaited."""
    assert process.stdin is not None
    with contextlib.suppress(ConnectionError, RuntimeError):
        process.stdin.write(data)
