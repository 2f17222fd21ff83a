"""One HTTP/1.1 exchange as it happens: stamps, bytes, and the parser's view of them. Nothing is decoded here."""

import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import httptools
import httpx

from runner.protocols.facts import Reads, StampedRead

MAX_HEADER_BYTES = 64 * 1024
MAX_BODY_BYTES = 64 * 1024 * 1024


class ExchangeError(httpx.TransportError):
    """A request that got no complete answer. `exchange` keeps the stamps and bytes up to there.

    `kind` is one of the record's error kinds: connect, timeout, truncated, http_error.
    """

    def __init__(self, kind: str, detail: str, exchange: "Exchange | None" = None) -> None:
        super().__init__(detail)
        self.kind = kind
        self.exchange = exchange


@dataclass(slots=True)
class Exchange:
    """Stamps (ns, monotonic clock) and raw answer of one request. Filled in while it runs; read it at any time."""

    connect_ns: int | None = None  # duration; None on a reused connection
    tls_ns: int | None = None  # duration; None on plain TCP or a reused connection
    sent_ns: int | None = None  # right before the first byte was written
    first_byte_ns: int | None = None
    end_ns: int | None = None  # last byte of the answer, or the moment the attempt failed
    reused: bool = False
    resends: int = 0
    status: int | None = None
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    complete: bool = False  # the answer ended as its framing promised
    user_stamps: int = 0  # body reads that carried no kernel stamp
    # body pieces, and for each read that had some: its stamp and how many pieces there were after it
    parts: list[bytes] = field(default_factory=list)
    stamps: "array[int]" = field(default_factory=lambda: array("q"))
    counts: "array[int]" = field(default_factory=lambda: array("q"))

    @property
    def clock(self) -> str:
        """kernel, when every body read (of at least one) had the kernel's stamp; else user."""
        return "kernel" if self.stamps and not self.user_stamps else "user"

    @property
    def body_bytes(self) -> int:
        return sum(map(len, self.parts))

    def header(self, name: bytes) -> bytes | None:
        """The first header of this name (lower case), None when absent."""
        for key, value in self.headers:
            if key.lower() == name:
                return value
        return None

    def reads(self) -> Sequence[StampedRead]:
        """Body bytes by read, content-encoding removed. Raises ExchangeError (http_error) when it can't be."""
        if len(self.stamps) == len(self.parts):  # a piece in each read, as nearly always
            raw = Reads(self.stamps.tolist(), self.parts)
        else:
            parts, spans = self.parts, zip(chain((0,), self.counts), self.counts, strict=False)
            bodies = [parts[i] if stop - i == 1 else b"".join(parts[i:stop]) for i, stop in spans]
            raw = Reads(self.stamps.tolist(), bodies)
        encoding = (self.header(b"content-encoding") or b"identity").strip().lower()
        if encoding in (b"identity", b""):
            return raw
        if encoding not in (b"gzip", b"x-gzip", b"deflate"):
            name = encoding.decode("latin-1")[:40]
            raise ExchangeError("http_error", f"the answer is encoded as {name}, which was not asked for", self)
        try:
            return inflate(raw)
        except zlib.error as e:
            raise ExchangeError("http_error", f"the compressed answer is damaged: {e}", self) from None


def inflate(reads: Sequence[StampedRead], limit: int = MAX_BODY_BYTES) -> list[StampedRead]:
    """gzip, zlib or raw deflate removed; bytes keep the stamp of the read that completed them. Raises zlib.error."""
    head = b"".join(data for _, data in reads[:8])[:2]
    if head == b"\x1f\x8b":
        bits = zlib.MAX_WBITS | 16
    else:  # "deflate" means zlib by the standard and raw deflate by habit
        bits = zlib.MAX_WBITS if len(head) == 2 and head[0] & 15 == 8 and int.from_bytes(head) % 31 == 0 else -15
    machine = zlib.decompressobj(bits)
    plain, left = [], limit
    for stamp, data in reads:
        piece = machine.decompress(data, left + 1)
        while machine.eof and machine.unused_data.startswith(b"\x1f\x8b"):  # a further gzip member
            rest, machine = machine.unused_data, zlib.decompressobj(bits)
            piece += machine.decompress(rest, left + 1)
        left -= len(piece)
        if left < 0:
            raise zlib.error(f"more than {limit} bytes when unpacked")
        if piece:
            plain.append((stamp, piece))
    return plain


class Hooks:
    """What httptools calls while it is fed: keeps status, headers and body pieces of the final answer."""

    __slots__ = ("chunked", "done", "exchange", "head_done", "head_only", "keep_alive", "on_body", "parser", "refused")

    def __init__(self, exchange: Exchange, *, head_only: bool) -> None:
        self.exchange = exchange
        self.head_only = head_only  # the answer to HEAD has no body, whatever its headers say
        self.head_done = self.done = self.keep_alive = self.chunked = False
        self.refused: str | None = None
        self.on_body = exchange.parts.append  # the one hot call: straight into the list
        self.parser = httptools.HttpResponseParser(self)

    def on_message_begin(self) -> None:
        if not self.done:
            self.exchange.headers.clear()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.head_done:  # trailers are let go
            self.exchange.headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self.parser.get_status_code()
        if self.done or (100 <= status < 200 and status != 101):
            return
        self.head_done = True
        self.exchange.status = status
        coding = self.exchange.header(b"transfer-encoding")
        if status == 101:
            self.refused = "the server asks to switch protocols"
        elif coding is not None and coding.strip().lower() != b"chunked":
            self.refused = f"transfer-encoding {coding.decode('latin-1')[:40]} is not supported"
        elif self.head_only:
            self.done = True
        else:
            self.chunked = coding is not None

    def on_message_complete(self) -> None:
        if self.head_done and not self.done:
            self.done = True
            self.keep_alive = self.parser.should_keep_alive()

    def until_close(self) -> bool:
        """True when the end of the connection is the end of the body."""
        names = {key.lower() for key, _ in self.exchange.headers}
        return self.head_done and b"content-length" not in names and b"transfer-encoding" not in names
