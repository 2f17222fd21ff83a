"""Sweeps wait in order, ids are safe, and one runner owns a data folder."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.config import SweepConfig
from runner.engines.orphan import write_pid_file
from runner.errors import BusyError, ConfigError
from runner.queue import (
    delete_sweep,
    enqueue,
    find_sweep,
    hold_lock,
    new_sweep_id,
    next_waiting,
    put_in_queue,
    read_config,
    remove,
    sweep_folder,
    waiting,
)
from storage.errors import StorageError
from storage.side_files import ask, asked, list_sweeps, status_of, write_state

CONFIG = SweepConfig.model_validate(
    {
        "name": "How many chats fit?",
        "backend": {"kind": "simulated", "preset": "x"},
        "grid": {"max_num_seqs": [1, 4], "request_rate": [0.5, 1, 2.0], "flag": [True, False]},
        "classes": [
            {"name": "chat", "weight": 1, "prompt_tokens": 10, "output_tokens": {"p50": 5, "p90": 9}},
            {"name": "jobs", "closed": {"concurrency": 2}, "prompt_tokens": {"uniform": [1, 9]}, "output_tokens": 4},
        ],
    }
)


def running_state() -> dict[str, Any]:
    """The state of a sweep measured by this process right now."""
    born = psutil.Process().create_time()
    return {"status": "running", "pid": os.getpid(), "create_time": born, "heartbeat_unix_ns": time.time_ns()}


def test_a_queued_sweep_has_all_it_needs(tmp_path: Path) -> None:
    """enqueue writes sweep.json, the state and the ticket; the config reads back equal."""
    sweep_id = enqueue(tmp_path, CONFIG, "demo.toml")
    folder = sweep_folder(tmp_path, sweep_id)
    sweep = json.loads((folder / "sweep.json").read_text())
    assert set(sweep) == {"sweep_id", "name", "created_unix_ns", "source", "config", "traces"}
    assert (sweep["sweep_id"], sweep["name"], sweep["source"]) == (sweep_id, "How many chats fit?", "demo.toml")
    assert read_config(folder) == CONFIG
    assert [type(v) for v in read_config(folder).grid["flag"]] == [bool, bool]
    (summary,) = list_sweeps(tmp_path)
    assert (summary.status, summary.cells_total, summary.cells_done, summary.simulated) == ("queued", 12, 0, False)
    assert next_waiting(tmp_path) == sweep_id


def test_a_grid_that_no_result_could_hold_is_not_queued(tmp_path: Path) -> None:
    """51,000 cells: refused with the numbers, whoever said that it is meant; nothing is left in the folder."""
    grid = {"max_num_seqs": list(range(1, 256)), "request_rate": [x / 10 for x in range(1, 201)]}
    config = CONFIG.model_copy(update={"grid": grid})
    with pytest.raises(ConfigError, match=r"51,000 cells, and one result holds at most 50,000; split \[grid\]"):
        enqueue(tmp_path, config, "x")
    assert list(tmp_path.iterdir()) == []


def test_first_come_first_measured(tmp_path: Path) -> None:
    """The queue keeps the order of enqueuing, also within one second; removing twice is like once."""
    ids = [enqueue(tmp_path, CONFIG, "x") for _ in range(8)]
    assert len(set(ids)) == 8
    assert waiting(tmp_path) == ids
    assert next_waiting(tmp_path) == ids[0]
    remove(tmp_path, ids[0])
    remove(tmp_path, ids[0])
    assert waiting(tmp_path) == ids[1:]


def test_an_empty_or_missing_queue_has_nothing(tmp_path: Path) -> None:
    """No ticket, no sweep; tickets without a sweep, torn ones and strange names are left out."""
    assert next_waiting(tmp_path) is None
    sweep_id = enqueue(tmp_path, CONFIG, "x")
    (tmp_path / "queue" / "gone.json").write_text("{}")
    (tmp_path / "queue" / "..json").write_text("{}")
    (tmp_path / "queue" / f"{sweep_id}.json").write_text("{torn")
    assert waiting(tmp_path) == [sweep_id]


def test_going_on_forgets_old_wishes_and_keeps_the_progress(tmp_path: Path) -> None:
    """put_in_queue of an interrupted sweep withdraws stop, pause and skip and keeps the cell counts."""
    sweep_id = enqueue(tmp_path, CONFIG, "x")
    remove(tmp_path, sweep_id)
    folder = sweep_folder(tmp_path, sweep_id)
    write_state(folder, {"status": "stopped", "cells_total": 12, "cells_done": 5, "pid": 1, "message": "old"})
    ask(folder, "stop")
    ask(folder, "skip")
    put_in_queue(tmp_path, sweep_id)
    assert not asked(folder, "stop")
    assert not asked(folder, "skip")
    assert json.loads((folder / "state.json").read_text()) == {"status": "queued", "cells_total": 12, "cells_done": 5}
    assert waiting(tmp_path) == [sweep_id]
    write_state(folder, running_state())
    with pytest.raises(BusyError, match="being measured already"):
        put_in_queue(tmp_path, sweep_id)


@given(st.text(min_size=1, max_size=200), st.integers(0, 4_000_000_000))
def test_any_name_gives_a_safe_id(name: str, created_s: int) -> None:
    """Ids are lower-case letters, digits and hyphens, short, and pass their own check."""
    sweep_id = new_sweep_id(name, created_s * 1_000_000_000)
    assert re.fullmatch(r"\d{8}-\d{6}-[a-z0-9]([a-z0-9-]*[a-z0-9])?-[a-z2-9]{4}", sweep_id)
    assert len(sweep_id) <= 61
    assert sweep_folder(Path("d"), sweep_id) == Path("d/sweeps") / sweep_id


def test_ids_are_readable_and_sort_by_time() -> None:
    """The id starts with UTC date and time and the name; a later one sorts later."""
    second = 1_000_000_000
    t = 1_795_976_102 * second  # 2026-11-29 18:15:02 UTC
    assert new_sweep_id("How many chats fit?", t).startswith("20261129-181502-how-many-chats-fit-")
    assert new_sweep_id("☃", t).startswith("20261129-181502-sweep-")
    ids = [new_sweep_id("zzz", t + i * second)[:15] for i in (0, 58, 3600, 86400 * 40)]
    assert ids == sorted(ids)


@pytest.mark.parametrize(
    "bad", ["", ".", "..", "../x", "a/b", "a\\b", "/etc", ".hidden", "a\x00b", "a\nb", "ü", "x" * 101, "-rf"]
)
def test_no_id_leads_out_of_the_folder(tmp_path: Path, bad: str) -> None:
    """Whatever is not a plain id is refused by every function that takes one."""
    for use in (sweep_folder, put_in_queue, remove, find_sweep, delete_sweep):
        with pytest.raises(ConfigError, match="is not a sweep id"):
            use(tmp_path, bad)


def test_a_sweep_is_found_by_the_start_of_its_id(tmp_path: Path) -> None:
    """A unique beginning is enough, a whole id wins over longer ones, and errors say what to do."""
    for name in ("2026-a", "2026-ab", "2026-abc", "2026-b", "2026-c"):
        (tmp_path / "sweeps" / name).mkdir(parents=True)
    assert find_sweep(tmp_path, "2026-b") == "2026-b"
    assert find_sweep(tmp_path, "2026-abc") == "2026-abc"
    assert find_sweep(tmp_path, "2026-ab") == "2026-ab"
    with pytest.raises(ConfigError, match=r"5 sweeps begin with '2026-' \(2026-a, 2026-ab, 2026-abc, …\)"):
        find_sweep(tmp_path, "2026-")
    with pytest.raises(ConfigError, match=r"no sweep in .* begins with '2027'; `goodput list` shows them"):
        find_sweep(tmp_path, "2027")
    with pytest.raises(ConfigError, match="no sweep"):
        find_sweep(tmp_path / "none", "2027")


def test_deleting_takes_the_folder_and_the_ticket(tmp_path: Path) -> None:
    """After delete nothing of the sweep is left, and another sweep is untouched."""
    gone, kept = enqueue(tmp_path, CONFIG, "x"), enqueue(tmp_path, CONFIG, "x")
    delete_sweep(tmp_path, gone)
    assert os.listdir(tmp_path / "sweeps") == [kept]
    assert waiting(tmp_path) == [kept]
    with pytest.raises(ConfigError, match="no sweep"):
        delete_sweep(tmp_path, gone)


def test_deleting_ends_the_engine_that_a_killed_runner_left(tmp_path: Path) -> None:
    """The note of the engine goes with the folder, so nobody could end it later."""
    sweep_id = enqueue(tmp_path, CONFIG, "x")
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(command, start_new_session=True) as engine:
        try:
            write_pid_file(sweep_folder(tmp_path, sweep_id), engine.pid, psutil.Process(engine.pid).create_time(), 1)
            delete_sweep(tmp_path, sweep_id)
            assert engine.wait(20) != 0
        finally:
            engine.kill()
    assert not sweep_folder(tmp_path, sweep_id).exists()


def test_a_running_sweep_is_not_deleted(tmp_path: Path) -> None:
    """A sweep under measurement must be stopped first; an interrupted one can go."""
    sweep_id = enqueue(tmp_path, CONFIG, "x")
    folder = sweep_folder(tmp_path, sweep_id)
    write_state(folder, running_state())
    with pytest.raises(BusyError, match="stop it first"):
        delete_sweep(tmp_path, sweep_id)
    write_state(folder, {**running_state(), "heartbeat_unix_ns": 0})
    assert status_of(folder) == "interrupted"
    delete_sweep(tmp_path, sweep_id)
    assert not folder.exists()


def test_deleting_a_link_leaves_what_it_points_to(tmp_path: Path) -> None:
    """A linked sweep folder loses the link only."""
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "keep").write_text("x")
    (tmp_path / "sweeps" / "linked").symlink_to(tmp_path / "real")
    delete_sweep(tmp_path, "linked")
    assert os.listdir(tmp_path / "sweeps") == []
    assert (tmp_path / "real" / "keep").exists()


def test_a_failed_enqueue_leaves_nothing(tmp_path: Path) -> None:
    """If the ticket cannot be written the sweep's folder is taken away again."""
    (tmp_path / "queue").write_text("a file in the way")
    with pytest.raises(StorageError, match="cannot be written"):
        enqueue(tmp_path, CONFIG, "x")
    assert os.listdir(tmp_path / "sweeps") == []


