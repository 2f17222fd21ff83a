"""The cases about the database, the pages and what is handed out."""

import csv
import io
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from app import jobs
from app.export import assets
from app.export.shared_page import read_page, render_page
from app.export_command import Source, json_export
from app.views.table import csv_text
from storage.data_folder import open_data_folder
from storage.errors import StorageError
from storage.queries import read_sweep
from storage.records import SweepMeta
from storage.side_files import list_sweeps, status_of
from storage.sweep_store import SCHEMA_VERSION, SweepStore
from tests.app.views.made_up import made_up_result, windows
from tests.cases.load_cases import load_cases
from tests.support.patience import PATIENCE_S, until
from tests.support.small_sweeps import quick_config
from tests.support.tables import make_request

CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in load_cases()}
SHORT = {"duration_s": 0.5, "warmup_s": 0.1, "drain_s": 2.0}
HOLD = """
import sys, duckdb
db = duckdb.connect(sys.argv[1])
print("open", flush=True)
sys.stdin.readline()
"""


def make_store(folder: Path, requests: int) -> SweepStore:
    """A sweep whose i-th request took i ms to its first token."""
    meta = SweepMeta("one", "one", SCHEMA_VERSION, "test", 0, False, "{}", "{}", "{}")
    store = SweepStore.create(folder, meta)
    store.append([make_request(i, at_ms=i, ttft_ms=i) for i in range(requests)], [], [])
    return store


@pytest.mark.parametrize("case_id", ["E01"])
def test_a_locked_database_is_one_plain_sentence(case_id: str, tmp_path: Path) -> None:
    """Path and holder are named, without a traceback and after a bounded time; once it is let go it is read."""
    make_store(tmp_path, 3).close()
    path = tmp_path / "sweep.duckdb"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        began = time.monotonic()
        with pytest.raises(StorageError, match=f"process {holder.pid} has it open") as told:
            read_sweep(tmp_path)
        assert time.monotonic() - began < 20
        assert str(tmp_path) in str(told.value)
        assert ("Traceback" not in str(told.value)) is CASES[case_id]["expected"]["no_traceback"]
        holder.stdin.write("\n")
        holder.stdin.flush()
        holder.wait(PATIENCE_S)
    assert len(read_sweep(tmp_path).requests) == 3


@pytest.mark.parametrize("case_id", ["E03"])
def test_eight_readers_beside_a_writer_mix_nothing_up(case_id: str, tmp_path: Path) -> None:
    """8 threads read two sweeps in turn while a third is written: no error, and every row is its own sweep's."""
    expected = CASES[case_id]["expected"]
    sizes = {"a": 5, "b": 9}
    for name, size in sizes.items():
        make_store(tmp_path / name, size).close()
    ended = threading.Event()

    def write() -> int:
        store, rows = make_store(tmp_path / "written", 1), 1
        while not ended.is_set():
            store.append([make_request(rows, at_ms=rows)], [], [])
            rows += 1
        store.close()
        return rows

    def read(worker: int) -> int:
        mixed = 0
        for turn in range(3):
            name = "ab"[(worker + turn) % 2]
            rows = read_sweep(tmp_path / name).requests
            ttft_ms = ((rows["first_chunk_ns"] - rows["scheduled_ns"]) / 1e6).tolist()
            mixed += ttft_ms != list(range(sizes[name]))
        return mixed

    with ThreadPoolExecutor(9) as threads:
        writing = threads.submit(write)
        try:
            mixed = list(threads.map(read, range(8)))
        finally:
            ended.set()
    assert sum(mixed) == expected["row_mixups"]
    assert len(read_sweep(tmp_path / "written").requests) == writing.result() > 1


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data folder whose workers are gone when the test is over."""
    folder = open_data_folder(tmp_path / "data")
    yield folder
    for process in psutil.process_iter(["cmdline"]):
        if str(folder) in (process.info["cmdline"] or []):
            process.terminate()
            process.wait(PATIENCE_S)


@pytest.mark.parametrize("case_id", ["E05"])
def test_a_script_run_that_ends_does_not_end_the_sweep(case_id: str, data: Path) -> None:
    """Started by a thread that ends, clicked again from two others and by five page runs: one sweep, all of it."""
    config = quick_config(grid={"max_num_seqs": [4], "request_rate": [60.0]}, run=SHORT)
    started: list[str] = []

    def script_run() -> None:
        started.append(jobs.start_sweep(data, config))

    for clicks in (1, 2):
        runs = [threading.Thread(target=script_run) for _ in range(clicks)]
        for one in runs:
            one.start()
        for one in runs:
            one.join()
    for _ in range(5):
        jobs.ensure_worker(data)
    expected = CASES[case_id]["expected"]
    assert len(set(started)) == len(list_sweeps(data)) == expected["sweeps_running"]
    folder = data / "sweeps" / started[0]
    until(lambda: status_of(folder) == "done")
    requests = read_sweep(folder).requests
    assert (len(requests) - int((requests["outcome"] == "ok").sum())) == expected["requests_lost"]
    assert len(requests) > 20


@pytest.mark.parametrize("case_id", ["E09"])
def test_the_report_opens_offline_and_carries_plotly_once(case_id: str) -> None:
    """Every figure has its place and its data, one packed copy of plotly draws them all, nothing is asked for."""
    expected = CASES[case_id]["expected"]
    page = render_page(made_up_result(), windows_s=windows())
    slots = re.findall(r'<div class="figure" id="fig-([\w-]+)"', page)
    assert len(slots) == len(set(slots)) >= 5
    assert page.count(assets.plotly_packed()) == expected["plotly_copies"]
    own = page.replace(assets.plotly_packed(), "")
    asked = re.findall(r"""<(?:script|link|img|iframe)[^>]*\s(?:src|href)\s*=|@import|url\(""", own)
    assert len(asked) == expected["external_requests"]
    assert "default-src 'none'" in own
    assert len(page.encode()) < float(expected["size_mb"].removeprefix("<")) * 1e6


@pytest.mark.parametrize("case_id", ["E10"])
def test_names_that_a_spreadsheet_would_run_are_text(case_id: str) -> None:
    """A quote goes before them in CSV and before no number; JSON and the page keep the exact names."""
    given, expected = CASES[case_id]["input"], CASES[case_id]["expected"]
    names, numbers = given["model_names"], given["numbers"]
    rows = [{"model": name, **{f"n{i}": n for i, n in enumerate(numbers)}} for name in names]
    read = list(csv.DictReader(io.StringIO(csv_text(rows, list(rows[0])), newline="")))
    for name, row in zip(names, read, strict=True):
        guarded = name[0] in "=+-@\t\r"
        assert row["model"] == (expected["text_cells_prefixed_with"] if guarded else "") + name
        assert [float(row[f"n{i}"]) for i in range(len(numbers))] == expected["numbers_unchanged"]
    result = {**made_up_result(), "name": names[0], "backend": {"models": names}}
    assert json.loads(json.dumps(result))["backend"]["models"] == names
    exported = json.loads(json_export(Source("x", result, None), private=True))["result"]
    assert (exported["name"], exported["backend"]["models"]) == (names[0], names)
    shared = read_page(render_page(result, include_private=True))["result"]
    assert (shared["name"], shared["backend"]["models"]) == (names[0], names)
