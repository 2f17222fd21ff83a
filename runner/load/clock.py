"""One clock for a whole sweep: the monotonic one, and the way to it from the kernel's wall-clock stamps."""

import sys
import time
from time import monotonic_ns, time_ns

PLAUSIBLE_DELAY_NS = 5_000_000  # a stamp older than this when it is read may be a step of the wall clock: look again
RESAMPLE_NS = 1_000_000_000
FRESH_NS = 1_000_000
SLACK_NS = 10_000


def sample_offset(tries: int = 5) -> tuple[int, int]:
    """(wall - monotonic, uncertainty), both ns: the tightest of a few bracketed readings."""
    best = (0, 1 << 62)
    for _ in range(tries):
        before = monotonic_ns()
        wall = time_ns()
        after = monotonic_ns()
        if after - before < best[1]:
            best = (wall - (before + after) // 2, after - before)
    return best


def boot_ns() -> int:
    """The clock that also counts while the machine sleeps; where there is none, the monotonic one."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) if sys.platform == "linux" else monotonic_ns()


def sample_sleep() -> tuple[int, int]:
    """How long the machine has slept since it was started, ns: at least, at most."""
    before = monotonic_ns()
    boot = boot_ns()
    return boot - monotonic_ns(), boot - before


class Clock:
    """Maps kernel receive stamps (CLOCK_REALTIME) to CLOCK_MONOTONIC and counts steps of the wall clock.

    Slewing moves both clocks alike, so their difference changes only when somebody sets the wall clock or the machine
    sleeps. A sleep is a step even if the wall clock does not show it: times measured across it are not what they seem.
    """

    __slots__ = ("_before_step_ns", "_sampled_ns", "_slept_ns", "_step_seen_ns", "_steps", "_width_ns", "offset_ns")

    def __init__(self) -> None:
        self._steps = self._step_seen_ns = 0
        self.offset_ns, self._width_ns = sample_offset()
        self._slept_ns = sample_sleep()[1]
        self._before_step_ns = self.offset_ns
        self._sampled_ns = monotonic_ns()

    @property
    def steps(self) -> int:
        """How many there have been, up to this moment."""
        self.resample()
        return self._steps

    def resample(self) -> None:
        """Looks at the clocks again; a difference beyond the readings' uncertainty is counted as a step."""
        offset, width = sample_offset()
        slept_least, slept_most = sample_sleep()
        self._sampled_ns = monotonic_ns()
        stepped = abs(offset - self.offset_ns) > width + self._width_ns + SLACK_NS
        slept = slept_least > self._slept_ns
        if stepped:
            self._before_step_ns = self.offset_ns
            self.offset_ns, self._width_ns = offset, width
        self._slept_ns = slept_most if slept else min(slept_most, self._slept_ns)
        if stepped or slept:
            self._steps += 1
            self._step_seen_ns = self._sampled_ns

    def to_monotonic(self, wall_ns: int, now_ns: int, floor_ns: int) -> int | None:
        """The stamp on the monotonic clock, or None when it can't be right: before `floor_ns` or after `now_ns`."""
        at = wall_ns - self.offset_ns
        if floor_ns <= at <= now_ns < at + PLAUSIBLE_DELAY_NS and now_ns - self._sampled_ns < RESAMPLE_NS:
            return at
        self.resample()
        # a packet stamped just before a step is read after it: the older offset is then the one that fits
        for offset in (self.offset_ns, self._before_step_ns):
            if floor_ns - SLACK_NS <= wall_ns - offset <= now_ns + SLACK_NS:
                return min(max(wall_ns - offset, floor_ns), now_ns)
        return None

    def of_earlier_reads(self, walls_ns: list[int], since_ns: int, floor_ns: int) -> tuple[list[int], int]:
        """`to_monotonic` for reads of one socket made one after the other from `since_ns` up to now.

        Returns their moments, never falling and none before `floor_ns`, and how many stamps can't be right: such a
        read is dated like the one before.
        """
        now_ns = monotonic_ns()
        if now_ns - self._sampled_ns > FRESH_NS:  # else it was looked at after these reads, but for the very last
            self.resample()
            now_ns = monotonic_ns()
        if self._step_seen_ns < since_ns:
            times = [wall - self.offset_ns for wall in walls_ns]
            if floor_ns <= times[0] and times[-1] <= now_ns and times == sorted(times):
                return times, 0
        times, unfit = [], 0
        for wall in walls_ns:  # each by whichever offset fits
            at = self.to_monotonic(wall, now_ns, floor_ns)
            unfit += at is None
            floor_ns = floor_ns if at is None else at
            times.append(floor_ns)
        return times, unfit
