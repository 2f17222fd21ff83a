"""Many sockets told apart with few looks: each readable one is called, none that is no longer watched."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import pytest

from runner.load.poller import Poller


@contextlib.contextmanager
def pairs(count: int) -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    """`count` connected pairs; the first of each does not block."""
    made = [socket.socketpair() for _ in range(count)]
    for ours, _ in made:
        ours.setblocking(False)
    try:
        yield made
    finally:
        for both in made:
            for s in both:
                s.close()


@pytest.mark.parametrize("count", [1, 32])
def test_every_socket_that_can_be_read_is_called_until_it_is_removed(count: int) -> None:
    """Each callback reads its own socket's data, in two rounds; a removed one hears nothing more."""

    async def run() -> None:
        poller = Poller()
        heard: list[tuple[int, bytes]] = []
        done = asyncio.Event()

        def reader(number: int, sock: socket.socket) -> None:
            heard.append((number, sock.recv(100)))
            if len(heard) == count:
                done.set()

        with pairs(count) as made:
            for number, (ours, _) in enumerate(made):
                poller.add(ours.fileno(), lambda n=number, s=ours: reader(n, s))  # type: ignore[misc]
            for text in (b"one", b"two"):
                heard.clear()
                done.clear()
                for _, theirs in made:
                    theirs.send(text)
                await asyncio.wait_for(done.wait(), 30)
                assert sorted(heard) == [(n, text) for n in range(count)]
            heard.clear()
            for ours, _ in made:
                poller.remove(ours.fileno())
                poller.remove(ours.fileno())  # twice is like once
            for _, theirs in made:
                theirs.send(b"three")
            poller.add(made[0][0].fileno(), done.set)
            done.clear()
            await asyncio.wait_for(done.wait(), 30)
            assert heard == []
            poller.close()
            poller.close()

    asyncio.run(run())


def test_a_callback_may_remove_others_or_close_the_poller() -> None:
    """Of two sockets that can be read at once, the one whose callback comes first silences the other."""

    async def run() -> None:
        poller = Poller()
        called: list[int] = []
        with pairs(2) as made:
            fds = [ours.fileno() for ours, _ in made]

            def first(number: int) -> None:
                called.append(number)
                poller.remove(fds[1 - number])
                poller.close()

            for number, fd in enumerate(fds):
                made[number][1].send(b"x")
                poller.add(fd, lambda n=number: first(n))  # type: ignore[misc]
            for _ in range(20):
                await asyncio.sleep(0.001)
        assert len(called) == 1

    asyncio.run(run())
