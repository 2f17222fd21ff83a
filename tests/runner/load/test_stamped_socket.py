"""Connecting to the first address that answers, and reading the kernel's stamps."""

import asyncio
import errno
import os
import socket
import struct
import time

import pytest

from runner.load.garbage import freeze, thaw
from runner.load.stamped_socket import SO_TIMESTAMPNS, STAGGER_S, Address, connect, resolve, wall_stamp
from tests.support.silent_address import silent_address


def allow(address: str) -> None:
    """No address is refused."""


def closed_address() -> Address:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return socket.AF_INET, free.getsockname()


def test_a_silent_address_is_passed_over_after_a_short_wait() -> None:
    """The next address is tried beside the silent one and wins, long before any timeout."""
    with silent_address() as silent, socket.create_server(("127.0.0.1", 0)) as server:
        began = time.monotonic()
        sock = asyncio.run(connect("two.test", [silent, (socket.AF_INET, server.getsockname())], allow))
        took = time.monotonic() - began
        assert sock.getpeername() == server.getsockname()
        sock.close()
    assert 0.2 < took < 10  # the kernel itself would try for two minutes


def test_a_refused_address_is_passed_over_at_once() -> None:
    """A closed port costs no stagger."""
    took = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        for _ in range(5):  # the machine may be busy in one of them
            began = time.monotonic()
            sock = asyncio.run(connect("two.test", [closed_address(), (socket.AF_INET, server.getsockname())], allow))
            took.append(time.monotonic() - began)
            assert sock.getpeername() == server.getsockname()
            assert not sock.getblocking()
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
            sock.close()
    assert min(took) < STAGGER_S


def test_forbidden_addresses_are_not_contacted_and_the_reason_is_told() -> None:
    """An address the check refuses gets no connection, also when it is the only one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        where = (socket.AF_INET, server.getsockname())
        with pytest.raises(OSError, match="not this one"):
            asyncio.run(connect("x.test", [where], lambda address: f"not this one: {address}"))
        with pytest.raises(BlockingIOError):
            server.accept()


def test_every_reason_is_named() -> None:
    """Of an address where nobody listens and one that must not be contacted the error holds both reasons."""
    where: list[Address] = [closed_address(), (socket.AF_INET, ("127.0.0.3", 1))]
    with pytest.raises(OSError, match=os.strerror(errno.ECONNREFUSED)) as caught:
        asyncio.run(connect("two.test", where, lambda address: "not this one" if address.endswith("3") else None))
    assert "not this one" in str(caught.value)


def test_literal_addresses_need_no_look_up() -> None:
    """IPv4 and IPv6 literals resolve to themselves; localhost to at least one loopback address."""
    assert asyncio.run(resolve("127.0.0.1", 80)) == [(socket.AF_INET, ("127.0.0.1", 80))]
    assert asyncio.run(resolve("::1", 80)) == [(socket.AF_INET6, ("::1", 80, 0, 0))]
    assert {where[0] for _, where in asyncio.run(resolve("localhost", 80))} <= {"127.0.0.1", "::1"}


def test_stamps_are_read_from_the_kernels_timespec() -> None:
    """Seconds and nanoseconds become one number; other ancillary data is none."""
    stamp = struct.pack("@ll", 1_700_000_000, 123_456_789)
    assert wall_stamp([(socket.SOL_SOCKET, SO_TIMESTAMPNS, stamp)]) == 1_700_000_000_123_456_789
    assert wall_stamp([(socket.SOL_SOCKET, 1, stamp)]) is None
    assert wall_stamp([]) is None


def test_garbage_collection_is_off_while_frozen() -> None:
    """freeze switches collection off and sets living objects aside; thaw undoes both."""
    import gc

    assert gc.isenabled()
    freeze()
    try:
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
    finally:
        thaw()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
