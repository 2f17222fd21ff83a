"""`goodput compare A B` as a script uses it: JSON alone on stdout, exit code 1 when B is worse, 2 for wrong usage."""

import contextlib
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli import main
from storage.side_files import write_state
from tests.support.finished_sweeps import finished_sweep
from tests.support.two_sweeps import slow, sweep_tables

RUNNING = {"status": "running"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a sweep before, one after that is slower, and one as before."""
    folder = tmp_path_factory.mktemp("compare")
    finished_sweep(folder, sweep_tables(), "before")
    finished_sweep(folder, sweep_tables([slow]), "after")
    finished_sweep(folder, sweep_tables([slow]), "later")
    finished_sweep(folder, sweep_tables(), "same")
    return folder


def compare(data: Path, *args: str) -> int:
    return main(["compare", *args, "--data", str(data)])


def test_worse_is_exit_code_1_and_the_object_is_alone_on_stdout(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ids, beginnings of ids and folders name a sweep."""
    assert compare(data, "before", "after", "--json") == 1
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert (found["verdict"], found["regression"]) == ("worse", True)
    assert compare(data, "bef", str(data / "sweeps" / "after")) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("B is worse than A: ")


def test_noise_and_better_are_exit_code_0(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A script goes on."""
    assert compare(data, "before", "same") == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("The difference is noise")
    assert compare(data, "after", "before", "--json") == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "better"


def test_sweeps_measured_in_turns_are_one_side(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A1+A2 against B1+B2: pooled as repeats."""
    assert compare(data, "before+same", "after+later", "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert [s["sweep_id"] for s in found["a"]["sweeps"]] == ["before", "same"]
    assert found["points"][0]["cells_b"] == [0, 0]


@pytest.mark.parametrize(("args", "words"), [
    (("before", "nothing"), "no sweep in"),
    (("before", "after+"), "names no sweep"),
    (("before", "after+aft"), "after is named twice on one side"),
    (("before", "sample_data/none"), "not the folder of a measured sweep"),
])  # fmt: skip
def test_what_names_no_sweep_is_wrong_usage(
    data: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, str], words: str
) -> None:
    """Exit code 2 and one sentence on stderr."""
    assert compare(data, *args) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
    assert said.err.count("\n") == 1


def spoilt(data: Path, name: str, spoil: Callable[[Path], object]) -> str:
    """A copy of a sound sweep that something was done to."""
    folder = data / "sweeps" / name
    if not folder.exists():
        shutil.copytree(data / "sweeps" / "before", folder)
        spoil(folder)
    return name


@pytest.mark.parametrize(("name", "spoil", "words"), [
    ("cut", lambda folder: (folder / "sweep.duckdb").write_bytes(b"half"), "damaged"),
    ("gone", lambda folder: (folder / "sweep.duckdb").unlink(), "sweep.duckdb"),
    ("runs", lambda folder: write_state(folder, {**RUNNING, "heartbeat_unix_ns": time.time_ns()}), "measured"),
])  # fmt: skip
def test_what_can_not_be_read_is_no_regression(
    data: Path, capsys: pytest.CaptureFixture[str], name: str, spoil: Callable[[Path], object], words: str
) -> None:
    """A script that stops an update on 1 must not stop on a damaged folder: exit code 2 and one sentence."""
    assert compare(data, "before", spoilt(data, name, spoil), "--json") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
    assert said.err.count("\n") == 1


def test_nothing_in_common_is_no_verdict(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two sweeps of other loads: the object is still printed, and the exit code is neither "worse" nor "fine"."""
    finished_sweep(data, sweep_tables(load={"request_rate": 9.9}), "elsewhere")
    assert compare(data, "before", "elsewhere", "--json") == 2
    said = capsys.readouterr()
    assert json.loads(said.out)["points"] == []
    assert "no setting and load in common" in said.err


def test_a_comparison_that_crashes_is_no_regression(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables of a strange version raise what nobody foresaw; Python's own exit code for that would be 1."""

    def strange(*args: object) -> None:
        raise KeyError("column")

    monkeypatch.setattr("runner.analysis.compare.compare", strange)
    assert compare(data, "before", "after") == 2
    assert "of another version" in capsys.readouterr().err


def test_a_full_disk_is_no_regression(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict can't be written: 2, not the 1 of "worse"."""
    with contextlib.suppress(OSError), Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stdout", full)
        assert compare(data, "before", "after") == 2
    assert "can't be written" in capsys.readouterr().err


def test_the_help_names_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """What a script may rely on is where its author looks."""
    with pytest.raises(SystemExit):
        main(["compare", "--help"])
    assert "2 nothing was compared" in " ".join(capsys.readouterr().out.split())
