"""The way from kernel stamps to the monotonic clock."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.load import clock as clock_module
from runner.load.clock import Clock, sample_offset


def test_offset_is_the_difference_of_the_two_clocks() -> None:
    """The sampled offset turns now's wall time into now's monotonic time within a millisecond."""
    offset, width = sample_offset()
    assert abs((time.time_ns() - offset) - time.monotonic_ns()) < 1_000_000 + width


def test_a_plausible_stamp_is_mapped_exactly() -> None:
    """A stamp between floor and now is wall minus offset."""
    clock = Clock()
    now = time.monotonic_ns()
    assert clock.to_monotonic(now - 2_000 + clock.offset_ns, now, now - 5_000) == now - 2_000
    assert clock.steps == 0


def test_steps_of_the_wall_clock_are_counted_and_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the wall clock is set forward by an hour, stamps map right again and one step is counted."""
    clock = Clock()
    hour = 3600 * 1_000_000_000
    real = time.time_ns
    monkeypatch.setattr(clock_module, "time_ns", lambda: real() + hour)
    now = time.monotonic_ns()
    at = now - 1_000_000
    stamp = clock.to_monotonic(time.time_ns() + hour - (time.monotonic_ns() - at), now, at - 500_000)
    assert stamp is not None
    assert abs(stamp - at) < 500_000
    assert clock.steps == 1
    before_step = clock.to_monotonic(time.time_ns() - 100_000, time.monotonic_ns(), now - 1_000_000)
    assert before_step is not None  # stamped before the step, read after it
    assert clock.steps == 1


class Clocks:
    """The three clocks of a machine, moved by hand; each reading takes 100 ns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monotonic = 5_000_000_000
        self.wall_ahead = 1_700_000_000_000_000_000
        self.boot_ahead = 0
        monkeypatch.setattr(clock_module, "monotonic_ns", self.tick)
        monkeypatch.setattr(clock_module, "time_ns", lambda: self.tick() + self.wall_ahead)
        monkeypatch.setattr(clock_module, "boot_ns", lambda: self.tick() + self.boot_ahead)

    def tick(self) -> int:
        self.monotonic += 100
        return self.monotonic


@pytest.mark.parametrize("wall_ns", [3_000_000_000, 0])
def test_a_sleep_of_the_machine_is_one_step(monkeypatch: pytest.MonkeyPatch, wall_ns: int) -> None:
    """Whether or not the wall clock went on while the machine slept for three seconds, it is counted, and once."""
    clocks = Clocks(monkeypatch)
    clock = Clock()
    assert clock.steps == 0
    clocks.boot_ahead += 3_000_000_000
    clocks.wall_ahead += wall_ns
    assert clock.steps == 1
    assert clock.steps == 1


def test_a_wall_clock_that_was_set_is_no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each setting is one step; slewing, which moves all clocks, is none."""
    clocks = Clocks(monkeypatch)
    clock = Clock()
    clocks.wall_ahead -= 50_000_000
    assert clock.steps == 1
    clocks.monotonic += 7_000_000_000
    assert clock.steps == 1


def test_the_machine_s_own_clocks_agree_for_a_thousand_looks() -> None:
    """Being interrupted between two readings is not taken for a sleep."""
    clock = Clock()
    assert [clock.steps for _ in range(1000)] == [0] * 1000


def test_impossible_stamps_are_no_stamps() -> None:
    """A stamp long before the request or in the future is None, so that user time stands in."""
    clock = Clock()
    now = time.monotonic_ns()
    assert clock.to_monotonic(clock.offset_ns + now - 10**12, now, now - 1000) is None
    assert clock.to_monotonic(clock.offset_ns + now + 10**12, now, now - 1000) is None


@given(delay=st.integers(-(10**10), 10**10), span=st.integers(0, 10**10))
def test_mapped_stamps_lie_between_floor_and_now(delay: int, span: int) -> None:
    """Whatever the kernel says, a stamp never precedes the one before it and never lies in the future."""
    clock = Clock()
    now = time.monotonic_ns()
    stamp = clock.to_monotonic(now - delay + clock.offset_ns, now, now - span)
    assert stamp is None or now - span <= stamp <= now


def test_reads_that_were_kept_are_dated_as_if_they_had_been_looked_at_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stamps of the last half second are wall minus offset, however long ago they are."""
    clocks = Clocks(monkeypatch)
    clock = Clock()
    since = clocks.monotonic
    clocks.monotonic += 500_000_000
    moments = [since + 1_000, since + 100_000_000, since + 100_000_000, since + 499_000_000]
    times, unfit = clock.of_earlier_reads([m + clock.offset_ns for m in moments], since, since)
    assert times == moments
    assert (unfit, clock.steps) == (0, 0)


def test_reads_kept_across_a_step_of_the_wall_clock_are_dated_by_the_clock_of_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One read before the clock was set forward by an hour and one after it: both right, one step counted."""
    clocks = Clocks(monkeypatch)
    clock = Clock()
    since, offset, hour = clocks.monotonic, clock.offset_ns, 3600 * 1_000_000_000
    clocks.monotonic += 50_000_000
    clocks.wall_ahead += hour
    walls = [since + 10_000_000 + offset, since + 40_000_000 + offset + hour]
    times, unfit = clock.of_earlier_reads(walls, since, since)
    assert [abs(t - m) < 1_000 for t, m in zip(times, (since + 10_000_000, since + 40_000_000), strict=True)] == [
        True
    ] * 2
    assert (unfit, clock.steps) == (0, 1)


def test_kept_reads_with_impossible_stamps_are_dated_like_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stamp from the future and one from before the first read are counted and never make time run backwards."""
    clocks = Clocks(monkeypatch)
    clock = Clock()
    since = clocks.monotonic
    clocks.monotonic += 10_000_000
    moments = [since + 1_000_000, since + 60_000_000_000, since - 60_000_000_000, since + 2_000_000]
    times, unfit = clock.of_earlier_reads([m + clock.offset_ns for m in moments], since, since)
    assert times == [since + 1_000_000] * 3 + [since + 2_000_000]
    assert unfit == 2
