"""The engine's log is bounded, without secrets, and never blocks the engine."""

import subprocess
import sys
from pathlib import Path

import pytest

from runner.engines.engine_log import EngineLog


def run(log: EngineLog, code: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    log.follow(process.stdout)
    process.wait(60)
    log.finish(60)


def test_a_talkative_engine_fills_no_disk(tmp_path: Path) -> None:
    """A megabyte through a bound of 100 kB: both files together stay below it, the newest lines are kept."""
    path = tmp_path / "engine.log"
    log = EngineLog(path, "start", [], max_bytes=100_000)
    run(log, "for n in range(20000): print(f'line {n:06d} ' + 'x' * 40)")
    assert path.stat().st_size + (tmp_path / "engine.log.1").stat().st_size <= 100_000
    assert log.text().splitlines()[-1].startswith("line 019999 ")
    assert "line 019999 " in path.read_text()
    assert len(list(tmp_path.iterdir())) == 2


def test_secrets_and_broken_bytes_do_not_reach_the_file(tmp_path: Path) -> None:
    """A printed key becomes ***; bytes that are no UTF-8 are replaced, not fatal."""
    log = EngineLog(tmp_path / "engine.log", "start", ["swordfish"])
    run(log, "import sys; sys.stdout.buffer.write(b'key=swordfish \\xff end\\n')")
    assert (tmp_path / "engine.log").read_text() == "=== start\nkey=*** � end\n"
    assert log.text() == "key=*** � end"


def test_a_line_without_end_is_cut_in_pieces(tmp_path: Path) -> None:
    """A progress bar without line ends is written on, not collected for ever."""
    log = EngineLog(tmp_path / "engine.log", "start", [])
    run(log, "import sys; sys.stdout.write('.' * 200_000)")
    assert (tmp_path / "engine.log").stat().st_size == len("=== start\n") + 200_000


def test_each_start_adds_its_header(tmp_path: Path) -> None:
    """Two starts, two headers, in order; the lines at hand are the last start's."""
    for name in ("first", "second"):
        log = EngineLog(tmp_path / "engine.log", name, [])
        run(log, f"print('hello from the {name}')")
    lines = (tmp_path / "engine.log").read_text().splitlines()
    assert lines == ["=== first", "hello from the first", "=== second", "hello from the second"]
    assert log.text() == "hello from the second"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_ends_the_log_and_not_the_engine() -> None:
    """The engine's pipe is read on, so that it never blocks, and its last lines stay at hand."""
    log = EngineLog(Path("/dev/full"), "start", [])
    run(log, "for n in range(20000): print(f'line {n:06d}')")
    assert log.text().splitlines()[-1] == "line 019999"
