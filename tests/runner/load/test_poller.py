"""Many sockets told apart with few looks: each readable one is called, none that is no longer watched."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from runner.load.poller import READ_BYTES, Inbox, Poller, may_go_on
from runner.load.stamped_socket import enable_stamps, wall_times


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


def inbox(sock: socket.socket, on_readable: Callable[[], object]) -> Inbox:
    """One that looks into every read."""
    return Inbox(sock.recvmsg_into, lambda: on_readable() and None, lambda data, ancillary: None, lambda error: None)


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
                poller.add(ours.fileno(), inbox(ours, partial(reader, number, ours)))
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
            poller.add(made[0][0].fileno(), inbox(made[0][0], done.set))
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
                poller.add(fd, inbox(made[number][0], partial(first, number)))
            for _ in range(20):
                await asyncio.sleep(0.001)
        assert len(called) == 1

    asyncio.run(run())


def test_reads_in_the_middle_of_a_stream_are_kept_with_their_stamps_until_one_must_be_looked_into() -> None:
    """Plain pieces are held in order, each with the kernel's time; the piece that may end the stream is handed over."""

    async def run() -> tuple[list[bytes], list[bytes]]:
        poller = Poller()
        handed: list[bytes] = []
        ended = asyncio.Event()
        listener = socket.create_server(("127.0.0.1", 0))
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
        enable_stamps(ours)
        ancillary: object = None
        while not ancillary:  # the kernel begins to stamp some packets after it was asked to
            theirs.send(b"x")
            _, ancillary, _, _ = ours.recvmsg(100, 100)
        ours.setblocking(False)

        def on_read(data: bytes, ancillary: object) -> None:
            handed.append(data)
            ended.set()

        box = Inbox(ours.recvmsg_into, lambda: None, on_read, lambda error: None)
        box.holding = True
        poller.add(ours.fileno(), box)
        for number in range(3):
            theirs.send(b"piece %d of some thirty-two bytes ..\r\n" % number)
            while len(box.held) < 2 * (number + 1):
                await asyncio.sleep(0.001)
        theirs.send(b"0\r\n\r\n")
        await asyncio.wait_for(ended.wait(), 30)
        poller.close()
        for sock in (ours, theirs, listener):
            sock.close()
        return box.held, handed

    held, handed = asyncio.run(run())
    assert [data[:7] for data in held[::2]] == [b"piece 0", b"piece 1", b"piece 2"]
    stamps = wall_times(held[1::2])
    assert stamps == sorted(stamps)
    assert abs(stamps[0] - time.time_ns()) < 60_000_000_000
    assert handed == [b"0\r\n\r\n"]


@pytest.mark.parametrize(
    ("data", "may"),
    [
        (b"5\r\nabcde\r\n" * 4, True),
        (b"5\r\nabcde\r\n" * 4 + b"0\r\n\r\n", False),
        (b"5\r\nabcde\r\n" * 4 + b"0\r\nTrailer: yes\r\n\r\n", False),
        (b"5\r\nabcde\r\n" * 4 + b"0\r\n\r\nHTTP/1.1 408 Request Timeout\r\n", False),  # a farewell behind the end
        (b"0\r\n", False),  # the first half of an end that was cut in two
        (b"\r\n", False),
        (b"6\r\n[DONE]\r\n20\r\n: a comment that makes it long enough\r\n", False),
        (b"x" * READ_BYTES, False),  # there may be more to read
        (b"", False),  # the server has closed
    ],
)
def test_only_a_read_that_cannot_be_the_last_is_kept(data: bytes, may: bool) -> None:
    """The end of a body, half of it, the dialect's end mark, a full buffer and a closed connection are looked into."""
    assert may_go_on(data) is may


def test_a_look_ends_in_time_for_what_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads that take long are worked off with turns of the event loop in between, not all in one."""
    monkeypatch.setattr("runner.load.poller.LOOK_NS", 0)

    async def run() -> list[int]:
        poller = Poller()
        turn, turn_of = 0, []

        def reader(sock: socket.socket) -> None:
            sock.recv(100)
            turn_of.append(turn)

        with pairs(6) as made:
            for ours, theirs in made:
                poller.add(ours.fileno(), inbox(ours, partial(reader, ours)))
                theirs.send(b"x")
            while len(turn_of) < 6:
                await asyncio.sleep(0)
                turn += 1
            poller.close()
        return turn_of

    assert len(set(asyncio.run(run()))) == 6
