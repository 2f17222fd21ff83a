"""Starts the worker process and asks it for things. The worker outlives the dashboard: it has a session of its own."""

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.config import SweepConfig
from runner.errors import ConfigError
from runner.queue import enqueue, next_waiting, put_in_queue, read_config, stop_waiting
from storage.data_folder import locked
from storage.side_files import LIVE, ask, asked, list_sweeps, status_of, withdraw

LOG = "runner.log"
LOG_BYTES = 1_000_000
_ROOT = Path(__file__).resolve().parent.parent
_guard = threading.Lock()
_started: dict[Path, subprocess.Popen[bytes]] = {}  # the worker this process started last, by data folder


def start_sweep(
    data_dir: Path,
    config: SweepConfig,
    source: str = "dashboard",
    *,
    base: Path = Path(),
    simulated: bool = False,
    profile: Mapping[str, Any] | None = None,
) -> str:
    """Queues a sweep and sees that somebody measures it; returns its id.

    The same sweep that waits or runs already is not queued again: a double click, a second tab or a resent form gives
    one sweep. `simulated`: in virtual time, with the speed of `profile` (an EngineProfile as plain data) or of the
    config. `base`: where the paths of recorded traces begin. Raises StorageError.
    """
    with _guard:
        sweep_id = _same_sweep(data_dir, config) or enqueue(
            data_dir, config, source, base, simulated=simulated, profile=profile
        )
    ensure_worker(data_dir)
    return sweep_id


def _same_sweep(data_dir: Path, config: SweepConfig) -> str | None:
    for sweep in list_sweeps(data_dir):
        if sweep.status in ("queued", *LIVE) and not sweep.simulated:
            try:
                if read_config(sweep.folder) == config:
                    return sweep.sweep_id
            except ConfigError:
                continue
    return None


def resume_sweep(data_dir: Path, sweep_id: str) -> None:
    """Lets a sweep that ended early go on; its finished cells stay. Raises BusyError, StorageError."""
    with _guard:
        if status_of(data_dir / "sweeps" / sweep_id) not in ("queued", *LIVE):
            put_in_queue(data_dir, sweep_id)
    ensure_worker(data_dir)


def stop_sweep(data_dir: Path, folder: Path) -> None:
    """Stops a sweep that runs, or takes one that only waits out of the queue. Raises StorageError."""
    ask(folder, "stop")
    if status_of(folder) == "queued":
        stop_waiting(data_dir, folder.name)


def toggle_pause(folder: Path) -> None:
    """Pauses after the cell that runs, or goes on. Raises StorageError."""
    if asked(folder, "pause"):
        withdraw(folder, "pause")
    else:
        ask(folder, "pause")


def go_on(folder: Path) -> None:
    """The person has changed the server as the sweep asked. Raises StorageError."""
    ask(folder, "continue")


def ensure_worker(data_dir: Path) -> bool:
    """Starts a worker if a sweep waits and nobody works on the data folder; True if one was started.

    Cheap enough for every page run. A worker that loses the race for the lock ends by itself.
    """
    with _guard:
        mine = _started.get(data_dir)
        if mine is not None and mine.poll() is None:
            return False
        if next_waiting(data_dir) is None or _somebody_works(data_dir):
            return False
        _started[data_dir] = start_worker(data_dir)
        return True


def _somebody_works(data_dir: Path) -> bool:
    with locked(data_dir, {}) as holder:
        return holder is not None


def start_worker(data_dir: Path) -> subprocess.Popen[bytes]:
    """`python -m runner` in a session of its own, so that Ctrl-C for the dashboard does not reach it."""
    log = data_dir / LOG
    fresh = log.exists() and log.stat().st_size > LOG_BYTES
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    with log.open("wb" if fresh else "ab") as out:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "runner", "--data", str(data_dir), "--exit-when-idle"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,
        )
