"""Sweeps that lie outside the data folder are shown by their path."""

import json
from pathlib import Path

import pytest

from app.cli import main
from app.export.shared_page import read_page

SAMPLE = Path(__file__).parents[2] / "sample_data" / "llama_cpp_sweep"


def test_a_sweep_folder_is_shown_and_reported_by_its_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`goodput show` and `report` take the recorded sweep by its folder, also as `.`, and the two agree."""
    assert main(["show", str(SAMPLE), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["status"] == "done"
    assert len(result["cells"]) > 1
    page = tmp_path / "page.html"
    monkeypatch.chdir(SAMPLE)
    assert main(["report", ".", "-o", str(page)]) == 0
    shared = read_page(page.read_text(encoding="utf-8"))["result"]  # its paths are left out
    assert [x["goodput_per_s"] for x in shared["cells"]] == [x["goodput_per_s"] for x in result["cells"]]


def test_a_path_that_is_no_sweep_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without measurements ends in one sentence with its name, and exit code 2."""
    assert main(["show", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert f"{tmp_path} is not the folder of a measured sweep" in told.err
