"""The worker process: started once, on its own, and outliving whoever started it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from app import jobs
from runner.queue import hold_lock, waiting
from storage.data_folder import open_data_folder
from storage.side_files import asked, read_lines, status_of
from tests.support.patience import until
from tests.support.small_sweeps import quick_config


def workers(data_dir: Path) -> list[psutil.Process]:
    """Worker processes of this data folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if "runner" in line and str(data_dir) in line:
            found.append(process)
    return found


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """A data folder whose workers are gone when the test is over."""
    folder = open_data_folder(tmp_path / "data")
    yield folder
    for process in workers(folder):
        process.terminate()
        process.wait(60)


def test_a_sweep_is_measured_by_one_worker_in_a_session_of_its_own(data_dir: Path) -> None:
    """Starting twice gives one sweep and one process, which Ctrl-C for the dashboard can't reach; it measures."""
    config = quick_config()
    first = jobs.start_sweep(data_dir, config)
    assert jobs.start_sweep(data_dir, config) == first
    assert not jobs.ensure_worker(data_dir)
    (worker,) = workers(data_dir)
    assert os.getsid(worker.pid) == worker.pid
    folder = data_dir / "sweeps" / first
    until(lambda: status_of(folder) == "done")
    assert len(read_lines(folder, "cells.jsonl")) == 2
    again = jobs.start_sweep(data_dir, config)
    assert again != first


def test_the_worker_outlives_the_dashboard(data_dir: Path) -> None:
    """The process that started the sweep ends at once; the sweep is measured to its end all the same."""
    script = (
        "import sys; from pathlib import Path; from app import jobs; "
        "from tests.support.small_sweeps import quick_config; "
        "print(jobs.start_sweep(Path(sys.argv[1]), quick_config()))"
    )
    root = Path(jobs.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", script, str(data_dir)], cwd=root, capture_output=True, text=True, check=True
    )
    folder = data_dir / "sweeps" / done.stdout.strip()
    until(lambda: status_of(folder) == "done")


def test_no_worker_is_started_beside_another(data_dir: Path) -> None:
    """While somebody holds the lock, as a second container may, the sweep only waits."""
    with hold_lock(data_dir):
        sweep_id = jobs.start_sweep(data_dir, quick_config())
        assert workers(data_dir) == []
        assert waiting(data_dir) == [sweep_id]


def test_no_worker_is_started_when_nothing_waits(data_dir: Path) -> None:
    """A visit alone starts nothing."""
    assert not jobs.ensure_worker(data_dir)
    assert workers(data_dir) == []


def test_a_waiting_sweep_stops_at_once_and_resumes(data_dir: Path) -> None:
    """Stop takes it out of the queue; resume puts it back, once."""
    with hold_lock(data_dir):
        sweep_id = jobs.start_sweep(data_dir, quick_config())
        folder = data_dir / "sweeps" / sweep_id
        jobs.stop_sweep(data_dir, folder)
        assert (status_of(folder), waiting(data_dir)) == ("stopped", [])
        for _ in range(2):
            jobs.resume_sweep(data_dir, sweep_id)
        assert (status_of(folder), waiting(data_dir)) == ("queued", [sweep_id])
        assert not asked(folder, "stop")


def test_pause_is_a_wish_that_can_be_taken_back(data_dir: Path) -> None:
    """Asked, and asked again: no pause."""
    with hold_lock(data_dir):
        folder = data_dir / "sweeps" / jobs.start_sweep(data_dir, quick_config())
        jobs.toggle_pause(folder)
        assert asked(folder, "pause")
        jobs.toggle_pause(folder)
        assert not asked(folder, "pause")


def test_a_worker_log_that_grew_large_begins_anew(data_dir: Path) -> None:
    """The log never fills the disk: past a megabyte the next worker starts it over."""
    log = data_dir / jobs.LOG
    log.write_bytes(b"x" * (jobs.LOG_BYTES + 1))
    jobs.start_sweep(data_dir, quick_config())
    assert log.stat().st_size < jobs.LOG_BYTES
