"""Which of many sockets can be read: one look tells of all of them.

A server with continuous batching sends a token of every running stream at the end of each iteration. The event loop
watches one epoll, which watches the sockets, and what has come is read together: that costs less than a handle of the
event loop for every socket and a turn of it for each.
"""

import asyncio
import contextlib
import select
import sys
from collections.abc import Callable

Callback = Callable[[], None]


class Poller:
    """For the sockets of one event loop. Plain `loop.add_reader` where there is no epoll."""

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
        assert self._epoll is not None
        for fd, _ in self._epoll.poll(0, max(1, len(self._callbacks))):
            callback = self._callbacks.get(fd)
            if callback is not None:  # an earlier one of this round may have closed it
                callback()
