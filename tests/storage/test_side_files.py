"""The small files: replaced whole, read without ever raising, and honest about who still lives."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.errors import StorageError
from storage.json_files import read_json, write_json
from storage.side_files import (
    append_line,
    ask,
    asked,
    is_live,
    list_sweeps,
    pid_space,
    read_lines,
    read_state,
    status_of,
    withdraw,
    write_state,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(), JSON, max_size=4), max_size=12)
quick = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def me(**more: object) -> dict[str, Any]:
    """The state a living runner (this process) would write now."""
    born = psutil.Process().create_time()
    return {"status": "running", "pid": os.getpid(), "create_time": born, "heartbeat_unix_ns": time.time_ns(), **more}


def make_sweep(data_dir: Path, sweep_id: str, created: int, state: dict[str, Any] | None) -> Path:
    """Writes a sweep folder of side files only."""
    folder = data_dir / "sweeps" / sweep_id
    folder.mkdir(parents=True)
    config = {"backend": {"kind": "vllm"}}
    write_json(
        folder / "sweep.json",
        {
            "sweep_id": sweep_id,
            "name": f"n{created}",
            "created_unix_ns": created,
            "config": config,
            "simulated": created % 2 == 1,
        },
    )
    if state is not None:
        write_state(folder, state)
    return folder


@quick
@given(OBJECTS, st.integers(0, 400))
def test_a_line_torn_anywhere_costs_only_itself(tmp_path: Path, rows: list[dict[str, Any]], cut: int) -> None:
    """After a cut in the last line every whole line reads back, and the next line appended is whole again."""
    path = tmp_path / "live.jsonl"
    path.unlink(missing_ok=True)
    for row in rows:
        append_line(tmp_path, "live.jsonl", row)
    whole = path.read_bytes() if rows else b""
    last_line = len(whole.rstrip(b"\n").split(b"\n")[-1]) + 1 if rows else 0
    lost = min(cut, last_line)
    if rows:
        path.write_bytes(whole[: len(whole) - lost])
    kept = rows if lost <= 1 else rows[:-1]  # losing the newline alone loses nothing
    assert read_lines(tmp_path, "live.jsonl") == kept
    append_line(tmp_path, "live.jsonl", {"next": 1})
    assert read_lines(tmp_path, "live.jsonl") == [*kept, {"next": 1}]


@quick
@given(OBJECTS, st.integers(0, 14))
def test_the_last_lines_are_the_end_of_all_lines(tmp_path: Path, rows: list[dict[str, Any]], last: int) -> None:
    """read_lines(last=k) equals the last k of read_lines()."""
    (tmp_path / "cells.jsonl").unlink(missing_ok=True)
    for row in rows:
        append_line(tmp_path, "cells.jsonl", row)
    assert read_lines(tmp_path, "cells.jsonl", last) == (rows[-last:] if last else [])


def test_the_last_lines_of_a_long_file(tmp_path: Path) -> None:
    """Lines longer than the first look at the tail are still found whole."""
    rows = [{"n": i, "pad": "ü" * 20_000} for i in range(12)]
    for row in rows:
        append_line(tmp_path, "live.jsonl", row)
    assert read_lines(tmp_path, "live.jsonl", 1) == rows[-1:]
    assert read_lines(tmp_path, "live.jsonl", 9) == rows[-9:]
    assert read_lines(tmp_path, "live.jsonl", 99) == rows


@quick
@given(st.binary(max_size=300))
def test_any_bytes_read_as_nothing_or_as_objects(tmp_path: Path, junk: bytes) -> None:
    """Readers take any bytes without raising and return only JSON objects."""
    for name in ("state.json", "live.jsonl"):
        (tmp_path / name).write_bytes(junk)
    assert read_state(tmp_path) is None or isinstance(read_state(tmp_path), dict)
    assert all(isinstance(row, dict) for row in read_lines(tmp_path, "live.jsonl"))
    assert isinstance(status_of(tmp_path), str)


def test_missing_files_read_as_nothing(tmp_path: Path) -> None:
    """No file: no state, no lines; also where the folder is missing, or a file."""
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path, tmp_path / "none", tmp_path / "file"):
        assert read_state(folder) is None
        assert read_lines(folder, "live.jsonl") == []
        assert read_lines(folder, "live.jsonl", 5) == []
        assert status_of(folder) == "interrupted"


def test_json_on_disk_is_strict(tmp_path: Path) -> None:
    """NaN and Infinity are written as null, at any depth; nothing but the file is left behind."""
    write_state(tmp_path, {"status": "done", "a": float("nan"), "b": [1.5, {"c": float("-inf")}]})
    assert json.loads((tmp_path / "state.json").read_text(), parse_constant=lambda word: pytest.fail(word)) == {
        "status": "done",
        "a": None,
        "b": [1.5, {"c": None}],
    }
    assert os.listdir(tmp_path) == ["state.json"]


def test_a_reader_never_sees_half_a_state(tmp_path: Path) -> None:
    """While another process replaces state.json again and again, every read is one whole state."""
    script = f"""
