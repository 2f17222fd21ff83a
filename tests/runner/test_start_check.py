"""The processor is looked at before a library can die of it."""

import os
import stat
import sys
from pathlib import Path

import pytest

from runner.start_check import NEEDED, cpu_flags, cpu_refusal, read_cpuinfo

OLD = "processor\t: 0\nflags\t\t: fpu sse sse2 pni cx16\n\nprocessor\t: 1\nflags\t\t: none\n"
NO_AVX = "flags : fpu pni ssse3 sse4_1 sse4_2 popcnt\n"
NEW = "flags : fpu pni ssse3 sse4_1 sse4_2 popcnt avx avx2\n"


@pytest.fixture
def dies(tmp_path: Path) -> tuple[str, ...]:
    """A `python` that names numpy and pandas as tried and then ends by an illegal instruction."""
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho numpy; echo pandas; kill -ILL $$\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return (str(script),)


NEVER_RUN = ("/nowhere/python",)


def test_flags_are_those_of_the_first_processor() -> None:
    """x86 calls them flags, ARM Features; a text without them knows none."""
    assert cpu_flags(OLD) == {"fpu", "sse", "sse2", "pni", "cx16"}
    assert cpu_flags("Features\t: fp asimd atomics\n") == {"fp", "asimd", "atomics"}
    assert cpu_flags("model name: x\n") == frozenset()


def test_one_sentence_names_the_library_the_flags_and_the_mend(dies: tuple[str, ...]) -> None:
    """What is missing of the needed flags; if all of them are there, of the next ones."""
    told = cpu_refusal("x86_64", OLD, dies, quick=True)
    assert told is not None
    assert "cannot run pandas" in told
    assert "lacks ssse3 and sse4_1 and sse4_2 and popcnt;" in told
    assert "CPU type host" in told
    told = cpu_refusal("x86_64", NO_AVX, dies, quick=False)
    assert told is not None
    assert "lacks avx and avx2;" in told
    told = cpu_refusal("aarch64", "Features : fp asimd\n", dies, quick=False)
    assert told is not None
    assert "lacks atomics;" in told


def test_new_processors_and_unknown_ones_are_not_tried(dies: tuple[str, ...]) -> None:
    """A processor with all there is costs no time; one that is not told, or no commands that run long, neither."""
    assert cpu_refusal("x86_64", NEW, dies, quick=False) is None
    assert cpu_refusal("x86_64", NO_AVX, dies, quick=True) is None
    assert cpu_refusal("riscv64", OLD, dies, quick=False) is None
    assert cpu_refusal("x86_64", "", dies, quick=False) is None


def test_what_runs_all_the_same_is_not_refused() -> None:
    """The try decides, not the list of flags; a try that cannot be made refuses nobody."""
    quiet = (sys.executable, "-c", "pass")
    assert cpu_refusal("x86_64", OLD, quiet, quick=True) is None
    assert cpu_refusal("x86_64", OLD, NEVER_RUN, quick=True) is None


def test_the_processor_of_this_machine_is_read() -> None:
    """On Linux there are flags where we know what is needed."""
    machine = os.uname().machine
    if sys.platform == "linux" and machine in NEEDED:
        assert cpu_flags(read_cpuinfo())
    assert cpu_refusal(machine, read_cpuinfo(), quick=True) is None