def test_a_damaged_sweep_file_is_said(tmp_path: Path) -> None:
    """A missing, torn or future sweep.json gives one sentence with its path."""
    with pytest.raises(ConfigError, match=r"sweep\.json: missing or damaged"):
        read_config(tmp_path)
    for text in ("{", "[]", '{"name": "x"}', '{"config": {"name": "x", "new_key": 1}}'):
        (tmp_path / "sweep.json").write_text(text)
        with pytest.raises(ConfigError, match=r"sweep\.json"):
            read_config(tmp_path)


HOLDER = """
import sys
from pathlib import Path
from runner.queue import hold_lock
sys.argv = ["/usr/bin/goodput", "run", "secret.toml"]
with hold_lock(Path({path!r})):
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextlib.contextmanager
def holder(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that holds the lock until it reads a line, or is killed."""
    command = [sys.executable, "-c", HOLDER.format(path=str(folder))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        yield child


def test_a_second_runner_is_told_who_is_first(tmp_path: Path) -> None:
    """Between two real processes only one holds the lock; the other is told command, pid and since when."""
    with holder(tmp_path) as child:
        assert child.stdin is not None
        with pytest.raises(BusyError) as e, hold_lock(tmp_path):
            pytest.fail("both hold the lock")
        assert re.search(rf"`goodput run`, process {child.pid}, since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d", str(e.value))
        assert "secret" not in str(e.value)
        child.stdin.write("\n")
        child.stdin.flush()
        child.wait(timeout=60)
        with hold_lock(tmp_path):
            pass


def test_a_killed_runner_leaves_no_lock(tmp_path: Path) -> None:
    """After SIGKILL of the holder the next runner gets the lock at once."""
    with holder(tmp_path) as child:
        child.kill()
        child.wait(timeout=60)
        with hold_lock(tmp_path):
            pass


def test_the_lock_is_held_once_within_a_process_too(tmp_path: Path) -> None:
    """A second hold in the same process is refused, an error inside lets go, and a torn note is no problem."""
    with hold_lock(tmp_path):
        with pytest.raises(BusyError), hold_lock(tmp_path):
            pytest.fail("held twice")
        (tmp_path / "runner.lock").write_text("{torn")
        with pytest.raises(BusyError, match="just started"), hold_lock(tmp_path):
            pytest.fail("held twice")
    with pytest.raises(ZeroDivisionError), hold_lock(tmp_path):
        _ = 1 / 0
    with hold_lock(tmp_path):
        pass


def test_a_lock_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    """A data folder that is a file is told as such, not as busy."""
    (tmp_path / "f").write_text("x")
    with pytest.raises(StorageError, match="cannot be written"), hold_lock(tmp_path / "f"):
        pytest.fail("held")
