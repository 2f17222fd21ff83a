"""A cell's load made by several processes: the same requests as from one, and nothing left behind when one dies."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from runner.analysis.result import build_result
from runner.cell import CellTools
from runner.load.client import Target
from runner.load.messages import Job, pack
from runner.load.sender import SenderFacts
from runner.load.workload import PromptScale, RequestSpec, Trace
from runner.queue import enqueue, sweep_folder
from runner.work import run_one
from storage.data_folder import open_data_folder
from storage.queries import read_sweep
from tests.support.patience import until
from tests.support.small_sweeps import quick_config

ASKED = ["request", "class_name", "scheduled_ns", "prompt_tokens_asked", "output_tokens_asked"]
MIXED: dict[str, Any] = {
    "grid": {"request_rate": [30.0]},
    "classes": [
        {
            "name": "chat",
            "weight": 1,
            "prompt_tokens": {"p50": 12, "p90": 30, "max": 60},
            "output_tokens": {"p50": 6, "p90": 12, "max": 20},
            "slo": {"ttft_ms": 1000, "gap_ms": 500},
        },
        {"name": "agent", "closed": {"concurrency": 3}, "prompt_tokens": 10, "output_tokens": {"uniform": [4, 9]}},
    ],
}
LONGER = {"duration_s": 3.0, "warmup_s": 0.2, "drain_s": 1.0}


def forced(processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps in this process make their load with so many processes."""
    monkeypatch.setattr("runner.sweep.CellTools", partial(CellTools, processes=lambda *_: processes))


def load_processes_of(parent: int) -> list[psutil.Process]:
    found = []
    for p in psutil.Process(parent).children(recursive=True):
        try:
            if "runner.load.worker" in p.cmdline():
                found.append(p)
        except psutil.Error:
            continue
    return found


def gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_two_processes_send_what_one_sends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same arrivals and lengths in the open loop; in the closed one no request twice, each with the lengths it has
    when one process sends it; every record is there, with kernel stamps, and one row a second of each process."""
    data = open_data_folder(tmp_path / "data")
    frames = []
    for processes in (1, 2):
        forced(processes, monkeypatch)
        sweep_id = enqueue(data, quick_config(**MIXED), "test")
        seen: list[Mapping[str, Any]] = []
        assert run_one(data, sweep_id, seen.append) == "done"
        tables = read_sweep(sweep_folder(data, sweep_id))
        (cell,) = build_result(tables)["cells"]
        assert cell["status"] == "ok"
        assert cell["scheduled"] == cell["completed"] > 0
        assert max(line["open_streams"] for line in seen) <= 40
        assert max(line["sent"] for line in seen) <= len(tables.requests)
        frames.append(tables)
    one, two = (t.requests for t in frames)
    chat_one, chat_two = (r[r["class_name"] == "chat"][ASKED].reset_index(drop=True) for r in (one, two))
    assert chat_one.equals(chat_two)
    assert not two.duplicated("request").any()
    assert not two["outcome"].ne("ok").any()
    lengths = [
        {r.request: (r.prompt_tokens_asked, r.output_tokens_asked) for r in f[f["class_name"] == "agent"].itertuples()}
        for f in (one, two)
    ]
    both = lengths[0].keys() & lengths[1].keys()
    assert len(both) > 10
    assert all(lengths[0][n] == lengths[1][n] for n in both)
    if sys.platform == "linux":
        assert (two["clock"] == "kernel").all()
    assert len(frames[1].client) >= 2
    assert load_processes_of(os.getpid()) == []


def test_a_load_process_that_dies_fails_its_cell_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cell says what happened, the next one is measured, and no process is left."""
    forced(2, monkeypatch)
    data = open_data_folder(tmp_path / "data")
    sweep_id = enqueue(data, quick_config(grid={"max_num_seqs": [8], "request_rate": [30.0, 20.0]}, run=LONGER), "test")
    killed: list[psutil.Process] = []

    def kill_one(line: Mapping[str, Any]) -> None:
        if line["cell"] == 0 and line["sent"] and not killed:
            killed.extend(load_processes_of(os.getpid()))
            killed[0].kill()

    assert run_one(data, sweep_id, kill_one) == "done"
    assert len(killed) == 2
    cells = read_sweep(sweep_folder(data, sweep_id)).cells.sort_values("cell")
    assert list(cells["status"]) == ["failed", "ok"]
    assert cells.iloc[0]["error_kind"] == "exited"
    assert "load process" in cells.iloc[0]["error_detail"]
    assert cells.iloc[0]["exit_code"] == -signal.SIGKILL
    assert all(gone(p) for p in killed)
    assert load_processes_of(os.getpid()) == []


