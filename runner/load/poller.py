"""Which of many sockets can be read: one look tells of all of them, and reads what needs no second thought.

A server with continuous batching sends a token of every running stream at the end of each iteration. The event loop
watches one epoll, which watches the sockets, and what has come is read together: that costs less than a handle of the
event loop for every socket and a turn of it for each. In the middle of a stream a read is only kept: the processor
has slept since the iteration before and runs at a third of its speed, so as little code as possible is gone through.
"""

import asyncio
import contextlib
import select
import sys
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

from runner.load.stamped_socket import ANCILLARY_BYTES

READ_BYTES = 4 * 1024  # a token is a few hundred bytes
SHORT_READ_BYTES = 32  # the end mark may be cut in two; its second half is a short read
# a burst comes while it is read: a further look costs a tenth of a turn of the event loop. But a request may be due
LOOK_NS = 400_000
MOST_AT_ONCE = 64  # sockets
MAX_HELD = 64  # reads: to look into more together is cheaper, but what is held takes up to three times the memory

Ancillary = list[tuple[int, int, bytes]]


class Inbox:
    """One watched socket. While `holding`, reads that can't be the last of their stream are kept in `held`.

    `receive` is the socket's `recvmsg_into`. `on_readable()` is called when there is something to read,
    `on_read(data, ancillary)` with a read that must be looked into, and `on_error` with what a read raised. `held`: the
    data and the kernel's stamp of each read in turn.
    """

    __slots__ = ("held", "holding", "on_error", "on_read", "on_readable", "receive")

    def __init__(
        self,
        receive: Callable[[list[bytearray], int], tuple[int, Ancillary, int, Any]],
        on_readable: Callable[[], None],
        on_read: Callable[[bytes, Ancillary], None],
        on_error: Callable[[OSError], None],
    ) -> None:
        self.receive, self.on_readable, self.on_read, self.on_error = receive, on_readable, on_read, on_error
        self.held: list[bytes] = []
        self.holding = False


class Poller:
    """For the sockets of one event loop. Plain `loop.add_reader` where there is no epoll."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._inboxes: dict[int, Inbox] = {}
        # every read goes through one buffer: a new one for each, of which a token fills a tenth, takes longer to get
        # than the token to copy
        self._buffer = bytearray(READ_BYTES)
        self._buffers, self._view = [self._buffer], memoryview(self._buffer)
        self._epoll = select.epoll() if sys.platform == "linux" else None
        if self._epoll is not None:
            self._loop.add_reader(self._epoll.fileno(), self._look)

    def add(self, fd: int, inbox: Inbox) -> None:
        """Sees to `inbox` whenever `fd` can be read, until `remove`."""
        if self._epoll is None:
            self._loop.add_reader(fd, inbox.on_readable)
        else:
            self._inboxes[fd] = inbox
            self._epoll.register(fd, select.EPOLLIN)

    def remove(self, fd: int) -> None:
        """Nothing happens when `fd` is not watched. Call it before the socket is closed."""
        if self._epoll is None:
            self._loop.remove_reader(fd)
        elif self._inboxes.pop(fd, None) is not None:
            with contextlib.suppress(OSError):
                self._epoll.unregister(fd)

    def receive(self, inbox: Inbox) -> tuple[bytes, Ancillary]:
        """One read of at most READ_BYTES. Raises OSError."""
        size, ancillary, _, _ = inbox.receive(self._buffers, ANCILLARY_BYTES)
        return self._view[:size].tobytes(), ancillary

    def close(self) -> None:
        """Watches nothing any more."""
        self._inboxes.clear()
        if self._epoll is not None and not self._epoll.closed:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()

    def _look(self) -> None:
        """Reads until there is nothing more to read, or for a while: what is left is told of in the next turn."""
        assert self._epoll is not None
        until_ns = monotonic_ns() + LOOK_NS
        while ready := self._epoll.poll(0, MOST_AT_ONCE):
            if not self._read(ready, until_ns) or monotonic_ns() > until_ns:
                return

    def _read(self, ready: list[tuple[int, int]], until_ns: int) -> bool:
        """False when the time is over, or the poller was closed by what was read."""
        inboxes, buffers, view = self._inboxes, self._buffers, self._view
        for fd, _ in ready:
            inbox = inboxes.get(fd)
            if inbox is None:  # an earlier one of this round has closed it
                continue
            if not inbox.holding:
                inbox.on_readable()
                if monotonic_ns() > until_ns:
                    return False
                continue
            try:
                size, ancillary, _, _ = inbox.receive(buffers, ANCILLARY_BYTES)
            except (BlockingIOError, InterruptedError):
                continue
            except OSError as e:
                inbox.on_error(e)
                continue
            data = view[:size].tobytes()
            held = inbox.held
            if ancillary and len(held) < 2 * MAX_HELD and may_go_on(data):
                held.append(data)
                held.append(ancillary[0][2])  # a socket's only ancillary data is its stamp
            else:
                inbox.on_read(data, ancillary)
                if monotonic_ns() > until_ns:
                    return False
        return bool(inboxes)


def may_go_on(data: bytes) -> bool:
    """Whether more must come after this read of a chunked body: it holds neither its end nor what may be part of it.

    The end is an empty chunk, with or without trailers, so a blank line, whatever follows it in the same read; an end
    that was cut in two is a short read.
    """
    return b"\r\n\r\n" not in data and SHORT_READ_BYTES <= len(data) < READ_BYTES and b"[DONE]" not in data
