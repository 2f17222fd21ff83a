"""A data folder as copies, full disks and curious fingers leave it: pages and commands go on beside the damage."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from app import data, ui
from app.data import all_sweeps, report_html
from runner.queue import waiting
from storage.data_folder import open_data_folder
from storage.errors import GoodputError, StorageError
from storage.imports import list_imports, read_import, save_import
from storage.side_files import list_sweeps
from tests.app.views.made_up import made_up_tables
from tests.support.finished_sweeps import finished_sweep
from tests.support.pages import Open, data_dir, fine, opened, said, shown, started

__all__ = ["data_dir", "opened", "started"]  # fixtures


def replaced(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def cut(name: str) -> Callable[[Path], object]:
    return lambda folder: os.truncate(folder / name, (folder / name).stat().st_size // 2)


def gone(*names: str) -> Callable[[Path], object]:
    return lambda folder: [(folder / name).unlink() for name in names]


def folder_in_its_place(name: str) -> Callable[[Path], object]:
    return lambda folder: ((folder / name).unlink(), (folder / name).mkdir())


def changed(file: str, **values: object) -> Callable[[Path], object]:
    return lambda folder: (folder / file).write_text(json.dumps({**json.loads((folder / file).read_text()), **values}))


def of_the_future(folder: Path) -> None:
    with duckdb.connect(str(folder / "sweep.duckdb")) as db:
        db.execute("UPDATE meta SET schema_version = 999, tool_version = '99.0'")
    changed("sweep.json", config={"warp": 9, "backend": 3})(folder)


def loop(folder: Path) -> None:
    (folder / "sweep.json").unlink()
    (folder / "sweep.json").symlink_to(folder / "sweep.json")


def later_lines(folder: Path) -> None:
    """Side files as a later version may write them, beside a database of this one: other shapes, other words."""
    line = {
        "at_s": 3.5, "cell": 0, "phase": "warp", "cells_total": {"now": 4}, "eta_s": "soon", "sent": {"chat": 3},
        "open_streams": "many", "kv_cache_usage": {"gpu0": 0.5}, "loop_lag_ms": [1, 2], "cpu_share": "all",
        "errors": {"timeout": {"count": 3}, "melted": 2}, "setting": [1], "load": "high", "running": True,
    }  # fmt: skip
    row = {
        "cell": 0,
        "status": "ok",
        "setting": {},
        "load": {},
        "goodput_per_s": {"mean": 1},
        "ttft_ms": {"p50": {"v": 1}},
    }
    replaced("live.jsonl", (json.dumps(line) + "\n").encode())(folder)
    replaced("cells.jsonl", (json.dumps(row) + "\n").encode())(folder)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "nothing-but-a-folder": lambda folder: (shutil.rmtree(folder), folder.mkdir()),
    "no-config": gone("sweep.json"),
    "half-a-config": cut("sweep.json"),
    "config-of-zeros": replaced("sweep.json", b"\0" * 512),
    "config-is-a-list": replaced("sweep.json", b"[1, 2]"),
    "config-too-deep": replaced("sweep.json", b'{"a":' * 5000 + b"1" + b"}" * 5000),
    "config-is-a-folder": folder_in_its_place("sweep.json"),
    "config-is-a-loop": loop,
    "config-of-wrong-kinds": changed("sweep.json", name=["x"], created_unix_ns="soon", config=[], simulated=7),
    "config-of-a-far-day": changed("sweep.json", created_unix_ns=10**30),
    "config-before-all-days": changed("sweep.json", created_unix_ns=-(10**30)),
    "not-utf-8": replaced("sweep.json", b'{"name": "\xff\xfe"}'),
    "no-state": gone("state.json"),
    "half-a-state": cut("state.json"),
    "state-of-wrong-kinds": changed("state.json", status=["done"], cells_total="6", cells_done=None, verdict={"a": 1}),
    "state-of-a-later-version": changed("state.json", status="hibernating"),
    "state-of-a-strange-process": changed("state.json", status="running", pid=-5, heartbeat_unix_ns=10**30),
    "state-is-a-folder": folder_in_its_place("state.json"),
    "no-database": gone("sweep.duckdb"),
    "half-a-database": cut("sweep.duckdb"),
    "database-is-a-text": replaced("sweep.duckdb", b"hello" * 3000),
    "database-is-a-folder": folder_in_its_place("sweep.duckdb"),
    "database-of-the-future": of_the_future,
    "lines-of-wrong-kinds": replaced("cells.jsonl", b'{"cell": "x"}\n[]\n{"cell": 0, "status": "ok"}\n{"ce'),
    "live-of-a-later-version": later_lines,
    "counts-of-wrong-kinds": changed("state.json", cells_done={"a": 1}, cells_total=[3], status="done"),
    "live-lines-of-wrong-kinds": replaced("live.jsonl", b'{"at_s": "x", "errors": []}\nnull\n{"at_s"'),
}

WITH_A_PAGE = {
    "nothing-but-a-folder": ui.RESULTS,
    "config-is-a-list": ui.RESULTS,
    "config-of-wrong-kinds": ui.LIVE,
    "state-of-wrong-kinds": ui.LIVE,
    "state-of-a-strange-process": ui.RESULTS,
    "no-database": ui.RESULTS,
    "half-a-database": ui.RESULTS,
    "database-of-the-future": ui.RESULTS,
    "lines-of-wrong-kinds": ui.LIVE,
    "live-lines-of-wrong-kinds": ui.LIVE,
    "live-of-a-later-version": ui.LIVE,
    "counts-of-wrong-kinds": ui.LIVE,
}


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with one sound sweep and one of each damage."""
    folder = open_data_folder(tmp_path_factory.mktemp("damaged"))
    sound = finished_sweep(folder, made_up_tables((2, 8), (256,), (1.0,)), "sound")
    for name, damage in DAMAGES.items():
        there = folder / "sweeps" / name
        shutil.copytree(sound, there)
        (there / "live.jsonl").write_text('{"at_s": 1, "cell": 0}\n')
        damage(there)
    (folder / "sweeps" / "a-file").write_text("not a folder")
    (folder / "queue" / "no-state.json").write_text("{")
    return folder


