"""How long requests may take: one timer of the event loop for all that run.

A timer for each would cost as much at the start and the end of a short request as its answer's tokens.
"""

import asyncio
from collections.abc import Callable
from time import monotonic_ns

Late = Callable[[], None]


class Limits:
    """For one event loop. Every `Late` that is given is called once at its moment, unless it is taken back before."""

    def __init__(self) -> None:
        self._due: dict[Late, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0

    def add(self, late: Late, due_ns: int) -> None:
        """Calls `late` at that moment of the monotonic clock, or as soon after it as the loop has time."""
        self._due[late] = due_ns
        if self._timer is None or due_ns < self._timer_ns:
            self._arm(due_ns)

    def remove(self, late: Late) -> None:
        """Nothing happens when it is not there."""
        self._due.pop(late, None)

    def close(self) -> None:
        """Calls none of them any more."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, due_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = due_ns
        left_s = max(0, due_ns - monotonic_ns()) / 1e9
        self._timer = asyncio.get_running_loop().call_later(left_s, self._look)

    def _look(self) -> None:
        self._timer = None
        now_ns = monotonic_ns()
        for late in [late for late, due_ns in self._due.items() if due_ns <= now_ns]:
            if self._due.pop(late, None) is not None:  # an earlier one may have taken it back
                late()
        if self._due and self._timer is None:
            self._arm(min(self._due.values()))
