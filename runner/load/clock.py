"""One clock for a whole sweep: the monotonic one, and the way to it from the kernel's wall-clock stamps."""

from time import monotonic_ns, time_ns

PLAUSIBLE_DELAY_NS = 5_000_000  # a stamp older than this when it is read may be a step of the wall clock: look again
RESAMPLE_NS = 1_000_000_000
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


class Clock:
    """Maps kernel receive stamps (CLOCK_REALTIME) to CLOCK_MONOTONIC and counts steps of the wall clock.

    Slewing moves both clocks alike, so their difference changes only when somebody sets the wall clock.
    """

    __slots__ = ("_before_step_ns", "_sampled_ns", "_width_ns", "offset_ns", "steps")

    def __init__(self) -> None:
        self.steps = 0
        self.offset_ns, self._width_ns = sample_offset()
        self._before_step_ns = self.offset_ns
        self._sampled_ns = monotonic_ns()

    def resample(self) -> None:
        """Looks at both clocks again; a difference beyond the readings' uncertainty is counted as a step."""
        offset, width = sample_offset()
        self._sampled_ns = monotonic_ns()
        if abs(offset - self.offset_ns) > width + self._width_ns + SLACK_NS:
            self.steps += 1
            self._before_step_ns = self.offset_ns
            self.offset_ns, self._width_ns = offset, width

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
