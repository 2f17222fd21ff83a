"""A paced local server that knows the truth: when the kernel received each request, when each token was sent.

Own process: `python -m runner.bench.paced_server --truth FILE`. Prints its port, serves until its standard input
closes, then writes the truth. Every token's text is its number, so that stamps can be laid beside the truth.
"""

import argparse
import heapq
import json
import select
import socket
import sys
import time
from array import array
from pathlib import Path
from time import monotonic_ns

from runner.load.clock import Clock
from runner.load.garbage import freeze
from runner.load.stamped_socket import (
    ANCILLARY_BYTES,
    enable_stamps,
    open_warm_up_socket,
    raise_open_files,
    wall_stamp,
)

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_EVENT = (
    b'data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1700000000,"model":"bench",'
    b'"choices":[{"index":0,"delta":{%s},"finish_reason":%s}]}\n\n'
)
_DIGITS = 9
WARM_S = 0.0003  # before a token is due


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def token_frame() -> tuple[bytes, bytes]:
    """What stands before and after a token's number on the wire."""
    before, after = chunk(_EVENT % (b'"content":" %s"' % (b"#" * _DIGITS), b"null")).split(b"#" * _DIGITS)
    return before, after


def tail_of(tokens: int) -> bytes:
    usage = (
        b'data: {"id":"chatcmpl-bench","choices":[],"usage":{"prompt_tokens":8,"completion_tokens":%d}}\n\n' % tokens
    )
    return chunk(_EVENT % (b"", b'"length"')) + chunk(usage) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


class Stream:
    """One answer being sent; `index` counts the requests."""

    __slots__ = ("due_ns", "index", "left", "sock")

    def __init__(self, sock: socket.socket, index: int, due_ns: int, left: int) -> None:
        self.sock, self.index, self.due_ns, self.left = sock, index, due_ns, left

    def __lt__(self, other: "Stream") -> bool:
        return self.due_ns < other.due_ns


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection over loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ours, theirs


class PacedServer:
    """`rate` tokens/s per stream on absolute deadlines, the first at the next tick `ttft_ms` after the request.

    All streams share the ticks, as in continuous batching: an iteration ends with a token for every running sequence.
    """

    def __init__(self, tokens: int, rate: float, ttft_ms: float) -> None:
        self._tokens, self._gap_ns, self._ttft_ns = tokens, round(1e9 / rate), round(ttft_ms * 1e6)
        self._warm_up = open_warm_up_socket()
        self._clock = Clock()
        self._warm = tcp_pair()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self._listener.setblocking(False)
        enable_stamps(self._listener)  # accepted sockets inherit it
        self.port = self._listener.getsockname()[1]
        self._poll = select.epoll()
        self._poll.register(self._listener, select.EPOLLIN)
        self._poll.register(sys.stdin.fileno(), select.EPOLLIN | select.EPOLLHUP)
        self._conns: dict[int, tuple[socket.socket, bytearray]] = {}
        self._running: list[Stream] = []
        self._before, self._after = token_frame()
        self._tail = tail_of(tokens)
        self.received_ns = array("q")  # by request
        self.first_numbers = array("q")  # by request: number of its first token, -1 before
        self.ended_ns = array("q")  # by request: when its last token so far was sent
        self.sent_ns = array("q")  # by token number
        self.late_ns = array("q")  # by token number: sent this long after it was due

    def serve(self) -> None:
        """Until standard input closes."""
        open_for_more = True
        while open_for_more:
            self._send_due()
            open_for_more = self._look(self._pause())

    def _pause(self) -> float:
        """Seconds until the next token, at most 20 ms."""
        if not self._running:
            return 0.02
        return min(0.02, max(0.0, (self._running[0].due_ns - monotonic_ns()) / 1e9))

    def _look(self, pause_s: float) -> bool:
        if WARM_S < pause_s < 0.001:  # epoll counts in ms
            time.sleep(pause_s - WARM_S)
            pause_s = 0
        elif 0 < pause_s <= WARM_S:
            self._get_warm(self._running[0].due_ns)
            pause_s = 0
        for fd, _ in self._poll.poll(int(pause_s * 1000) / 1000):
            if fd == self._listener.fileno():
                self._accept()
            elif fd == sys.stdin.fileno():
                return False
            else:
                self._read(fd)
        return True

    def _get_warm(self, until_ns: int) -> None:
        """Sends to nobody until the moment comes: the first send after a pause takes five times as long as the next,
        and what it takes would lie between the moment noted as truth and the moment of sending."""
        while monotonic_ns() < until_ns:
            self._warm[0].send(b"x")
            self._warm[1].recv(16)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._conns[sock.fileno()] = (sock, bytearray())
            self._poll.register(sock, select.EPOLLIN)

    def _read(self, fd: int) -> None:
        sock, buffer = self._conns[fd]
        try:
            data, ancillary, _, _ = sock.recvmsg(65536, ANCILLARY_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", []
        if not data:
            self._poll.unregister(sock)
            sock.close()
            del self._conns[fd]
            return
        buffer += data
        head, found, body = buffer.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0) if found else 0
        if found and len(body) >= length:
            del buffer[:]
            now = monotonic_ns()
            wall = wall_stamp(ancillary)
            stamp = self._clock.to_monotonic(wall, now, 0) if wall is not None else None
            self._start(sock, now if stamp is None else stamp)

    def _start(self, sock: socket.socket, received_ns: int) -> None:
        sock.send(HEAD)
        self.received_ns.append(received_ns)
        self.first_numbers.append(-1)
        self.ended_ns.append(received_ns)
        index = len(self.received_ns) - 1
        ready_ns = received_ns + self._ttft_ns
        tick_ns = -(-ready_ns // self._gap_ns) * self._gap_ns
        heapq.heappush(self._running, Stream(sock, index, tick_ns, self._tokens))

    def _send_due(self) -> None:
        before, after, sent_ns, running = self._before, self._after, self.sent_ns, self._running
        now = monotonic_ns()
        while running and running[0].due_ns <= now:
            stream = running[0]
            frame = b"%s%0*d%s" % (before, _DIGITS, len(sent_ns), after)
            if stream.left == self._tokens:
                self.first_numbers[stream.index] = len(sent_ns)
            now = self.ended_ns[stream.index] = monotonic_ns()
            sent_ns.append(now)
            self.late_ns.append(now - stream.due_ns)
            try:
                stream.sock.send(frame)
                stream.left -= 1
                if not stream.left:
                    stream.sock.send(self._tail)
            except OSError:
                stream.left = 0
            if stream.left:
                stream.due_ns += self._gap_ns
                heapq.heapreplace(running, stream)
            else:
                heapq.heappop(running)

    def truth(self) -> dict[str, list[int]]:
        return {
            "received_ns": self.received_ns.tolist(),
            "first_numbers": self.first_numbers.tolist(),
            "ended_ns": self.ended_ns.tolist(),
            "sent_ns": self.sent_ns.tolist(),
            "late_ns": self.late_ns.tolist(),
        }


def main() -> None:
    parser = argparse.ArgumentParser(prog="paced_server")
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True, help="tokens/s of each stream")
    parser.add_argument("--ttft-ms", type=float, default=50.0)
    parser.add_argument("--truth", type=Path, required=True, help="written when standard input closes")
    args = parser.parse_args()
    raise_open_files()
    server = PacedServer(args.tokens, args.rate, args.ttft_ms)
    print(server.port, flush=True)
    freeze()
    server.serve()
    args.truth.write_text(json.dumps(server.truth()))


if __name__ == "__main__":
    main()
