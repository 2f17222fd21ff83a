"""httpx's transport for measuring: raw sockets, kernel receive stamps, no pool.

`httpx.AsyncClient(transport=StampedTransport())` is an ordinary client; every response has an `Exchange` with its
stamps in `response.extensions["goodput"]`, every failure is an `ExchangeError` that carries one. A request with
`extensions={"goodput": Collect()}` is a measured one: its task is woken once, when the whole answer is there.
httpx's own pool walks all connections at each start and end and is what made httpx the least accurate client.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from time import monotonic_ns

import httpx

from runner.load.clock import Clock
from runner.load.connection import Connection
from runner.load.exchange import MAX_BODY_BYTES, Exchange, ExchangeError
from runner.load.limits import Limits
from runner.load.poller import Poller
from runner.load.stamped_socket import Address, connect, open_warm_up_socket, raise_open_files, resolve
from runner.load.targets import allowed_hosts, container_hint, refusal
from runner.load.turnstile import Turnstile

CONNECT_TIMEOUT_S = 10.0
NAME_TTL_NS = 60_000_000_000
IDLE_PER_ORIGIN = 4096

Origin = tuple[str, str, int]  # scheme, host, port


@dataclass(slots=True)
class Collect:
    """Request extension "goodput": collect the whole answer. `exchange` is there even when the request is cancelled."""

    limit_s: float | None = None  # for the whole request; None: as long as it takes
    says_done: Callable[[bytes], bool] | None = (
        None  # the dialect's end mark, for servers that then leave the body open
    )
    reuse: bool = False  # True: an idle connection may be used, unless this server has closed one before
    exchange: Exchange = field(default_factory=Exchange)


class StampedTransport(httpx.AsyncBaseTransport):
    """`clock`: shared by all transports of a sweep. `verify`: False accepts any certificate, or give a context.

    `allow`: hosts allowed beside private addresses; default GOODPUT_ALLOW_HOSTS. Use from one event loop.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        verify: bool | ssl.SSLContext = True,
        allow: tuple[str, ...] | None = None,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self.clock = clock or Clock()
        self._verify = verify
        self._context: ssl.SSLContext | None = None
        self._allow = allowed_hosts() if allow is None else allow
        self._connect_timeout_s = connect_timeout_s
        self._max_body = max_body_bytes
        self._idle: dict[Origin, list[Connection]] = {}
        self._hangs_up: set[Origin] = set()  # promises keep-alive and closes all the same, as llama.cpp does
        self._names: dict[tuple[str, int], tuple[int, list[Address]]] = {}
        self._turnstile = Turnstile()
        self._limits = Limits()
        self._poller: Poller | None = None
        self._warm_up = open_warm_up_socket()
        raise_open_files()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises ExchangeError: no connection, refused address, timeout, broken off, not HTTP/1.1."""
        collect = request.extensions.get("goodput")
        if isinstance(collect, Collect):
            payload = encode_request(request, await request.aread())
            await self.collect(origin_of(request.url), payload, collect, head_only=request.method == "HEAD")
            exchange = collect.exchange
            return httpx.Response(
                exchange.status or 0,
                headers=_plain_headers(exchange),
                stream=_Nothing(),
                extensions={"goodput": exchange},
            )
        payload = encode_request(request, await request.aread())
        origin = origin_of(request.url)
        head_only = request.method == "HEAD"
        timeouts = request.extensions.get("timeout") or {}
        connection = await self._open_stream(origin, payload, head_only, timeouts)
        exchange = connection.exchange
        stream = _Stream(self, origin, connection, timeouts.get("read"))
        return httpx.Response(
            exchange.status or 0, headers=list(exchange.headers), stream=stream, extensions={"goodput": exchange}
        )

    async def collect(self, origin: Origin, payload: bytes, collect: Collect, *, head_only: bool = False) -> None:
        """The whole answer to the encoded request into `collect.exchange`. Raises ExchangeError."""
        exchange, limit_s = collect.exchange, collect.limit_s
        due_ns = None if limit_s is None else monotonic_ns() + round(limit_s * 1e9)
        connection: Connection | None = None
        try:
            await self._turnstile.enter()
            while True:
                connection = self._waiting(origin, exchange) if collect.reuse and not exchange.resends else None
                if connection is None:
                    async with asyncio.timeout(None if due_ns is None else max(0, due_ns - monotonic_ns()) / 1e9):
                        connection = await self._new(origin, exchange)
                    await self._turnstile.enter()  # many connect at the same moment
                connection.begin(
                    exchange,
                    payload,
                    head_only=head_only,
                    every_read=False,
                    max_body=self._max_body,
                    says_done=collect.says_done,
                )
                late = connection.expire
                if due_ns is not None:
                    self._limits.add(late, due_ns)
                try:
                    await connection.wait()
                    await self._turnstile.enter()
                    break
                except ExchangeError as e:
                    if e.kind == "timeout":
                        raise TimeoutError from None
                    if not died_idle(exchange):
                        raise
                    self._restart(origin, exchange)
                finally:
                    self._limits.remove(late)
        except TimeoutError:
            exchange.end_ns = monotonic_ns()
            raise ExchangeError("timeout", f"no complete answer within {limit_s:g} s", exchange) from None
        finally:
            if connection is not None:
                self._put_back(origin, connection)
            exchange.end_ns = exchange.end_ns or monotonic_ns()

    async def _open_stream(
        self, origin: Origin, payload: bytes, head_only: bool, timeouts: dict[str, float | None]
    ) -> Connection:
        exchange = Exchange()
        while True:
            connection = await self._connection(origin, exchange, reuse=not exchange.resends, timeouts=timeouts)
            connection.begin(exchange, payload, head_only=head_only, every_read=True, max_body=self._max_body)
            try:
                while not connection.head_done:
                    await wait_for_read(connection, timeouts.get("read"))
                return connection
            except ExchangeError:
                connection.close()
                if not died_idle(exchange):
                    raise
                self._restart(origin, exchange)
            except BaseException:
                connection.close()
                raise

    async def _connection(
        self, origin: Origin, exchange: Exchange, *, reuse: bool, timeouts: dict[str, float | None] | None = None
    ) -> Connection:
        waiting = self._waiting(origin, exchange) if reuse else None
        return waiting or await self._new(origin, exchange, timeouts)

    def _waiting(self, origin: Origin, exchange: Exchange) -> Connection | None:
        """An idle connection that still lives, of a server that does not hang up on these."""
        idle = self._idle.get(origin)
        while idle and origin not in self._hangs_up:
            connection = idle.pop()
            if connection.is_alive():
                exchange.reused = True
                return connection
            connection.close()
        return None

    async def _new(
        self, origin: Origin, exchange: Exchange, timeouts: dict[str, float | None] | None = None
    ) -> Connection:
        exchange.reused = False
        limit, where = (timeouts or {}).get("connect") or self._connect_timeout_s, f"{origin[1]}:{origin[2]}"
        try:
            async with asyncio.timeout(limit):
                return await self._connect(origin, exchange)
        except TimeoutError:
            kind, detail = "connect", f"no connection to {where} within {limit:g} s"
        except ssl.SSLError as e:
            kind, detail = "connect", f"TLS with {where} failed: {e.reason or e}"
        except (OSError, UnicodeError) as e:
            self._names.pop(origin[1:], None)  # the machine may have a new address
            why = getattr(e, "strerror", None) or e  # of a name that is not known
            kind, detail = "connect", f"cannot connect to {where}: {why}{container_hint(origin[1])}"
        exchange.end_ns = monotonic_ns()
        raise ExchangeError(kind, detail, exchange)

    async def _connect(self, origin: Origin, exchange: Exchange) -> Connection:
        scheme, host, port = origin
        began = monotonic_ns()
        expires, addresses = self._names.get((host, port), (0, []))
        if expires < began:
            addresses = await resolve(host, port)
            self._names[host, port] = (began + NAME_TTL_NS, addresses)
        sock = await connect(host, addresses, lambda address: refusal(host, address, self._allow))
        exchange.connect_ns = monotonic_ns() - began
        if self._poller is None:  # not before there is an event loop
            self._poller = Poller()
        connection = Connection(sock, self.clock, self._poller)
        if scheme == "https":
            try:
                await connection.start_tls(self._tls_context(), host)
            except BaseException:
                connection.close()
                raise
            exchange.tls_ns = connection.tls_ns
        return connection

    async def preopen(self, url: str, idle: int) -> None:
        """Connects until `idle` connections to the server of `url` wait for requests; dead ones are replaced.

        Says nothing of a server that takes none: its requests will. Does nothing for one that hangs up on idle ones.
        """
        origin = origin_of(httpx.URL(url))
        ready = self._idle.setdefault(origin, [])
        for connection in [c for c in ready if not c.is_alive()]:
            ready.remove(connection)
            connection.close()
        missing = 0 if origin in self._hangs_up else min(idle, IDLE_PER_ORIGIN) - len(ready)
        opened = (self._new(origin, Exchange()) for _ in range(missing))
        made = await asyncio.gather(*opened, return_exceptions=True)
        ready += [c for c in made if isinstance(c, Connection)]

    def _restart(self, origin: Origin, exchange: Exchange) -> None:
        """The same request again on a new connection: its clock starts again at the resend."""
        self._hangs_up.add(origin)
        exchange.resends += 1
        exchange.sent_ns = exchange.end_ns = None

    def _tls_context(self) -> ssl.SSLContext:
        if self._context is None:  # loading the certificates takes tens of ms: only when https is used
            if isinstance(self._verify, ssl.SSLContext):
                self._context = self._verify
            else:
                self._context = httpx.create_ssl_context(verify=self._verify, trust_env=False)
                self._context.set_alpn_protocols(["http/1.1"])
        return self._context

    def _put_back(self, origin: Origin, connection: Connection) -> None:
        idle = self._idle.setdefault(origin, [])
        keep = origin not in self._hangs_up and len(idle) < IDLE_PER_ORIGIN
        if keep and connection.open and connection.exchange.complete:
            idle.append(connection)
        else:
            connection.close()

    async def aclose(self) -> None:
        """Closes idle connections; running ones end with their requests."""
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()
        self._limits.close()
        if self._poller is not None:
            self._poller.close()
        self._warm_up.close()


async def send_collected(client: httpx.AsyncClient, url: httpx.URL, payload: bytes, collect: Collect) -> None:
    """`client.send` of a request that is encoded already, without what the client does around it: its cookies alone,
    which no measured request has, take as long as everything else. `client` must have a `StampedTransport`.
    Raises ExchangeError.
    """
    transport = client._transport
    assert isinstance(transport, StampedTransport)
    await transport.collect(origin_of(url), payload, collect)


class _Nothing(httpx.AsyncByteStream):
    """The body of a collected answer: it is in the exchange, and httpx shall not spend time on it."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        return
        yield b""  # makes this a generator


