"""Who else used this machine's processors."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from runner.other_programs import Known, OtherPrograms, beside

SECOND = 1_000_000_000


class Machine:
    """Clocks that a test sets."""

    def __init__(self) -> None:
        self.now_ns, self.busy_s, self.known_s = 0, 100.0, 40.0

    def others(self, cores: int) -> OtherPrograms:
        return OtherPrograms(lambda: self.busy_s, lambda: self.known_s, cores, lambda: self.now_ns)

    def run(self, seconds: float, busy_s: float, known_s: float) -> None:
        self.now_ns += round(seconds * SECOND)
        self.busy_s += busy_s
        self.known_s += known_s


def test_the_share_is_what_neither_we_nor_the_server_took_of_all_processors() -> None:
    """Of 4 processors for 2 s, 3 s were taken, 1 s of them by known processes: a quarter is others'."""
    machine = Machine()
    others = machine.others(4)
    machine.run(2.0, busy_s=3.0, known_s=1.0)
    assert others.share() == pytest.approx(0.25)


def test_each_look_tells_of_the_time_since_the_one_before() -> None:
    """What was told once is not told again."""
    machine = Machine()
    others = machine.others(1)
    machine.run(1.0, busy_s=1.0, known_s=0.0)
    assert others.share() == pytest.approx(1.0)
    machine.run(1.0, busy_s=0.5, known_s=0.5)
    assert others.share() == pytest.approx(0.0)


def test_a_look_too_soon_says_nothing_and_loses_nothing() -> None:
    """The system's counters are too coarse for less than half a second; the next look covers all of it."""
    machine = Machine()
    others = machine.others(1)
    machine.run(0.3, busy_s=0.3, known_s=0.0)
    assert others.share() is None
    machine.run(0.7, busy_s=0.0, known_s=0.0)
    assert others.share() == pytest.approx(0.3)


@pytest.mark.parametrize(("busy_s", "known_s", "share"), [(0.0, 0.02, 0.0), (1.2, 0.0, 1.0)])
def test_coarse_counters_never_give_less_than_none_or_more_than_all(
    busy_s: float, known_s: float, share: float
) -> None:
    """Both counters round to 10 ms, each by itself."""
    machine = Machine()
    others = machine.others(1)
    machine.run(1.0, busy_s, known_s)
    assert others.share() == share


@contextmanager
def burner() -> Iterator[psutil.Process]:
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            yield psutil.Process(child.pid)
        finally:
            child.kill()


def test_a_program_that_is_not_ours_is_seen_and_one_that_is_named_is_not() -> None:
    """Two looks at the same second differ by exactly what the one process took that only one of them knows."""
    with burner() as busy:
        ignorant, knowing = beside([os.getpid()]), beside([os.getpid(), busy.pid])
        before = sum(busy.cpu_times()[:2])
        while sum(busy.cpu_times()[:2]) < before + 0.7:  # its own time, however little it gets
            pass
        all_others, rest = ignorant.share(), knowing.share()
    assert all_others is not None
    assert rest is not None
    assert all_others > rest


def test_a_process_that_ends_keeps_what_it_took() -> None:
    """Its time does not turn into other programs' time, nor is it taken back."""
    with burner() as busy:
        known = Known([busy])
        while sum(busy.cpu_times()[:2]) < 0.1:
            pass
        taken_s = known.processor_s()
    assert taken_s >= 0.1
    assert known.processor_s() == taken_s


def test_a_process_that_is_gone_already_is_left_out() -> None:
    """A server that died a moment ago is no reason to end a cell from here."""
    with burner() as busy:
        gone = busy.pid
    assert beside([gone, os.getpid()]).share() is None
