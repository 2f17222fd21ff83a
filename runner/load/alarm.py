"""Waking at a given moment to some tens of µs, although the timers of an event loop count in whole milliseconds.

Linux has a timer that is a file (timerfd): the event loop watches it as it watches sockets, and nothing has to be
looked at again and again until the moment comes. Elsewhere the last stretch is slept in naps.
"""

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

COARSE_NS = 1_500_000  # event-loop timers are up to 1 ms late (epoll counts in ms, libuv rounds to ms)
NAP_NS = 50_000
LATE_IN_A_TURN = 4  # in a burst of tokens a turn takes half a ms: one for each late request would make them later still

_CLOCK_MONOTONIC = 1
_TFD_FLAGS = 0o4000 | 0o2000000  # non-blocking, closed on exec
_TFD_TIMER_ABSTIME = 1
_Timespecs = ctypes.c_long * 4  # interval and moment, each as s and ns


class Alarm:
    """For one event loop and one exact sleeper at a time; others sleep beside it, up to about 1 ms too long.

    `now_ns` must be the monotonic clock. Close it by `with`.
    """

    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._now_ns = now_ns
        self._loop = asyncio.get_running_loop()
        self._libc, self._fd = _open_timer()
        self._rings: asyncio.Future[None] | None = None
        self._late = 0
        if self._fd is not None:
            self._loop.add_reader(self._fd, self._ring)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._fd is not None:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None

    async def sleep_until(self, deadline_ns: int, exact: bool) -> None:
        """Returns at the deadline, never early. If it has passed, after one turn of the event loop: an exact sleeper
        that is late several times in a row has a turn at the first time and at each fourth one after it."""
        if not exact or deadline_ns > self._now_ns():
            self._late = 0
        else:
            self._late += 1
            if self._late % LATE_IN_A_TURN != 1:
                return
        if exact and self._fd is not None and deadline_ns > self._now_ns():
            await self._wait_for_ring(deadline_ns)
            if self._now_ns() >= deadline_ns:
                return
        ahead = COARSE_NS if exact else 0
        await asyncio.sleep(max(0, deadline_ns - ahead - self._now_ns()) / 1e9)
        while (left := deadline_ns - self._now_ns()) > 0:
            if exact and left > NAP_NS:
                time.sleep(NAP_NS / 1e9)
            await asyncio.sleep(0 if exact else left / 1e9)

    async def _wait_for_ring(self, deadline_ns: int) -> None:
        moment = _Timespecs(0, 0, *divmod(deadline_ns, 1_000_000_000))
        if self._libc.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, moment, None) == 0:
            rings = self._rings = self._loop.create_future()
            await rings

    def _ring(self) -> None:
        assert self._fd is not None
        try:
            os.read(self._fd, 8)
        except BlockingIOError:  # set anew in the meantime
            return
        if self._rings is not None and not self._rings.done():
            self._rings.set_result(None)


def _open_timer() -> tuple[ctypes.CDLL, int | None]:
    """The C library and a new timerfd; None where there is none, or where its times are not two 64-bit numbers."""
    libc = ctypes.CDLL(None)
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_long) != 8 or not hasattr(libc, "timerfd_create"):
        return libc, None
    fd = libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_FLAGS)
    return libc, fd if fd >= 0 else None
