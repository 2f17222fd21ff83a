"""`goodput compare A B` as a script uses it: JSON alone on stdout, exit code 1 when B is worse, 2 for wrong usage."""

import json
from pathlib import Path

import pytest

from app.cli import main
from tests.support.finished_sweeps import finished_sweep
from tests.support.two_sweeps import slow, sweep_tables


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
