"""The kept copy of a result: what judging anew would give, or nothing."""

import json
import os
from pathlib import Path

import pytest

from runner import kept_result as kept
from runner.analysis.prepare import prepare
from runner.analysis.result import build_result, score
from runner.kept_result import KEPT, forget_result, keep_result, kept_result
from runner.queue import enqueue
from runner.simulator.virtual_server import for_virtual_time
from runner.work import run_one
from storage.data_folder import open_data_folder
from storage.queries import read_sweep
from storage.sweep_store import DATABASE
from tests.app.views.made_up import made_up_tables
from tests.support.finished_sweeps import finished_sweep
from tests.support.small_sweeps import quick_config


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished sweep of two settings."""
    return finished_sweep(tmp_path_factory.mktemp("kept"), made_up_tables((2, 8), (256,), (1.0,)), "made-up")


def test_what_was_kept_is_what_judging_anew_gives(folder: Path) -> None:
    """Every number survives the file to its last digit; forgotten, it is gone."""
    prepared = prepare(read_sweep(folder))
    result = score(prepared)
    keep_result(folder, prepared.tables.meta["config"], result)
    assert kept_result(folder) == (prepared.config, result)
    forget_result(folder)
    assert kept_result(folder) is None
    forget_result(folder)  # once more: nothing to do


def test_it_is_nothing_beside_another_database(folder: Path) -> None:
    """A database that was written to since, or is another one, is judged anew."""
    tables = read_sweep(folder)
    keep_result(folder, tables.meta["config"], {"cells": []})
    assert kept_result(folder) is not None
    os.utime(folder / DATABASE, ns=(1, 1))
    assert kept_result(folder) is None


def test_it_is_nothing_for_another_version(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that judges otherwise does not show what older code found."""
    keep_result(folder, read_sweep(folder).meta["config"], {"cells": []})
    monkeypatch.setattr(kept, "_judged_by", lambda: "another")
    assert kept_result(folder) is None


def test_the_runner_leaves_it_and_takes_it_away_again(tmp_path: Path) -> None:
    """A sweep that ended has what judging it gives beside it; while one goes on there is none."""
    data = open_data_folder(tmp_path)
    made = enqueue(data, for_virtual_time(quick_config()), "test", simulated=True)
    (data / "sweeps" / made / KEPT).write_text("left over")
    seen = []
    assert run_one(data, made, lambda line: seen.append((data / "sweeps" / made / KEPT).exists())) == "done"
    assert not any(seen)
    found = kept_result(data / "sweeps" / made)
    assert found is not None
    assert found[1] == build_result(read_sweep(data / "sweeps" / made))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"of": [0, 0]}', "null"])
def test_a_damaged_copy_is_nothing(folder: Path, text: str) -> None:
    """Torn, foreign or empty: as if it were not there."""
    (folder / KEPT).write_text(text)
    assert kept_result(folder) is None


@pytest.mark.parametrize("wrong", [{"config": {"name": 3}}, {"result": 7}, {"config": None}])
def test_a_copy_with_other_things_in_it_is_nothing(folder: Path, wrong: dict[str, object]) -> None:
    """The right stamps alone do not make a result."""
    keep_result(folder, read_sweep(folder).meta["config"], {"cells": []})
    told = json.loads((folder / KEPT).read_text())
    (folder / KEPT).write_text(json.dumps({**told, **wrong}))
    assert kept_result(folder) is None


def test_very_many_cells_are_not_kept(folder: Path) -> None:
    """The copy would be larger than what it spares."""
    forget_result(folder)
    keep_result(folder, {}, {"cells": [{}] * (kept.MOST_CELLS + 1)})
    assert not (folder / KEPT).exists()


def test_a_folder_that_cannot_be_written_to_only_costs_time(tmp_path: Path) -> None:
    """No folder, no copy, no error."""
    keep_result(tmp_path / "gone", {}, {"cells": []})
    assert kept_result(tmp_path / "gone") is None
