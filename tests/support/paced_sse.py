"""A server that paces its tokens and knows the truth: the kernel's receive time of each request, and the moment right
before each token was handed to send(). It shares no code with the product, so that both can't be wrong alike.

Own process: `paced_server(...)` starts it, and gives its log when the block ends. All times are ns of the wall clock.
"""

import argparse
import contextlib
import gc
import heapq
import json
import resource
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SO_TIMESTAMPNS = 35
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
MODELS = json.dumps({"object": "list", "data": [{"id": "paced", "object": "model", "owned_by": "test"}]}).encode()


def event(delta: dict[str, str], finish: str | None = None, **more: object) -> bytes:
    choices = [] if more else [{"index": 0, "delta": delta, "finish_reason": finish}]
    chunk = {"id": "chatcmpl-paced", "object": "chat.completion.chunk", "created": 1, "model": "paced"}
    data = b"data: %s\n\n" % json.dumps({**chunk, "choices": choices, **more}).encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


TOKEN = event({"content": " word"})


@dataclass(order=True)
class Stream:
    due_ns: int
    sock: socket.socket = field(compare=False)
    tokens: int = field(compare=False)
    prompt_tokens: int = field(compare=False)
    sent_ns: list[int] = field(compare=False)


class Server:
    def __init__(self, args: argparse.Namespace) -> None:
        self.gap_ns, self.ttft_ns = round(1e9 / args.rate), round(args.ttft_ms * 1e6)
        self.stall_after, self.stall_ns = args.stall_after, round(args.stall_ms * 1e6)
        self.requests: list[tuple[int, list[int]]] = []  # received, sent tokens
        self.stall: tuple[int, int] | None = None
        self.running: list[Stream] = []
        self.conns: dict[int, tuple[socket.socket, bytearray]] = {}
        self.tokens_sent = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.listener.setblocking(False)
        self.listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.poll = select.epoll()
        self.poll.register(self.listener, select.EPOLLIN)
        self.poll.register(sys.stdin.fileno(), select.EPOLLIN | select.EPOLLHUP)

    def serve(self) -> None:
        while True:
            self.send_due()
            wait_s = min(0.02, max(0.0, (self.running[0].due_ns - time.time_ns()) / 1e9)) if self.running else 0.02
            if wait_s < 0.001:
                time.sleep(wait_s / 2)
            for fd, _ in self.poll.poll(int(wait_s * 1000) / 1000):
                if fd == sys.stdin.fileno():
                    return
                self.accept() if fd == self.listener.fileno() else self.read(fd)

    def accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                sock, _ = self.listener.accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.conns[sock.fileno()] = (sock, bytearray())
                self.poll.register(sock, select.EPOLLIN)

    def read(self, fd: int) -> None:
        sock, buffer = self.conns[fd]
        try:
            data, ancillary, _, _ = sock.recvmsg(1 << 16, 64)
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", []
        if not data:
            self.poll.unregister(sock)
            sock.close()
            del self.conns[fd]
            return
        received_ns = time.time_ns()
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                seconds, nanoseconds = struct.unpack("@ll", content)
                received_ns = seconds * 1_000_000_000 + nanoseconds
        buffer += data
        head, complete, body = bytes(buffer).partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
        if complete and len(body) >= length:
            buffer.clear()
            self.answer(sock, head, body, received_ns)

    def answer(self, sock: socket.socket, head: bytes, body: bytes, received_ns: int) -> None:
        if not head.startswith(b"POST /v1/chat/completions"):
            found = head.startswith(b"GET /v1/models")
            status, content = (b"200 OK", MODELS) if found else (b"404 Not Found", b"{}")
            length = b"Content-Length: %d" % len(content)
            sock.send(b"HTTP/1.1 %s\r\nContent-Type: application/json\r\n%s\r\n\r\n%s" % (status, length, content))
            return
        asked = json.loads(body)
        words = len(asked["messages"][-1]["content"].split())
        sent_ns: list[int] = []
        self.requests.append((received_ns, sent_ns))
        sock.send(HEAD)
        heapq.heappush(self.running, Stream(received_ns + self.ttft_ns, sock, asked["max_tokens"], words, sent_ns))

    def send_due(self) -> None:
        running = self.running
        while running and running[0].due_ns <= time.time_ns():
            stream = running[0]
            stream.sent_ns.append(time.time_ns())
            alive = True
            try:
                stream.sock.send(TOKEN)
                if len(stream.sent_ns) == stream.tokens:
                    usage = {"prompt_tokens": stream.prompt_tokens, "completion_tokens": stream.tokens}
                    end = event({}, "length") + event({}, usage=usage) + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
                    stream.sock.send(end)
            except OSError:
                alive = False
            if alive and len(stream.sent_ns) < stream.tokens:
                stream.due_ns += self.gap_ns
                heapq.heapreplace(running, stream)
            else:
                heapq.heappop(running)
            self.tokens_sent += 1
            if self.tokens_sent == self.stall_after:
                self.stand_still()

    def stand_still(self) -> None:
        """Nothing moves; afterwards every stream goes on at its own pace, as an engine's iterations would."""
        began_ns = time.time_ns()
        time.sleep(self.stall_ns / 1e9)
        self.stall = (began_ns, time.time_ns())
        for stream in self.running:
            stream.due_ns += self.stall[1] - began_ns  # the same for all, so that the heap stays in order

    def log(self) -> dict[str, Any]:
        requests = [{"received_ns": received, "sent_ns": sent} for received, sent in self.requests]
        return {"requests": requests, "stall": self.stall}


@dataclass
class Paced:
    """`log` is filled when the block ends: requests [{received_ns, sent_ns}], stall [began, ended] or null."""

    url: str
    log: dict[str, Any] = field(default_factory=dict)


@contextlib.contextmanager
def paced_server(
    folder: Path, *, rate: float, ttft_ms: float = 50.0, stall_after: int = 0, stall_ms: float = 0.0
) -> Iterator[Paced]:
    """A paced server in a process of its own, `rate` tokens/s a stream; `stall_after`: tokens it sends before it
    stands still once for `stall_ms`."""
    path = folder / "paced.json"
    line = [sys.executable, __file__, "--rate", str(rate), "--ttft-ms", str(ttft_ms), "--log", str(path)]
    line += ["--stall-after", str(stall_after), "--stall-ms", str(stall_ms)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        paced = Paced(f"http://127.0.0.1:{int(process.stdout.readline())}")
        try:
            yield paced
            process.communicate(timeout=60)
            paced.log = json.loads(path.read_text())
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--ttft-ms", type=float, required=True)
    parser.add_argument("--stall-after", type=int, required=True)
    parser.add_argument("--stall-ms", type=float, required=True)
    parser.add_argument("--log", type=Path, required=True)
    args = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = Server(args)
    print(server.listener.getsockname()[1], flush=True)
    gc.freeze()
    gc.disable()
    server.serve()
    args.log.write_text(json.dumps(server.log()))


if __name__ == "__main__":
    main()
