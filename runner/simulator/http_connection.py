"""One HTTP/1.1 connection of the built-in engine: requests in, answers out, one at a time."""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

import httptools

from runner.simulator.answer import http_reply
from runner.simulator.ask import error_body
from runner.simulator.realtime import LiveAnswer

if TYPE_CHECKING:
    from runner.simulator.server import Service

MAX_BODY_BYTES = 32 * 2**20


class Connection(asyncio.Protocol):
    """httptools calls the on_ methods; a request that comes while one is being answered waits its turn."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._body = bytearray()
        self._pending: deque[tuple[str, str, bytes]] = deque()
        self._answer: LiveAnswer | None = None
        self._refusal: bytes | None = None  # the last thing it is told, when what came before is answered
        self._close_after = False
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport  # asyncio sets TCP_NODELAY itself
        self._service.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._service.connections.discard(self)
        self._pending.clear()
        if self._answer is not None:
            self._service.live.drop(self._answer)
            self._answer = None

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(400, "No other protocol is spoken here: send the request without an Upgrade header.")
        except httptools.HttpParserError:
            self._refuse(400, "Invalid HTTP request received.")
        # not from inside the parser: it would take our own mistakes for the client's
        self._next()

    def on_message_begin(self) -> None:
        self._url = b""
        self._body = bytearray()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"expect" and value.lower() == b"100-continue":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body += body
        if len(self._body) > MAX_BODY_BYTES:
            self._refuse(413, f"The request body is larger than {MAX_BODY_BYTES} bytes.")

    def on_message_complete(self) -> None:
        if self._refusal is not None or self._parser.should_upgrade():  # whose body the parser leaves out
            return
        self._close_after = not self._parser.should_keep_alive()
        path = self._url.split(b"?", 1)[0].decode("latin-1")
        self._pending.append((self._parser.get_method().decode("latin-1"), path, bytes(self._body)))

    def _next(self) -> None:
        while self._pending and self._answer is None and not self.transport.is_closing():
            self._answer = self._service.handle(self, *self._pending.popleft())
        if self._answer is None and not self.transport.is_closing():
            if self._refusal is not None:
                self.transport.write(self._refusal)
            if self._refusal is not None or self._close_after:
                self.transport.close()

    def answer_done(self) -> None:
        """The last byte of the answer has been handed to the socket."""
        self._answer = None
        self._next()

    def _refuse(self, status: int, message: str) -> None:
        if self._refusal is None:
            self._refusal = http_reply(status, error_body(status, message, "BadRequestError", None))