@pytest.fixture
def copied(damaged: Path, data_dir: Path) -> Path:
    """That folder as the one of a dashboard of this test."""
    shutil.copytree(damaged / "sweeps", data_dir / "sweeps", symlinks=True, dirs_exist_ok=True)
    return data_dir


def test_the_list_has_every_folder_and_says_what_it_can(damaged: Path) -> None:
    """Nothing stops the list; what has no readable config is damaged, and the sound sweep is as it was."""
    found = {s.sweep_id: s for s in list_sweeps(damaged)}
    assert set(found) == {"sound", *DAMAGES}
    without = {"nothing-but-a-folder", "no-config", "half-a-config", "config-of-zeros", "config-is-a-list",
               "config-too-deep", "config-is-a-folder", "config-is-a-loop", "not-utf-8"}  # fmt: skip
    assert {name for name, s in found.items() if s.status == "damaged"} == without
    assert (found["sound"].status, found["sound"].cells_done) == ("done", 2)
    for name in ("no-state", "half-a-state", "state-of-a-later-version", "state-of-a-strange-process"):
        assert found[name].status == "interrupted"
    assert len(all_sweeps(damaged)) > len(found)


def test_the_start_page_and_the_choice_of_sweeps_stand(opened: Open, copied: Path) -> None:
    """The pages with a list open beside all damage."""
    for page in (ui.START, ui.RESULTS, ui.LIVE):
        assert said(opened(page))


@pytest.mark.parametrize("name", WITH_A_PAGE)
def test_each_damaged_sweep_has_a_page_that_stands(opened: Open, copied: Path, name: str) -> None:
    """Results or live page of a damaged sweep say so in a sentence or show what there is; no traceback."""
    fine(opened(WITH_A_PAGE[name], name))


