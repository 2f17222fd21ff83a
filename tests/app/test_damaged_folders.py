"""A data folder as copies, full disks and curious fingers leave it: pages and commands go on beside the damage."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from app import ui
from app.data import all_sweeps, report_html
from storage.data_folder import open_data_folder
from storage.errors import GoodputError
from storage.side_files import list_sweeps
from tests.app.views.made_up import made_up_tables
from tests.support.finished_sweeps import finished_sweep
from tests.support.pages import Open, data_dir, fine, opened, said, started

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
