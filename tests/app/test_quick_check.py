"""The quick check in words, up to the sentence from a sweep in virtual time."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from app import jobs, quick_check
from app.words import ENGLISH
from runner.analysis.result import score
from runner.errors import ConfigError
from runner.quick_check import QuickAnswer
from runner.quick_check import quick_check as plain_check
from runner.simulated_sweep import VirtualSweep
from runner.what_if import in_memory
from storage.data_folder import open_data_folder
from storage.side_files import append_line, list_sweeps, write_state

SERVER = {"kind": "llama_cpp", "url": "127.0.0.1:8080/v1"}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (QuickAnswer(4, 800, 22.4, 30, False), "4 people can chat at once: first words in 800 ms, 22.4 tok/s each."),
        (QuickAnswer(1, 800, 22.4, 9, False), "1 person can chat at once: first words in 800 ms, 22.4 tok/s each."),
        (QuickAnswer(8, 60, 9, 9, True), "At least 8 people can chat at once: first words in 60 ms, 9.00 tok/s each."),
        (QuickAnswer(0, None, 2, 3, False), "Not even 1 person gets every word in time: 2.00 tok/s each."),
        (QuickAnswer(0, 9000, None, 3, False), "Not even 1 person gets every word in time: first words in 9.00 s."),
        (QuickAnswer(0, None, None, 0, False), "Nobody got an answer within the time of the check."),
        (None, None),
    ],
)
def test_the_answer_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, answer: QuickAnswer | None, expected: str | None
) -> None:
    """Numbers in the visitor's way of writing them, what is not known left out."""
    monkeypatch.setattr(quick_check, "quick_answer", lambda cells: answer)
    said = quick_check.sentence([], ENGLISH)
    assert (said and said.replace("\u00a0", " ")) == expected


def test_a_slow_machine_in_virtual_time_serves_one() -> None:
    """On an Apple M2 a prompt beside a running answer freezes it for over 150 ms: one person, not two."""
    config = plain_check({"kind": "simulated", "preset": "m2/llama-3.1-8b/q4_k_m"}, "check")
    said = quick_check.sentence(score(in_memory(VirtualSweep(config, None, {})))["cells"], ENGLISH)
    assert said
    assert said.startswith("1 person can chat at once: first words in ")


def test_a_check_is_queued_once_under_the_name_of_its_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two clicks give one sweep; the list tells its sentence once it has ended, and nothing of other sweeps."""
    monkeypatch.setattr(jobs, "start_worker", lambda folder: SimpleNamespace(poll=lambda: None))
    data_dir = open_data_folder(tmp_path / "data")
    first = quick_check.start(data_dir, SERVER, "llama.cpp\n", ENGLISH)
    assert quick_check.start(data_dir, SERVER, "llama.cpp\n", ENGLISH) == first
    (sweep,) = list_sweeps(data_dir)
    assert (sweep.name, sweep.source) == ("Quick check: llama.cpp  at 127.0.0.1:8080", "quick check")
    assert quick_check.told(sweep, ENGLISH) is None
    row = {"cell": 0, "status": "ok", "load": {"max_concurrency": 1}, "share": 1.0, "judged": 9}
    append_line(sweep.folder, "cells.jsonl", {**row, "ttft_ms": {"p50": 90}, "tpot_ms": {"p50": 40}})
    write_state(sweep.folder, {"status": "done"})
    (sweep,) = list_sweeps(data_dir)
    assert str(quick_check.told(sweep, ENGLISH)).startswith("At least 1 person can chat at once: first words in 90")


@pytest.mark.parametrize("url", ["", "  ", "http://me:key@host", "ftp://host", "http://"])
def test_an_address_that_is_none_is_told_in_one_sentence(tmp_path: Path, url: str) -> None:
    """Nothing is queued for it."""
    with pytest.raises(ConfigError) as told:
        quick_check.start(open_data_folder(tmp_path), {"kind": "openai", "url": url}, "server", ENGLISH)
    assert "\n" not in str(told.value)
    assert list_sweeps(tmp_path) == []