from pathlib import Path
from storage.side_files import write_state
for n in range(300):
    write_state(Path({str(tmp_path)!r}), {{"status": "running", "cell": n, "message": "x" * 50 * n}})
"""
    write_state(tmp_path, {"status": "running", "cell": 0, "message": ""})
    seen = 0
    with subprocess.Popen([sys.executable, "-c", script]) as child:
        while child.poll() is None:
            state = read_state(tmp_path)
            assert state is not None
            assert len(state["message"]) == 50 * state["cell"]
            seen = state["cell"]
    assert child.returncode == 0
    assert seen > 0


def test_writing_below_a_file_is_said_plainly(tmp_path: Path) -> None:
    """A state, line or wish that cannot be written raises one sentence with the path."""
    (tmp_path / "f").write_text("x")
    writes: tuple[Callable[[], None], ...] = (
        lambda: write_state(tmp_path / "f", {}),
        lambda: append_line(tmp_path / "f", "live.jsonl", {}),
        lambda: ask(tmp_path / "f", "stop"),
    )
    for write in writes:
        with pytest.raises(StorageError, match="cannot be written") as e:
            write()
        assert str(tmp_path) in str(e.value)


def test_wishes_stand_until_withdrawn(tmp_path: Path) -> None:
    """ask, asked, withdraw; twice is like once."""
    assert not asked(tmp_path, "stop")
    ask(tmp_path, "stop")
    ask(tmp_path, "stop")
    assert asked(tmp_path, "stop")
    assert not asked(tmp_path, "pause")
    withdraw(tmp_path, "stop")
    withdraw(tmp_path, "stop")
    assert not asked(tmp_path, "stop")


@pytest.mark.parametrize("status", ["queued", "done", "failed", "stopped"])
def test_a_resting_status_needs_no_living_runner(tmp_path: Path, status: str) -> None:
    """Waiting and ended sweeps are what their state says."""
    write_state(tmp_path, {"status": status})
    assert status_of(tmp_path) == status


@pytest.mark.parametrize("status", ["starting", "running", "paused"])
def test_a_live_status_needs_a_living_runner(tmp_path: Path, status: str) -> None:
    """Running with a fresh heartbeat of a living process is running; stale, another start time or a gone pid is not."""
    write_state(tmp_path, me(status=status))
    assert status_of(tmp_path) == status
    for wrong in (
        {"heartbeat_unix_ns": time.time_ns() - 11_000_000_000},
        {"heartbeat_unix_ns": time.time_ns() + 60_000_000_000},
        {"heartbeat_unix_ns": None},
        {"create_time": psutil.Process().create_time() - 100},
        {"pid": 2**22 + 1},
        {"pid": -5},
    ):
        write_state(tmp_path, me(status=status, **wrong))
        assert status_of(tmp_path) == "interrupted", wrong


def test_a_killed_runner_is_noticed_at_once(tmp_path: Path) -> None:
    """A process that is gone, or a zombie nobody has waited for, makes a fresh heartbeat worth nothing."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    state = me(pid=child.pid, create_time=psutil.Process(child.pid).create_time())
    write_state(tmp_path, state)
    assert status_of(tmp_path) == "running"
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, but still in the process table
    assert status_of(tmp_path) == "interrupted"
    child.communicate()
    assert status_of(tmp_path) == "interrupted"


