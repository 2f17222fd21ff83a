"""The memory of an ended server is waited for, within a limit, and only what can be its own."""

import os
from pathlib import Path

import psutil
import pytest

from runner.engines import memory
from runner.engines.memory import Memory, kept_back, wait_until_given_back

GB = 1_000_000_000
TOTAL = psutil.virtual_memory().total


def test_what_is_missing_is_told_in_words() -> None:
    """RAM up to what the server had, GPU memory by card; small differences are other programs'."""
    before = Memory(TOTAL, (1000.0, 500.0))
    half = Memory(TOTAL // 2, (1000.0, 500.0))
    assert kept_back(before, before, TOTAL) is None
    assert kept_back(before, half, TOTAL) == f"{(TOTAL - TOTAL // 2) / 1e9:.1f} GB of RAM"
    assert kept_back(before, half, 50_000_000) is None  # the server was small: somebody else took it
    assert kept_back(before, Memory(TOTAL, (1200.0, 500.0)), 0) is None
    assert kept_back(before, Memory(TOTAL, (1000.0, 500.0 + 3 * 1024)), 0) == "3.0 GiB of GPU 1"
    assert kept_back(before, Memory(TOTAL, ()), 0) is None  # nvidia-smi did not answer this time


def test_memory_that_comes_back_late_is_waited_for() -> None:
    """A driver that takes its time: two looks too early, then it is free, and nothing is to be said."""
    looks = [Memory(TOTAL, (9000.0,)), Memory(TOTAL, (9000.0,)), Memory(TOTAL, (100.0,))]
    assert wait_until_given_back(Memory(TOTAL, (100.0,)), 0, 60.0, lambda: looks.pop(0)) is None
    assert looks == []


def test_memory_that_never_comes_back_is_a_note() -> None:
    """At the limit the sweep goes on, and the next setting's cells say so."""
    note = wait_until_given_back(Memory(TOTAL, (0.0,)), 0, 0.0, lambda: Memory(TOTAL, (2048.0,)))
    assert note == "0 s after the server before this one ended, 2.0 GiB of GPU 0 was still not given back"


@pytest.mark.parametrize(
    ("text", "used"),
    [("echo 512; echo 24000", (512.0, 24000.0)), ("echo '[N/A]'", ()), ("exit 9", ()), ("exec sleep 60", ())],
)
def test_gpu_memory_is_asked_of_the_driver_within_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, used: tuple[float, ...]
) -> None:
    """One number a card; a driver that fails, hangs or does not know is as good as none."""
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(memory, "_DRIVER_S", 0.5)
    assert memory.look().gpu_used_mib == used
