"""A recorded trace is read from a regular file of bearable size, or refused in one sentence."""

import os
from pathlib import Path

import pytest

from runner import trace_texts
from runner.errors import ConfigError
from runner.trace_texts import read_trace_texts
from tests.support.small_sweeps import quick_config


def read(trace: str, base: Path) -> dict[str, str]:
    mine = {"name": "mine", "trace": trace, "prompt_tokens": 1, "output_tokens": 1}
    return read_trace_texts(quick_config(grid={"max_num_seqs": [4]}, classes=[mine]), base)


def test_a_device_a_pipe_and_a_folder_are_no_traces(tmp_path: Path) -> None:
    """None of them is opened: /dev/zero has no end, and a pipe waits for its writer."""
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", str(tmp_path / "pipe"), str(tmp_path)):
        with pytest.raises(ConfigError, match=r"classes\.mine\.trace: .* cannot be read \(it is no regular file\)"):
            read(path, tmp_path)


def test_a_file_that_is_too_large_is_not_kept_in_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit itself is fine, one byte more is not."""
    text = "arrival_s\n1.0\n" + "\n" * 2_000_000
    (tmp_path / "t.csv").write_text(text)
    monkeypatch.setattr(trace_texts, "MOST_BYTES", len(text))
    assert read("t.csv", tmp_path) == {"mine": text}
    monkeypatch.setattr(trace_texts, "MOST_BYTES", len(text) - 1)
    with pytest.raises(ConfigError, match="larger than 2 MB"):
        read("t.csv", tmp_path)


def test_a_missing_file_is_told_as_such(tmp_path: Path) -> None:
    """With the key, the path and what to give."""
    with pytest.raises(ConfigError, match=r"none\.csv cannot be read \(No such file or directory\); give the path"):
        read("none.csv", tmp_path)
