"""Which of many sockets can be read, told with few wake-ups.

A server with continuous batching sends a token of every running stream at the end of each iteration, some microseconds
apart. A loop that wakes for each of them spends more time on waking than on reading. While many streams are open, a
wake-up is therefore followed by naps of a fraction of a millisecond, after which all that has come is read together:
the kernel has stamped it already. What it costs: two chunks of ONE stream within a nap come in one read and share its
stamp (and are counted as such), and a request that is due meanwhile is sent that much later.
"""

import asyncio
import contextlib
import select
import sys
import time
from collections.abc import Callable

MANY = 16  # fewer sockets than this are read as soon as they can be
NAP_S = 0.001
NAPS = 1  # in one turn of the event loop

Callback = Callable[[], None]


class Poller:
    """For the sockets of one event loop. Plain `loop.add_reader` where the kernel does not stamp what it receives."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._callbacks: dict[int, Callback] = {}
        self._epoll = select.epoll() if sys.platform == "linux" else None
        if self._epoll is not None:
            self._loop.add_reader(self._epoll.fileno(), self._look)

    def add(self, fd: int, callback: Callback) -> None:
        """Calls `callback` whenever `fd` can be read, until `remove`."""
        if self._epoll is None:
            self._loop.add_reader(fd, callback)
        else:
            self._callbacks[fd] = callback
            self._epoll.register(fd, select.EPOLLIN)

    def remove(self, fd: int) -> None:
        """Nothing happens when `fd` is not watched. Call it before the socket is closed."""
        if self._epoll is None:
            self._loop.remove_reader(fd)
        elif self._callbacks.pop(fd, None) is not None:
            with contextlib.suppress(OSError):
                self._epoll.unregister(fd)

    def close(self) -> None:
        """Watches nothing any more."""
        self._callbacks.clear()
        if self._epoll is not None and not self._epoll.closed:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()

    def _look(self) -> None:
        for nap in range(NAPS + 1):
            if self._epoll is None or self._epoll.closed:  # by a callback
                return
            ready = self._epoll.poll(0, max(1, len(self._callbacks)))
            for fd, _ in ready:
                callback = self._callbacks.get(fd)
                if callback is not None:  # an earlier one of this round may have closed it
                    callback()
            if not ready or len(self._callbacks) < MANY or nap == NAPS:
                return
            time.sleep(NAP_S)
