"""Runs sweeps in this process: one by name, or whatever waits in the queue. Used by the worker and the command line."""

import asyncio
import contextlib
import os
import signal
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runner.engines.orphan import end_orphans
from runner.live import Progress
from runner.load.event_loop import new_event_loop
from runner.queue import hold_lock, next_waiting, remove
from runner.sweep import run_sweep
from storage.errors import GoodputError

IDLE_LOOK_S = 0.5
IDLE_EXIT_S = 30.0


def run_one(
    data_dir: Path, sweep_id: str, on_progress: Progress, on_result: Callable[[dict[str, Any]], None] | None = None
) -> str:
    """Measures one sweep to its end under the lock; returns its status. Ctrl-C and TERM stop it in order. `on_result`:
    see `run_sweep`.

    Raises BusyError when another runner holds the folder, GoodputError for what stops a sweep.
    """
    with hold_lock(data_dir):
        end_orphans(data_dir)
        remove(data_dir, sweep_id)
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(_one(data_dir, sweep_id, on_progress, on_result))


async def _one(
    data_dir: Path, sweep_id: str, on_progress: Progress, on_result: Callable[[dict[str, Any]], None] | None
) -> str:
    stop = asyncio.Event()
    _stop_on_signals(stop)
    return await run_sweep(data_dir, sweep_id, stop=stop, on_progress=on_progress, on_result=on_result)


def run_queue(data_dir: Path, *, exit_when_idle: bool) -> None:
    """Measures what waits, first come first served, until told to end (or until nothing waited for 30 s).

    A sweep that fails is told on stderr and in its state; the next one goes on. Raises BusyError.
    """
    with hold_lock(data_dir):
        end_orphans(data_dir)
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_queue(data_dir, exit_when_idle))


async def _queue(data_dir: Path, exit_when_idle: bool) -> None:
    end = asyncio.Event()
    _stop_on_signals(end)
    idle_since = time.monotonic()
    while not end.is_set():
        sweep_id = next_waiting(data_dir)
        if sweep_id is None:
            if exit_when_idle and time.monotonic() - idle_since > IDLE_EXIT_S:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(end.wait(), IDLE_LOOK_S)
            continue
        remove(data_dir, sweep_id)
        stop = asyncio.Event()
        relay = asyncio.create_task(_relay(end, stop))
        try:
            await run_sweep(data_dir, sweep_id, stop=stop)
        except GoodputError as e:
            print(f"{sweep_id}: {e}", file=sys.stderr, flush=True)
        finally:
            relay.cancel()
        idle_since = time.monotonic()


async def _relay(end: asyncio.Event, stop: asyncio.Event) -> None:
    """A sweep's own stop must not end the worker, but the worker's end stops its sweep."""
    await end.wait()
    stop.set()


def _stop_on_signals(event: asyncio.Event) -> None:
    """Ctrl-C, TERM, and a terminal that went away, as a lost ssh connection does it (unless nohup shields us)."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # no signal handlers in a Windows loop
            loop.add_signal_handler(number, event.set)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, _hung_up, event)


def _hung_up(event: asyncio.Event) -> None:
    """What is written to the terminal from now on goes nowhere: an error there must not cut the orderly end."""
    event.set()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        with contextlib.suppress(OSError):  # closed
            if stat.S_ISCHR(os.fstat(number).st_mode):  # a terminal, which does not call itself one any more
                os.dup2(nowhere, number)
    os.close(nowhere)
