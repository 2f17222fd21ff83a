"""A server that takes no connection."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from runner.load.stamped_socket import Address


@contextmanager
def silent_address() -> Iterator[Address]:
    """A loopback address that answers no further connection: its listener's queue is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(8):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield socket.AF_INET, listener.getsockname()
