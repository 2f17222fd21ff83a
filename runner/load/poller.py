"""Which of many sockets can be read, told with few wake-ups.

A server with continuous batching sends a token of every running stream at the end of each iteration, some microseconds
apart. A loop that wakes for each of them spends more time on waking than on reading. While many streams are open, the
sockets are therefore looked at together, at most once a millisecond: the kernel has stamped their data already.
What it costs: two chunks of ONE stream within that millisecond come in one read, and share its stamp.
"""

import asyncio
import contextlib
import select
import sys
from collections.abc import Callable

MANY = 16  # fewer sockets than this are read as soon as they can be
REST_S = 0.001
QUIET_LOOKS = 2  # in a row without data: then the next wake-up is the kernel's

Callback = Callable[[], None]


class Poller:
    """For the sockets of one event loop. Plain `loop.add_reader` where the kernel does not stamp what it receives."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._callbacks: dict[int, Callback] = {}
        self._epoll = select.epoll() if sys.platform == "linux" else None
        self._armed = False  # the event loop watches the epoll, which watches the sockets
        self._quiet = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, fd: int, callback: Callback) -> None:
        """Calls `callback` whenever `fd` can be read, until `remove`."""
        if self._epoll is None:
            self._loop.add_reader(fd, callback)
            return
        self._callbacks[fd] = callback
        self._epoll.register(fd, select.EPOLLIN)
        if not self._armed and self._timer is None:
            self._arm()

    def remove(self, fd: int) -> None:
        """Nothing happens when `fd` is not watched. Call it before the socket is closed."""
        if self._epoll is None:
            self._loop.remove_reader(fd)
        elif self._callbacks.pop(fd, None) is not None:
            with contextlib.suppress(OSError):
                self._epoll.unregister(fd)

    def close(self) -> None:
        """Watches nothing any more."""
        if self._epoll is not None:
            self._disarm()
            if self._timer is not None:
                self._timer.cancel()
            self._callbacks.clear()
            self._epoll.close()

    def _arm(self) -> None:
        assert self._epoll is not None
        self._armed, self._timer, self._quiet = True, None, 0
        self._loop.add_reader(self._epoll.fileno(), self._look)

    def _disarm(self) -> None:
        if self._armed and self._epoll is not None:
            self._armed = False
            self._loop.remove_reader(self._epoll.fileno())

    def _look(self) -> None:
        assert self._epoll is not None
        ready = self._epoll.poll(0, max(1, len(self._callbacks)))
        self._quiet = 0 if ready else self._quiet + 1
        if self._quiet < QUIET_LOOKS and len(self._callbacks) >= MANY:
            self._disarm()
            self._timer = self._loop.call_later(REST_S, self._look)
        elif not self._armed:
            self._arm()
        for fd, _ in ready:
            callback = self._callbacks.get(fd)
            if callback is not None:  # an earlier one of this round may have closed it
                callback()
