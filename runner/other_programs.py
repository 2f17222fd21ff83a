"""What other programs of this machine took of its processors while a cell ran: nothing else shows a noisy neighbour."""

import time
from collections.abc import Callable, Iterable, Sequence

import psutil

SHORTEST_LOOK_NS = 500_000_000  # the system counts in steps of 10 ms


class OtherPrograms:
    """Processor time of the whole machine but for the known processes: ours and the server's.

    `busy_s` and `known_s` give seconds of processor time so far. What a virtual machine's host took away counts as
    others'. Time in interrupts counts as nobody's: it comes from the traffic that is measured.
    """

    def __init__(
        self,
        busy_s: Callable[[], float],
        known_s: Callable[[], float],
        cores: int,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._busy_s, self._known_s, self._cores, self._now_ns = busy_s, known_s, cores, now_ns
        self._since = now_ns(), busy_s(), known_s()

    def share(self) -> float | None:
        """Mean share (0..1) of all its processors that the others kept busy since the look before; null within half a
        second of it."""
        began_ns, busy_s, known_s = self._since
        now_ns = self._now_ns()
        if now_ns - began_ns < SHORTEST_LOOK_NS:
            return None
        self._since = now_ns, self._busy_s(), self._known_s()
        others_s = (self._since[1] - busy_s) - (self._since[2] - known_s)
        return min(max(others_s / self._cores / (now_ns - began_ns) * 1e9, 0.0), 1.0)


def beside(pids: Iterable[int]) -> OtherPrograms:
    """All programs of this machine but these processes. One that ends later keeps what it had taken until then."""
    known = Known([p for p in map(_process, pids) if p is not None])
    return OtherPrograms(machine_busy_s, known.processor_s, psutil.cpu_count() or 1)


class Known:
    """Some processes and the processor time that each was last seen to have taken."""

    def __init__(self, processes: Sequence[psutil.Process]) -> None:
        self._seen = {process: 0.0 for process in processes}

    def processor_s(self) -> float:
        for process in self._seen:
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            self._seen[process] = times.user + times.system
        return sum(self._seen.values())


def machine_busy_s() -> float:
    """Processor seconds of all programs since the machine started, with what its host took away."""
    times = psutil.cpu_times()
    return float(sum(getattr(times, name, 0.0) for name in ("user", "nice", "system", "steal")))


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.Error:
        return None