def test_a_load_process_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is still there but says nothing more fails the cell after its time, and is killed."""
    forced(2, monkeypatch)
    monkeypatch.setattr("runner.load.workers.GRACE_S", 0.2)
    monkeypatch.setattr("runner.load.workers.STOP_LIMIT_S", 0.5)
    data = open_data_folder(tmp_path / "data")
    run = {"duration_s": 4.0, "warmup_s": 0.2, "drain_s": 0.2}
    sweep_id = enqueue(data, quick_config(grid={"request_rate": [20.0]}, run=run), "test")
    held: list[psutil.Process] = []

    def hold_one(line: Mapping[str, Any]) -> None:
        if line["sent"] and not held:
            held.extend(load_processes_of(os.getpid()))
            held[0].suspend()

    assert run_one(data, sweep_id, hold_one) == "done"
    (cell,) = read_sweep(sweep_folder(data, sweep_id)).cells.itertuples()
    assert (cell.status, cell.error_kind) == ("failed", "exited")
    assert "did not end" in cell.error_detail
    assert len(held) == 2
    assert all(gone(p) for p in held)


def test_a_stop_cuts_the_load_of_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep is stopped well before its cell's end, with a record for every request of the window."""
    forced(2, monkeypatch)
    data = open_data_folder(tmp_path / "data")
    run = {"duration_s": 60, "warmup_s": 0.2, "drain_s": 1.0}
    sweep_id = enqueue(data, quick_config(grid={"request_rate": [20.0]}, run=run), "test")
    folder = sweep_folder(data, sweep_id)

    def stop(line: Mapping[str, Any]) -> None:
        if line["completed"]:
            (folder / "stop").touch()

    began = time.monotonic()
    assert run_one(data, sweep_id, stop) == "stopped"
    assert time.monotonic() - began < 40
    requests = read_sweep(folder).requests
    assert sorted(requests["request"]) == list(range(len(requests)))
    assert len(requests) > 900  # 60 s x 20/s, of which most were never sent
    assert set(requests["outcome"]) == {"ok", "cancelled"}
    assert load_processes_of(os.getpid()) == []


RUN_FORCED = """
import sys
from functools import partial
from pathlib import Path
import runner.sweep
from runner.work import run_one
runner.sweep.CellTools = partial(runner.sweep.CellTools, processes=lambda *_: 2)
run_one(Path(sys.argv[1]), sys.argv[2], lambda line: print(line["sent"], flush=True))
"""


def test_load_processes_end_with_a_killed_runner(tmp_path: Path) -> None:
    """After kill -9 of the runner its load processes see their standard input end, and end too."""
    data = open_data_folder(tmp_path / "data")
    run = {"duration_s": 120, "warmup_s": 0.2, "drain_s": 1.0}
    sweep_id = enqueue(data, quick_config(grid={"request_rate": [20.0]}, run=run), "test")
    runner = subprocess.Popen([sys.executable, "-c", RUN_FORCED, str(data), sweep_id], stdout=subprocess.PIPE)
    family: list[psutil.Process] = []
    try:
        assert runner.stdout is not None
        while int(runner.stdout.readline() or b"-1") == 0:
            pass
        family = psutil.Process(runner.pid).children(recursive=True)
        workers = load_processes_of(runner.pid)
        assert len(workers) == 2
        runner.kill()
        runner.wait()
        until(lambda: all(gone(p) for p in workers), 20)
    finally:
        runner.kill()
        runner.wait()
        for p in family:  # the engine, which a resume would end
            if not gone(p):
                p.kill()


def test_a_load_process_ends_at_once_when_told_to_stop() -> None:
    """SIGTERM in the middle of a load: it is cut, recorded, told, and the process ends with code 0."""
    specs = tuple(RequestSpec(i, "chat", 0, i * 1_000_000_000, 4, 4, i, i) for i in range(1, 100))
    facts = SenderFacts(Target("http://127.0.0.1:9"), None, PromptScale(), {})
    job = Job(Trace(specs), facts, 0, 100_000_000_000, 1_000_000_000)
    with subprocess.Popen(
        [sys.executable, "-m", "runner.load.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(pack(job))
        process.stdin.flush()
        ready = pack("ready")
        assert process.stdout.read(len(ready)) == ready
        process.stdin.write(pack(time.monotonic_ns()))
        process.stdin.flush()
        process.stdout.read(8)  # the first batch
        process.terminate()
        process.stdout.read()
        assert process.wait(30) == 0