def test_a_runner_in_another_container_is_judged_by_its_heartbeat() -> None:
    """Its pid means nothing here, so only the heartbeat counts."""
    other = me(pid=2**22 + 1, pid_space="nas pid:[1]")
    now = time.time_ns()
    assert is_live(other, now)
    assert not is_live(other, now + 11_000_000_000)
    assert not is_live({**other, "pid_space": pid_space()}, now)


def test_the_list_is_newest_first_and_tells_each_sweep(tmp_path: Path) -> None:
    """Name, status, progress, verdict and simulated come from the side files."""
    make_sweep(tmp_path, "a", 1, {"status": "done", "cells_total": 4, "cells_done": 4, "verdict": "8 slots"})
    make_sweep(tmp_path, "b", 2, me(cells_total=9, cells_done=2))
    first, second = list_sweeps(tmp_path)
    assert (first.sweep_id, first.name, first.status, first.cells_total, first.cells_done) == (
        "b",
        "n2",
        "running",
        9,
        2,
    )
    assert (first.verdict, first.simulated) == (None, False)
    assert (second.status, second.verdict, second.simulated) == ("done", "8 slots", True)
    assert second.folder == tmp_path / "sweeps" / "a"


def test_a_bad_folder_never_breaks_the_list(tmp_path: Path) -> None:
    """Strange folders are listed as damaged, hidden and loose files not at all, and a missing data folder is empty."""
    assert list_sweeps(tmp_path / "none") == []
    make_sweep(tmp_path, "good", 5, {"status": "done"})
    sweeps = tmp_path / "sweeps"
    (sweeps / "empty").mkdir()
    (sweeps / ".deleted-x").mkdir()
    (sweeps / "loose.txt").write_text("x")
    for name, content in (("torn", b'{"name": "x'), ("list", b"[1]"), ("deep", b"[" * 100_000), ("bytes", b"\xff\x00")):
        (sweeps / name).mkdir()
        (sweeps / name / "sweep.json").write_bytes(content)
    strange = make_sweep(tmp_path, "strange", 7, {"status": ["x"], "cells_total": "many", "verdict": 3})
    write_json(strange / "sweep.json", {"name": {"a": 1}, "created_unix_ns": "now", "config": [1]})
    (make_sweep(tmp_path, "folder-as-file", 6, None) / "state.json").mkdir()
    found = {s.sweep_id: s.status for s in list_sweeps(tmp_path)}
    damaged = {n: "damaged" for n in ("empty", "torn", "list", "deep", "bytes")}
    assert found == {"good": "done", "strange": "interrupted", "folder-as-file": "interrupted", **damaged}


def test_two_hundred_sweeps_are_listed_quickly(tmp_path: Path) -> None:
    """The list costs two small reads a sweep: far below the time of opening two hundred databases."""
    for n in range(200):
        make_sweep(tmp_path, f"s{n:03}", n, {"status": "done"})
    started = time.process_time()
    assert [s.created_unix_ns for s in list_sweeps(tmp_path)] == list(range(199, -1, -1))
    assert time.process_time() - started < 2


def test_a_state_is_read_as_written(tmp_path: Path) -> None:
    """What write_state got is what read_state gives, with the pid's home added."""
    write_state(tmp_path, {"status": "done", "message": "fertig ☃ \ud800"})
    assert read_state(tmp_path) == {"status": "done", "message": "fertig ☃ \ud800"}
    write_state(tmp_path, {"status": "running", "pid": 5})
    assert read_json(tmp_path / "state.json") == {"status": "running", "pid": 5, "pid_space": pid_space()}
