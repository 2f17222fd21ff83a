"""Commands that leave a file find out that they can't before anything is measured, and say it in one sentence."""

from pathlib import Path

import pytest

from app.cli import main
from app.output_file import check_output, check_output_folder
from runner.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
DEMO, SAMPLE = str(ROOT / "sample_data" / "demo.toml"), str(ROOT / "sample_data" / "llama_cpp_sweep")
NOBODY = "http://127.0.0.1:9"  # whoever asks it says that nobody answers
COMMANDS = {
    "run": ["run", DEMO, "--report"],
    "simulate": ["simulate", DEMO, "--report"],
    "isolate": ["isolate", NOBODY, "--report"],
    "resume": ["resume", "x", "--report"],
    "report": ["report", SAMPLE, "-o"],
    "calibrate": ["calibrate", NOBODY, "-o"],
    "export-json": ["export", SAMPLE, "--format", "json", "-o"],
    "export-csv": ["export", SAMPLE, "--format", "csv", "-o"],
}


@pytest.mark.parametrize("where", ["/proc/goodput.x", "none/goodput.x"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_that_can_not_be_written_is_told_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, where: str
) -> None:
    """The kernel's own file system takes no file, not even from root; a folder that is not there neither. Nothing is
    measured and nothing is asked: the sentence is about the file, the exit code that of wrong usage."""
    data = tmp_path / "data"
    path = where if where.startswith("/") else str(tmp_path / where)
    assert (
        main(
            [*COMMANDS[name], path, *([] if name in ("report", "export-json", "export-csv") else ["--data", str(data)])]
        )
        == 2
    )
    said = capsys.readouterr()
    assert said.out == ""
    assert "goodput.x" in said.err
    assert ("does not exist" if path != where else "cannot be written") in said.err
    assert said.err.count("\n") == 1
    assert not (data / "sweeps").exists()


def test_an_import_finds_out_before_it_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its output is the data folder."""
    assert main(["import", str(tmp_path / "missing.json"), "--data", "/proc/goodput"]) == 1
    assert "/proc/goodput: cannot be written" in capsys.readouterr().err


def test_trying_leaves_nothing_behind_and_changes_nothing(tmp_path: Path) -> None:
    """A new file is taken away again, an old one keeps what it holds, a folder that is missing stays missing."""
    old = tmp_path / "old.html"
    old.write_text("kept")
    check_output(old)
    check_output(tmp_path / "new.html")
    check_output_folder(tmp_path / "tables")
    check_output_folder(tmp_path)
    check_output(Path("/dev/null"))
    assert [p.name for p in tmp_path.iterdir()] == ["old.html"]
    assert old.read_text() == "kept"


@pytest.mark.parametrize(("path", "says"), [("", "is a folder; give the profile a file name"), ("a" * 300, "too long")])
def test_what_is_no_file_name_is_told(tmp_path: Path, path: str, says: str) -> None:
    """With the mend in the sentence."""
    with pytest.raises(ConfigError, match=says):
        check_output(tmp_path / path, "profile", "profile.toml")
