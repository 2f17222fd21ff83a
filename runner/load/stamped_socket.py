"""Sockets whose reads carry the kernel's receive time (SO_TIMESTAMPNS), and how they are connected.

The kernel's stamp does not move when the event loop is late; without it (not Linux) user time stands in.
"""

import asyncio
import contextlib
import os
import socket
import struct
import sys
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

SOL_SOCKET = int(socket.SOL_SOCKET)
SO_TIMESTAMPNS = 35  # include/uapi/asm-generic/socket.h; the socket module has no name for it
ANCILLARY_BYTES = 64
TIMESPEC = struct.Struct("@ll")
STAGGER_S = 0.25  # RFC 8305: how long one address may be silent before the next is tried beside it
LOCAL_STAGGER_S = 0.02

Address = tuple[int, Any]  # (family, socket address)


def enable_stamps(sock: socket.socket) -> bool:
    """Asks the kernel to stamp what `sock` receives; False where it can't."""
    if sys.platform != "linux":
        return False
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True


def open_warm_up_socket() -> socket.socket:
    """To be kept open: the kernel starts stamping lazily, so packets soon after the first such socket lack stamps."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    enable_stamps(sock)
    return sock


def wall_stamp(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    """Kernel receive time, ns of CLOCK_REALTIME, from recvmsg's ancillary data; of several packets the last one's."""
    for level, kind, data in ancillary:
        if level == SOL_SOCKET and kind == SO_TIMESTAMPNS and len(data) >= TIMESPEC.size:
            return wall_times([data[: TIMESPEC.size]])[0]
    return None


def wall_times(packed: list[bytes]) -> list[int]:
    """ns of CLOCK_REALTIME from the kernel's structs timespec."""
    return [seconds * 1_000_000_000 + ns for seconds, ns in TIMESPEC.iter_unpack(b"".join(packed))]


async def resolve(host: str, port: int) -> list[Address]:
    """Addresses of a host, families alternating; literals at once, names off the event loop. Raises OSError."""
    try:
        literal = ip_address(host.partition("%")[0])
    except ValueError:
        pass
    else:
        if "%" not in host:
            family = socket.AF_INET6 if literal.version == 6 else socket.AF_INET
            return [(family, (host, port, 0, 0) if literal.version == 6 else (host, port))]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys((int(family), where) for family, _, _, _, where in found))
    first = [a for a in addresses if a[0] == addresses[0][0]]
    other = [a for a in addresses if a[0] != addresses[0][0]]
    paired = [a for pair in zip(first, other, strict=False) for a in pair]
    return paired + first[len(other) :] + other[len(first) :]


async def connect(host: str, addresses: list[Address], check: Callable[[str], str | None]) -> socket.socket:
    """The first of `addresses` that answers, as a non-blocking socket with stamps on.

    A refused address is passed over at once, a silent one after a short stagger while its attempt goes on.
    `check` gives the reason why an address must not be contacted. Raises OSError with every reason.
    """
    reasons: list[str] = []
    running: set[asyncio.Task[socket.socket]] = set()
    stagger = LOCAL_STAGGER_S if host == "localhost" else STAGGER_S
    waiting = list(addresses)
    try:
        while waiting or running:
            if waiting:
                family, where = waiting.pop(0)
                refused = check(str(where[0]))
                if refused is not None:
                    reasons.append(refused)
                    continue
                if not waiting and not running:  # the usual case needs no task
                    return await _connect_one(family, where)
                running.add(asyncio.ensure_future(_connect_one(family, where)))
            done, running = await asyncio.wait(
                running, timeout=stagger if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                error = task.exception()
                if error is None:
                    running |= done - {task}
                    return task.result()
                reasons.append(_reason(error))
    except OSError as e:
        reasons.append(_reason(e))
    finally:
        for task in running:
            task.add_done_callback(_close_late)
            task.cancel()
    raise OSError("; ".join(dict.fromkeys(reasons)) or f"{host} has no address")


def _reason(error: BaseException) -> str:
    """The system's own words: asyncio's have a number and the address once more."""
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number is not None and number > 0 else str(error)


async def _connect_one(family: int, where: Any) -> socket.socket:  # noqa: ANN401 - socket addresses have no type
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        enable_stamps(sock)
        await asyncio.get_running_loop().sock_connect(sock, where)
    except BaseException:
        sock.close()
        raise
    return sock


def _close_late(task: asyncio.Task[socket.socket]) -> None:
    """An attempt that lost the race is closed, also when it connected in the meantime."""
    with contextlib.suppress(asyncio.CancelledError, OSError):
        task.result().close()


def raise_open_files() -> None:
    """Lifts the soft limit of open files to the hard one: a stream is a file, and the usual limit is 1,024."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
