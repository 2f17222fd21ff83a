"""One TCP or TLS connection that carries one exchange at a time. Every read is stamped before anything looks at it."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from time import monotonic_ns

import httptools

from runner.load.clock import Clock
from runner.load.exchange import MAX_BODY_BYTES, MAX_HEADER_BYTES, Exchange, ExchangeError, Hooks
from runner.load.poller import READ_BYTES, SHORT_READ_BYTES, Ancillary, Inbox, Poller
from runner.load.stamped_socket import wall_stamp, wall_times

PIECE_BYTES = 40  # what keeping one body piece costs beside its bytes
END_MARK_GRACE_S = 0.25  # after the dialect's end mark, for the end of the body that keeps the connection usable
READS_AT_ONCE = 16  # then the other connections have their turn
BROKEN = (httptools.HttpParserUpgrade, httptools.HttpParserError)


class Connection:
    """Owns a connected non-blocking socket. `begin` starts an exchange, `wait` returns when there is something new."""

    __slots__ = (
        "_buffer", "_clock", "_every_read", "_failure", "_fd", "_feed", "_floor_ns", "_holding_since_ns", "_hooks",
        "_inbox", "_incoming", "_loop", "_max_body", "_may_hold", "_outgoing", "_poller", "_raw_bytes", "_says_done",
        "_sock", "_tls", "_waiter", "_writing", "exchange", "open", "tls_ns",
    )  # fmt: skip

    def __init__(self, sock: socket.socket, clock: Clock, poller: Poller) -> None:
        self._sock, self._fd, self._poller, self._clock = sock, sock.fileno(), poller, clock
        self._inbox = Inbox(sock.recvmsg_into, self._on_readable, self._on_read, self._on_error)
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._failure: ExchangeError | None = None
        self._tls: ssl.SSLObject | None = None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._buffer = memoryview(b"")
        self._writing = self._every_read = False
        self._raw_bytes = self._floor_ns = self._holding_since_ns = 0
        self._may_hold = False
        self._max_body = MAX_BODY_BYTES
        self._says_done: Callable[[bytes], bool] | None = None
        self.open = True
        self.tls_ns: int | None = None
        self.exchange = Exchange()
        self._hooks = Hooks(self.exchange, head_only=False)
        self._feed = self._hooks.parser.feed_data

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """The TLS handshake; sets `tls_ns`. Raises OSError (ssl.SSLError is one)."""
        began = monotonic_ns()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                await self._flush_handshake()
                data = await self._loop.sock_recv(self._sock, READ_BYTES)
                if not data:
                    raise ConnectionError("the server closed the connection during the TLS handshake") from None
                self._incoming.write(data)
        await self._flush_handshake()
        self.tls_ns = monotonic_ns() - began

    async def _flush_handshake(self) -> None:
        if self._outgoing.pending:
            await self._loop.sock_sendall(self._sock, self._outgoing.read())

    def begin(
        self,
        exchange: Exchange,
        payload: bytes,
        *,
        head_only: bool,
        every_read: bool,
        max_body: int,
        says_done: Callable[[bytes], bool] | None = None,
    ) -> None:
        """Writes the request, stamped right before its first byte. With `every_read`, `wait` wakes at each read.

        `says_done` tells from the body's last bytes that a stream is over: some servers leave the body open after it.
        """
        self.exchange, self._hooks = exchange, Hooks(exchange, head_only=head_only)
        self._feed = self._hooks.parser.feed_data
        self._failure, self._every_read, self._max_body, self._raw_bytes = None, every_read, max_body, 0
        self._says_done = says_done
        self._may_hold = not every_read and self._tls is None
        if self._tls is not None:
            self._tls.write(payload)
            payload = self._outgoing.read()
        self._buffer = memoryview(payload)
        self._poller.add(self._fd, self._inbox)
        self._floor_ns = exchange.sent_ns = monotonic_ns()
        self._on_writable()

    async def wait(self) -> None:
        """Returns at the end of the exchange (with `every_read`: also at each read). Raises ExchangeError."""
        if self._failure is None and not self.exchange.complete:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._failure is not None:
            raise self._failure

    @property
    def head_done(self) -> bool:
        return self._hooks.head_done

    def is_alive(self) -> bool:
        """True when an idle connection has neither been closed nor has anything to say."""
        try:
            self._sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return self.open
        except OSError:
            return False
        return False

    def expire(self) -> None:
        """The request has taken too long: it ends here with what has come, unless that was all of it."""
        self._release()
        self._fail("timeout", "no complete answer in time")

    def close(self) -> None:
        self._release()  # what came before a cut is kept
        if self.open:
            self.open = False
            self._poller.remove(self._fd)
            if self._writing:
                self._loop.remove_writer(self._fd)
            self._sock.close()

    def _on_writable(self) -> None:
        try:
            sent = self._sock.send(self._buffer) if self._buffer else 0
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:  # the server hung up early; what it said before, or its silence, is read
            self._buffer, sent = memoryview(b""), 0
        self._buffer = self._buffer[sent:]
        if bool(self._buffer) != self._writing:
            self._writing = not self._writing
            if self._writing:
                self._loop.add_writer(self._fd, self._on_writable)
            else:
                self._loop.remove_writer(self._fd)

    def _on_readable(self) -> None:
        for _ in range(READS_AT_ONCE):
            try:
                data, ancillary = self._poller.receive(self._inbox)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as e:
                return self._on_error(e)
            self._on_read(data, ancillary)
            if len(data) < READ_BYTES or self.exchange.complete or not self.open:
                return  # a short read has emptied the socket

    def _on_error(self, error: OSError) -> None:
        self._release()
        self._fail("truncated", f"the connection broke: {error.strerror or error}")

    def _on_read(self, data: bytes, ancillary: Ancillary) -> None:
        now = monotonic_ns()
        self._release()
        if not data:
            return self._on_eof(now)
        if self.exchange.complete or not self.open:
            return
        wall = wall_stamp(ancillary)
        stamp = None if wall is None else self._clock.to_monotonic(wall, now, self._floor_ns)
        self._floor_ns = now if stamp is None else stamp
        self._take(data, self._floor_ns, stamp is None)
        self._inbox.holding = self._may_hold and self._hooks.chunked and not self.exchange.complete and self.open
        self._holding_since_ns = now

    def _release(self) -> None:
        """Looks into the reads that were only kept so far: together, that is much cheaper than one at a time."""
        inbox, exchange = self._inbox, self.exchange
        held, inbox.held, inbox.holding = inbox.held, [], False
        if not held:
            return
        reads = held[::2]
        arrived, unfit = self._clock.of_earlier_reads(wall_times(held[1::2]), self._holding_since_ns, self._floor_ns)
        self._raw_bytes += sum(map(len, reads))
        self._floor_ns = arrived[-1]
        parts, feed = exchange.parts, self._feed
        before, counts = len(parts), []
        for data in reads:
            try:
                feed(data)
            except BROKEN as e:
                self._note_broken(e)
            counts.append(len(parts))
        if counts == list(range(before + 1, before + len(reads) + 1)):  # a piece in each read, as nearly always
            exchange.stamps.extend(arrived)
            exchange.counts.extend(counts)
        else:
            for stamp, count in zip(arrived, counts, strict=True):
                if count != before:
                    before = count
                    exchange.stamps.append(stamp)
                    exchange.counts.append(count)
        exchange.user_stamps += unfit
        self._judge(arrived[-1], ended=False)

    def _parse(self, data: bytes) -> None:
        try:
            self._feed(data)
        except BROKEN as e:
            self._note_broken(e)

    def _note_broken(self, error: Exception) -> None:
        hooks = self._hooks
        if isinstance(error, httptools.HttpParserUpgrade):
            hooks.refused = hooks.refused or "the server asks to switch protocols"
            return
        if not hooks.done:
            hooks.refused = f"the answer is not HTTP/1.1: {error}"
        hooks.keep_alive = False

    def _take(self, data: bytes, stamp: int, user_time: bool) -> None:
        exchange, hooks = self.exchange, self._hooks
        if exchange.first_byte_ns is None:
            exchange.first_byte_ns = stamp
        ended = False
        if self._tls is not None:
            data, ended = self._decrypt(data)
            if self._failure is not None:
                return
        self._raw_bytes += len(data)
        parts = exchange.parts
        before = len(parts)
        self._parse(data)
        count = len(parts)
        if count != before:
            exchange.stamps.append(stamp)
            exchange.counts.append(count)
            if user_time:
                exchange.user_stamps += 1
            if self._says_done is not None and (b"[DONE]" in data or len(data) < SHORT_READ_BYTES) and not hooks.done:
                self._look_for_end(stamp)
        self._judge(stamp, ended=ended)

    def _judge(self, stamp: int, *, ended: bool) -> None:
        """Goes on, or ends the exchange, by what the parser has seen so far."""
        hooks = self._hooks
        count = len(self.exchange.parts)
        if hooks.refused is not None:
            self._fail("http_error", hooks.refused)
        elif hooks.done:
            self._finish(stamp)
        elif ended:
            self._on_eof(stamp)
        elif self._raw_bytes + PIECE_BYTES * count > (self._max_body if hooks.head_done else MAX_HEADER_BYTES):
            what = f"body is larger than {self._max_body} bytes"
            if not hooks.head_done:
                what = f"header is larger than {MAX_HEADER_BYTES} bytes"
            self._fail("http_error", f"the answer's {what}")
        elif self._every_read:
            self._wake()

    def _look_for_end(self, stamp: int) -> None:
        assert self._says_done is not None
        if self._says_done(b"".join(self.exchange.parts[-3:])[-64:]):
            self._says_done = None
            self._loop.call_later(END_MARK_GRACE_S, self._end_by_mark, self.exchange, stamp)

    def _end_by_mark(self, exchange: Exchange, stamp: int) -> None:
        if exchange is self.exchange and not exchange.complete and self._failure is None:
            self._hooks.keep_alive = False
            self._finish(stamp)

    def _decrypt(self, data: bytes) -> tuple[bytes, bool]:
        """Plain bytes, and whether the server has said that no more will come."""
        assert self._tls is not None
        self._incoming.write(data)
        plain, ended = [], False
        try:
            while piece := self._tls.read(65536):
                plain.append(piece)
            ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            ended = True
        except ssl.SSLError as e:
            self._fail("http_error", f"TLS failed: {e.reason or e}")
        if self._outgoing.pending and self.open and not self._buffer:  # an answer to a key update
            self._buffer = memoryview(self._outgoing.read())
            self._on_writable()
        return b"".join(plain), ended

    def _on_eof(self, now: int) -> None:
        if self._hooks.until_close():
            self._finish(now)
            self.close()
        elif self.exchange.first_byte_ns is None:
            self._fail("truncated", "the server closed the connection without an answer")
        else:
            self._fail("truncated", "the connection was closed in the middle of the answer")

    def _finish(self, stamp: int) -> None:
        self.exchange.end_ns = stamp
        self.exchange.complete = True
        self._poller.remove(self._fd)
        if not self._hooks.keep_alive or self._writing:
            self.close()
        self._wake()

    def _fail(self, kind: str, detail: str) -> None:
        if self._failure is None and not self.exchange.complete:
            self.exchange.end_ns = monotonic_ns()
            self._failure = ExchangeError(kind, detail, self.exchange)
            self.close()
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