class _Stream(httpx.AsyncByteStream):
    """Body pieces as they arrive, for ordinary use of the client."""

    def __init__(self, transport: StampedTransport, origin: Origin, connection: Connection, read_s: float | None):
        self._transport, self._origin, self._connection, self._read_s = transport, origin, connection, read_s
        self._exchange = connection.exchange
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        given = 0
        while True:
            parts = self._exchange.parts
            while given < len(parts):
                given += 1
                yield parts[given - 1]
            if self._exchange.complete:
                return
            await wait_for_read(self._connection, self._read_s)

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            self._transport._put_back(self._origin, self._connection)


async def wait_for_read(connection: Connection, limit_s: float | None) -> None:
    """Waits for the next read or the end; `limit_s` of silence is a timeout. Raises ExchangeError."""
    try:
        async with asyncio.timeout(limit_s):
            await connection.wait()
    except TimeoutError:
        connection.close()
        raise ExchangeError("timeout", f"the server was silent for {limit_s:g} s", connection.exchange) from None


def died_idle(exchange: Exchange) -> bool:
    """True when a reused connection broke before its first byte: the server had closed it while it was idle."""
    return exchange.reused and exchange.first_byte_ns is None and not exchange.resends


def origin_of(url: httpx.URL) -> Origin:
    if url.scheme not in ("http", "https") or not url.host:
        raise ExchangeError("connect", f"{str(url)[:200]!r} is not an http:// or https:// address")
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)


def encode_request(request: httpx.Request, body: bytes) -> bytes:
    """The request as bytes. Raises ExchangeError when a header would break out of its line."""
    headers = [(k, v) for k, v in request.headers.raw if k.lower() != b"transfer-encoding"]
    if len(headers) != len(request.headers.raw):
        headers.append((b"Content-Length", b"%d" % len(body)))
    lines = [b"%s %s HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    lines += [b"%s: %s" % header for header in headers]
    if any(b"\r" in line or b"\n" in line or b"\0" in line for line in lines):
        raise ExchangeError("connect", "a header of the request contains a line break; check the API key's variable")
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def _plain_headers(exchange: Exchange) -> list[tuple[bytes, bytes]]:
    """Without the framing: the body of a collected answer is read from its exchange."""
    framing = (b"content-encoding", b"content-length", b"transfer-encoding")
    return [(k, v) for k, v in exchange.headers if k.lower() not in framing]