def test_commands_and_reports_go_on(damaged: Path) -> None:
    """`goodput list` names all of them, and a report is the page or one sentence."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "app.cli", "list", "--json", "--data", str(damaged)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=True)
    assert {row["sweep_id"] for row in json.loads(done.stdout)} == {"sound", *DAMAGES}
    made, told = [], []
    without = (
        "no-database",
        "half-a-database",
        "database-is-a-folder",
        "database-of-the-future",
        "nothing-but-a-folder",
    )
    for name in ("sound", *without):
        try:
            report_html(damaged / "sweeps" / name)
            made.append(name)
        except GoodputError as e:
            told.append(str(e))
    assert [sentence for sentence in told if "\n" in sentence] == []
    assert (made, len(told)) == (["sound"], len(without))


@contextlib.contextmanager
def nobody() -> Iterator[None]:
    """As a user that owns nothing; where the tests run as one already, nothing changes."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch, data_dir: Path) -> Iterator[Path]:
    """A data folder that anybody may read, with a sound sweep, and with a sweep and an import that nobody may look
    into; the sweep also waits in the queue."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    monkeypatch.setenv("GOODPUT_DATA", str(folder))
    monkeypatch.setattr(data, "SAMPLES", folder / "no-samples")
    sound = finished_sweep(folder, made_up_tables((2, 8), (256,), (1.0,)), "sound")
    shutil.copytree(sound, folder / "sweeps" / "closed")
    (folder / "queue" / "closed.json").write_text("{}")
    shut = [folder / "sweeps" / "closed", folder / "imports" / "imp-0123456789ab"]
    shut[1].mkdir(parents=True)
    for each in shut:
        each.chmod(0)
    yield folder
    for each in shut:
        each.chmod(0o755)
    shutil.rmtree(folder)


def test_a_folder_without_permission_stops_nothing(opened: Open, closed: Path) -> None:
    """Lists, pages and the queue go on beside it, and what is wrong is said where it stands: the pages used to end in a
    traceback, all of them, when such a sweep waited in the queue."""
    with nobody():
        found = {s.sweep_id: s.status for s in list_sweeps(closed)}
        assert [s.status for s in list_imports(closed)] == ["damaged"]
        assert waiting(closed) == []
        with pytest.raises(StorageError, match="no permission to read it"):
            report_html(closed / "sweeps" / "closed")
        with pytest.raises(StorageError, match="no permission to read it"):
            read_import(closed / "imports" / "imp-0123456789ab")
        text = shown(opened())
        told = [opened(page, "closed").error for page in (ui.RESULTS, ui.LIVE)]
    assert found == {"sound": "done", "closed": "damaged"}
    assert "may not look into the folder closed" in text
    assert [len(errors) for errors in told] == [1, 1]


def test_an_import_that_is_half_copied_is_told(tmp_path: Path) -> None:
    """Its line without its document, its document without its line, a document that was cut: listed as damaged, and a
    sentence for whoever opens one."""
    folder = tmp_path / "imports"
    save_import(tmp_path, "imp-000000000001", {"name": "whole", "tool": "vllm", "cells": 1}, {"result": {"cells": []}})
    for name, damage in (("imp-000000000002", gone("import.json")), ("imp-000000000003", gone("about.json")),
                         ("imp-000000000004", cut("import.json"))):  # fmt: skip
        shutil.copytree(folder / "imp-000000000001", folder / name)
        damage(folder / name)
    assert {s.import_id[-1]: s.status for s in list_imports(tmp_path)} == {
        "1": "imported", "2": "damaged", "3": "damaged", "4": "imported",
    }  # fmt: skip
    for name in ("imp-000000000002", "imp-000000000004"):
        with pytest.raises(StorageError, match=r"half copied|damaged"):
            report_html(folder / name)
