"""The measuring transport against servers that play scripted bytes over real sockets."""

import asyncio
import gzip
import socket
import ssl
import subprocess
import sys
import time
import zlib
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from runner.load.exchange import Exchange, ExchangeError
from runner.load.stamped_socket import enable_stamps, wall_stamp
from runner.load.transport import Collect, StampedTransport
from runner.protocols.dialects import says_done
from tests.support.scripted_http import CHUNKED_HEAD, HEAD, chunk, scripted, serving, take_request
from tests.support.silent_address import silent_address


async def fetch(url: str, *, transport: StampedTransport | None = None, **options: object) -> Exchange:
    """One measured POST; the exchange of its answer."""
    collect = Collect(**options)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport or StampedTransport(allow=()), trust_env=False) as client:
        await client.post(url, content=b"{}", extensions={"goodput": collect})
    return collect.exchange


def body(exchange: Exchange) -> bytes:
    return b"".join(data for _, data in exchange.reads())


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 16, 1000])
def test_chunked_answer_may_be_cut_anywhere(cut: int) -> None:
    """However the bytes of a chunked answer are cut into writes, the body is the same."""
    answer = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(b"data: one\n\n") + chunk(b"data: two\n\n")
    answer += b"0\r\n\r\n"
    pieces = [answer[i : i + cut] for i in range(0, len(answer), cut)]

    async def run() -> Exchange:
        async with serving(scripted(*pieces)) as url:
            return await fetch(url)

    exchange = asyncio.run(run())
    assert body(exchange) == b"data: one\n\ndata: two\n\n"
    assert exchange.complete
    assert exchange.status == 200


def test_each_read_has_its_own_stamp_in_order() -> None:
    """Writes 30 ms apart give stamps at least 20 ms apart, after the send and before the end."""
    writes = [HEAD + b"Transfer-Encoding: chunked\r\n\r\n", chunk(b"a"), chunk(b"b"), chunk(b"c"), b"0\r\n\r\n"]

    async def run() -> Exchange:
        async with serving(scripted(*writes, gap_s=0.03)) as url:
            return await fetch(url)

    exchange = asyncio.run(run())
    stamps = list(exchange.stamps)
    assert [data for _, data in exchange.reads()] == [b"a", b"b", b"c"]
    assert all(b - a > 20_000_000 for a, b in pairwise(stamps))
    assert exchange.sent_ns is not None
    assert exchange.first_byte_ns is not None
    assert exchange.end_ns is not None
    assert exchange.sent_ns < exchange.first_byte_ns < stamps[0] < stamps[-1] < exchange.end_ns


@pytest.mark.skipif(sys.platform != "linux", reason="kernel stamps are Linux's")
def test_kernel_stamps_are_used_on_linux() -> None:
    """On Linux every body read carries the kernel's stamp and the exchange says so."""

    async def run() -> Exchange:
        async with serving(scripted(HEAD + b"Content-Length: 2\r\n\r\n", b"ok", gap_s=0.01)) as url:
            return await fetch(url)

    exchange = asyncio.run(run())
    assert exchange.clock == "kernel"
    assert exchange.user_stamps == 0


@pytest.mark.skipif(sys.platform != "linux", reason="kernel stamps are Linux's")
def test_a_blocked_event_loop_does_not_move_the_stamps() -> None:
    """While our own loop is stopped for 0.6 s a token arrives; its stamp is when it came, not when it was read."""
    server = (
        "import socket,time\n"
        "s=socket.create_server(('127.0.0.1',0));print(s.getsockname()[1],flush=True)\n"
        "c,_=s.accept();c.recv(65536)\n"
        "c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 1\\r\\n\\r\\n')\n"
        "time.sleep(0.1);at=time.monotonic_ns();c.sendall(b'x');print(at,flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", server], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())

        async def run() -> tuple[Exchange, int]:
            request = asyncio.create_task(fetch(f"http://127.0.0.1:{port}"))
            while not request.done() and process.poll() is None:
                await asyncio.sleep(0.001)
                time.sleep(0.6)
            return await request, time.monotonic_ns()

        exchange, _ = asyncio.run(run())
        sent_at = int(process.stdout.readline())
    assert exchange.end_ns is not None
    lag_ms = (exchange.stamps[0] - sent_at) / 1e6
    assert 0 <= lag_ms < 250  # it was read some 500 ms after it came


@pytest.mark.skipif(sys.platform != "linux", reason="kernel stamps are Linux's")
def test_send_is_stamped_before_the_server_receives_it() -> None:
    """sent_ns lies before the kernel's receive time of the request at the server, and close to it."""
    listener = socket.create_server(("127.0.0.1", 0))
    enable_stamps(listener)  # accepted sockets inherit it
    port = listener.getsockname()[1]

    def serve() -> int:
        conn, _ = listener.accept()
        with conn:
            _, ancillary, _, _ = conn.recvmsg(65536, 64)
            wall = wall_stamp(ancillary)
            conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        assert wall is not None
        return wall

    async def run() -> tuple[Exchange, int, int]:
        transport = StampedTransport(allow=())
        served = asyncio.get_running_loop().run_in_executor(None, serve)
        exchange = await fetch(f"http://127.0.0.1:{port}", transport=transport)
        return exchange, await served, transport.clock.offset_ns

    exchange, wall, offset = asyncio.run(run())
    listener.close()
    assert exchange.sent_ns is not None
    assert 0 < wall - offset - exchange.sent_ns < 500_000_000


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw-deflate"])
def test_compressed_streams_keep_a_stamp_for_each_read(encoding: str) -> None:
    """A compressed stream flushed at each token unpacks to the tokens, each with its own read's stamp."""
    bits = {"gzip": 31, "deflate": 15, "raw-deflate": -15}[encoding]
    machine = zlib.compressobj(wbits=bits)
    pieces = [machine.compress(t) + machine.flush(zlib.Z_SYNC_FLUSH) for t in (b"data: 1\n\n", b"data: 2\n\n")]
    name = encoding.removeprefix("raw-").encode()
    head = HEAD + b"Content-Encoding: " + name + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    writes = [head, *map(chunk, pieces), chunk(machine.flush()) + b"0\r\n\r\n"]

    async def run() -> Exchange:
        async with serving(scripted(*writes, gap_s=0.02)) as url:
            return await fetch(url)

    reads = asyncio.run(run()).reads()
    assert [data for _, data in reads] == [b"data: 1\n\n", b"data: 2\n\n"]
    assert reads[1][0] - reads[0][0] > 10_000_000


def test_ordinary_use_unpacks_gzip_through_httpx() -> None:
    """Without Collect the transport is a plain one: httpx streams and decodes as always."""
    packed = gzip.compress(b'{"data": []}')
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)

    async def run() -> httpx.Response:
        async with (
            serving(scripted(head, packed[:9], packed[9:])) as url,
            httpx.AsyncClient(transport=StampedTransport(allow=())) as client,
        ):
            return await client.get(url)

    response = asyncio.run(run())
    assert response.json() == {"data": []}
    assert response.extensions["goodput"].complete


def test_foreign_encodings_are_a_typed_error() -> None:
    """A body in an encoding that was not asked for is http_error, not garbage tokens."""
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nxx"

    async def run() -> Exchange:
        async with serving(scripted(head)) as url:
            return await fetch(url)

    with pytest.raises(ExchangeError, match="encoded as br") as caught:
        asyncio.run(run()).reads()
    assert caught.value.kind == "http_error"


def test_body_until_close_ends_cleanly() -> None:
    """Without length or chunks the end of the connection is the end of the body."""

    async def run() -> Exchange:
        async with serving(scripted(b"HTTP/1.0 200 OK\r\n\r\n", b"all", b" of it")) as url:
            return await fetch(url)

    exchange = asyncio.run(run())
    assert body(exchange) == b"all of it"
    assert exchange.complete


@pytest.mark.parametrize(
    ("writes", "kind", "words"),
    [
        ((), "truncated", "without an answer"),
        ((HEAD + b"Transfer-Encoding: chunked\r\n\r\n", chunk(b"a")), "truncated", "in the middle"),
        ((HEAD + b"Content-Length: 9\r\n\r\nabc",), "truncated", "in the middle"),
        ((b"SSH-2.0-OpenSSH_9.6\r\n",), "http_error", "not HTTP/1.1"),
        ((HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",), "http_error", "not HTTP/1.1"),
        ((b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000,), "http_error", "header is larger"),
        ((b"HTTP/1.1 100 Continue\r\n\r\n" * 4000,), "http_error", "header is larger"),
        ((b"HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",), "http_error", "switch protocols"),
        ((HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n",), "http_error", "transfer-encoding"),
    ],
)
def test_hostile_answers_are_typed_errors_with_stamps(writes: tuple[bytes, ...], kind: str, words: str) -> None:
    """Whatever a server sends, the failure has a kind and keeps the time of the send."""

    async def run() -> None:
        async with serving(scripted(*writes)) as url:
            await fetch(url, limit_s=10.0)

    with pytest.raises(ExchangeError, match=words) as caught:
        asyncio.run(run())
    assert caught.value.kind == kind
    assert caught.value.exchange is not None
    assert caught.value.exchange.sent_ns is not None
    assert caught.value.exchange.end_ns is not None


def test_broken_stream_keeps_what_arrived() -> None:
    """A stream cut inside its chunked body still holds the bytes and stamps up to there."""
    writes = (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", chunk(b"partial"))

    async def run() -> None:
        async with serving(scripted(*writes)) as url:
            await fetch(url)

    with pytest.raises(ExchangeError) as caught:
        asyncio.run(run())
    exchange = caught.value.exchange
    assert exchange is not None
    assert body(exchange) == b"partial"
    assert exchange.status == 200
    assert not exchange.complete


def test_body_has_an_upper_bound() -> None:
    """A server that never stops sending is cut off at the limit."""

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    async def run() -> None:
        async with serving(flood) as url:
            await fetch(url, transport=StampedTransport(allow=(), max_body_bytes=1_000_000))

    with pytest.raises(ExchangeError, match="body is larger"):
        asyncio.run(run())


def test_compressed_bomb_is_refused() -> None:
    """A small compressed answer that unpacks beyond the limit is http_error."""
    from runner.load.exchange import inflate

    packed = gzip.compress(bytes(2_000_000))
    with pytest.raises(zlib.error, match="more than 1000000 bytes"):
        inflate([(1, packed)], limit=1_000_000)


def test_informational_answers_are_passed_over() -> None:
    """100 Continue and 103 Early Hints come before the answer and are not it; their headers do not stay."""
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"

    async def run() -> Exchange:
        async with serving(scripted(early, HEAD + b"Content-Length: 2\r\n\r\nok")) as url:
            return await fetch(url)

    exchange = asyncio.run(run())
    assert (exchange.status, body(exchange)) == (200, b"ok")
    assert exchange.header(b"link") is None


def test_large_request_bodies_are_written_in_parts() -> None:
    """A body beyond the socket's buffers arrives whole while the server reads slowly."""
    sizes: list[int] = []

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, content = await take_request(reader)
        sizes.append(len(content))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    async def run() -> None:
        async with serving(play) as url, httpx.AsyncClient(transport=StampedTransport(allow=())) as client:
            await client.post(url, content=b"p" * 20_000_000, extensions={"goodput": Collect()})

    asyncio.run(run())
    assert sizes == [20_000_000]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1, made for this run."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


def test_tls_streams_keep_their_stamps(certificate: tuple[Path, Path]) -> None:
    """Over TLS the handshake time is apart and each token has the stamp of the read that brought its record."""
    cert, key = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    writes = [HEAD + b"Transfer-Encoding: chunked\r\n\r\n", chunk(b"a"), chunk(b"b"), b"0\r\n\r\n"]

    async def run() -> Exchange:
        async with serving(scripted(*writes, gap_s=0.02), context=context) as url:
            trusting = ssl.create_default_context(cafile=str(cert))
            return await fetch(url, transport=StampedTransport(allow=(), verify=trusting))

    exchange = asyncio.run(run())
    assert [data for _, data in exchange.reads()] == [b"a", b"b"]
    assert exchange.stamps[1] - exchange.stamps[0] > 10_000_000
    assert exchange.tls_ns is not None
    assert exchange.tls_ns > 0
    assert exchange.connect_ns is not None


def test_unknown_certificates_are_a_connect_error(certificate: tuple[Path, Path]) -> None:
    """A certificate nobody vouches for is refused unless verification is switched off."""
    cert, key = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    answer = scripted(HEAD + b"Content-Length: 2\r\n\r\nok")

    async def run() -> Exchange:
        async with serving(answer, context=context) as url:
            with pytest.raises(ExchangeError, match=r"TLS with 127\.0\.0\.1") as caught:
                await fetch(url)
            assert caught.value.kind == "connect"
            return await fetch(url, transport=StampedTransport(allow=(), verify=False))

    assert body(asyncio.run(run())) == b"ok"


def test_ipv6_and_localhost_are_reached_without_waiting() -> None:
    """An IPv6 address works, and localhost finds a server that listens on IPv4 alone in far less than 2 s."""
    answer = scripted(HEAD + b"Content-Length: 2\r\n\r\nok")

    async def run() -> None:
        async with serving(answer, host="::1") as url:
            assert body(await fetch(url)) == b"ok"
        async with serving(answer) as url:
            exchange = await fetch(url.replace("127.0.0.1", "localhost"))
        assert body(exchange) == b"ok"
        assert exchange.connect_ns is not None
        assert exchange.connect_ns < 1_000_000_000

    asyncio.run(run())


def test_a_server_that_promises_keep_alive_and_closes_loses_no_request() -> None:
    """llama.cpp's habit: 50 requests one after the other, all answered, none counted as failed."""
    answer = b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok"

    async def run(reuse: bool) -> list[Exchange]:
        transport = StampedTransport(allow=())
        async with serving(scripted(answer)) as url, httpx.AsyncClient(transport=transport) as client:
            exchanges = []
            for _ in range(50):
                collect = Collect(reuse=reuse)
                await client.post(url, content=b"{}", extensions={"goodput": collect})
                exchanges.append(collect.exchange)
            return exchanges

    for reuse in (True, False):
        exchanges = asyncio.run(run(reuse))
        assert [body(e) for e in exchanges] == [b"ok"] * 50


def test_idle_connections_are_reused() -> None:
    """With reuse the second request travels on the first one's connection and has no connect time."""
    connections = 0

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            await take_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await writer.drain()

    async def run() -> list[Exchange]:
        transport = StampedTransport(allow=())
        async with serving(play) as url, httpx.AsyncClient(transport=transport) as client:
            collects = [Collect(reuse=True), Collect(reuse=True), Collect(reuse=False)]
            for collect in collects:
                await client.post(url, content=b"{}", extensions={"goodput": collect})
            return [c.exchange for c in collects]

    first, second, third = asyncio.run(run())
    assert (first.reused, second.reused, third.reused) == (False, True, False)
    assert first.connect_ns is not None
    assert second.connect_ns is None
    assert connections == 2


def test_a_reused_connection_that_dies_before_its_first_byte_is_resent_once() -> None:
    """The server hangs up when the second request arrives; it goes out again, its clock restarted."""
    connections = 0

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await take_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await take_request(reader)  # and closes without an answer

    async def run() -> tuple[Exchange, int, Exchange]:
        transport = StampedTransport(allow=())
        async with serving(play) as url, httpx.AsyncClient(transport=transport) as client:
            await client.post(url, content=b"{}", extensions={"goodput": Collect(reuse=True)})
            collect, began = Collect(reuse=True), time.monotonic_ns()
            await client.post(url, content=b"{}", extensions={"goodput": collect})
            next_one = Collect(reuse=True)
            await client.post(url, content=b"{}", extensions={"goodput": next_one})
            return collect.exchange, began, next_one.exchange

    exchange, began, later = asyncio.run(run())
    assert body(exchange) == b"ok"
    assert (exchange.resends, exchange.reused, connections) == (1, False, 3)
    assert (later.resends, later.reused) == (0, False)  # a server that hangs up is not trusted again
    assert exchange.sent_ns is not None
    assert exchange.connect_ns is not None
    assert exchange.sent_ns > began + exchange.connect_ns


def test_a_fresh_connection_that_dies_is_a_failure() -> None:
    """Only an idle connection's death is forgiven: a new one without an answer is reported, not resent."""
    taken = 0

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal taken
        await take_request(reader)
        taken += 1

    async def run() -> None:
        async with serving(play) as url:
            await fetch(url, reuse=True)

    with pytest.raises(ExchangeError, match="without an answer"):
        asyncio.run(run())
    assert taken == 1


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await take_request(reader)
    writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(b"first"))
    await reader.read()


def test_the_whole_request_limit_is_a_timeout_that_keeps_the_partial_answer() -> None:
    """A stream that stalls beyond the user's limit is a timeout with what came before."""

    async def run() -> None:
        async with serving(_silent) as url:
            await fetch(url, limit_s=0.2)

    with pytest.raises(ExchangeError, match=r"within 0\.2 s") as caught:
        asyncio.run(run())
    assert caught.value.kind == "timeout"
    assert caught.value.exchange is not None
    assert body(caught.value.exchange) == b"first"


def test_each_request_has_its_own_limit() -> None:
    """Of requests that run together the short-tempered one ends, on a connection that was open already; the others go
    on, and its connection is not used again."""

    async def run() -> list[Exchange | BaseException]:
        go = asyncio.Event()

        async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                await take_request(reader)
                if go.is_set():
                    await reader.read(1)
                    return
                writer.write(HEAD + b"Content-Length: 2\r\n\r\nok")

        async with serving(play) as url, httpx.AsyncClient(transport=StampedTransport(allow=())) as client:

            async def ask(limit_s: float | None) -> Exchange:
                collect = Collect(limit_s=limit_s, reuse=True)
                await client.post(url, content=b"{}", extensions={"goodput": collect})
                return collect.exchange

            await asyncio.gather(ask(60), ask(60))  # two connections, idle now
            go.set()
            patient = asyncio.create_task(ask(60))
            hasty = await asyncio.gather(ask(0.2), return_exceptions=True)
            assert not patient.done()
            patient.cancel()
            await asyncio.wait([patient])
            return hasty

    (hasty,) = asyncio.run(run())
    assert isinstance(hasty, ExchangeError)
    assert (hasty.kind, str(hasty)) == ("timeout", "no complete answer within 0.2 s")
    assert hasty.exchange is not None
    assert (hasty.exchange.reused, hasty.exchange.resends) == (True, 0)  # silence is no idle connection that died
    assert hasty.exchange.end_ns is not None
    assert hasty.exchange.sent_ns is not None
    assert hasty.exchange.end_ns - hasty.exchange.sent_ns >= 150_000_000


def test_the_limit_counts_while_no_connection_comes() -> None:
    """A server that takes no connection is a timeout when the request's limit is the shorter one."""

    async def run() -> None:
        with silent_address() as (_, (host, port)):
            await fetch(f"http://{host}:{port}", limit_s=0.2)

    with pytest.raises(ExchangeError, match=r"within 0\.2 s") as caught:
        asyncio.run(run())
    assert caught.value.kind == "timeout"


def test_cancelling_closes_the_socket() -> None:
    """A cancelled request hangs up at once, so that the server frees its slot; its bytes stay readable."""

    async def run() -> Exchange:
        gone = asyncio.Event()

        async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _silent(reader, writer)
            gone.set()

        async with serving(play) as url, httpx.AsyncClient(transport=StampedTransport(allow=())) as client:
            collect = Collect()
            task = asyncio.create_task(client.post(url, content=b"{}", extensions={"goodput": collect}))
            while not collect.exchange.parts:
                await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.wait_for(gone.wait(), 10)
            assert task.cancelled()
            return collect.exchange

    exchange = asyncio.run(run())
    assert body(exchange) == b"first"
    assert exchange.end_ns is not None


@pytest.mark.parametrize("how", ["cancelled", "timeout", "broken"])
def test_what_came_before_a_cut_is_kept_read_by_read(how: str) -> None:
    """Reads that were only kept so far are looked into when the request ends early: five chunks, five kernel stamps."""
    pieces = [b"data: " + str(i).encode() * 40 + b"\n\n" for i in range(5)]

    async def run() -> Exchange:
        sent = asyncio.Event()

        async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await take_request(reader)
            writer.write(CHUNKED_HEAD)
            for piece in pieces:
                writer.write(chunk(piece))
                await writer.drain()
                await asyncio.sleep(0.03)
            sent.set()
            if how == "broken":
                writer.transport.abort()
            else:
                await reader.read()

        async with serving(play) as url, httpx.AsyncClient(transport=StampedTransport(allow=())) as client:
            collect = Collect(limit_s=2.0 if how == "timeout" else None)
            task = asyncio.create_task(client.post(url, content=b"{}", extensions={"goodput": collect}))
            await asyncio.wait_for(sent.wait(), 30)
            await asyncio.sleep(0.1)
            if how == "cancelled":
                task.cancel()
            await asyncio.wait([task])
            return collect.exchange

    exchange = asyncio.run(run())
    assert body(exchange) == b"".join(pieces)
    assert [data for _, data in exchange.reads()] == pieces
    gaps_ms = [(after - before) / 1e6 for before, after in pairwise(exchange.stamps)]
    assert all(gap >= 25 for gap in gaps_ms)


def test_many_streams_run_at_once() -> None:
    """256 streams are open at the same time: the server answers none before all have asked."""
    asked = 0

    async def run() -> list[Exchange]:
        everyone = asyncio.Event()

        async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal asked
            await take_request(reader)
            asked += 1
            if asked == 256:
                everyone.set()
            await everyone.wait()
            writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(b"ok") + b"0\r\n\r\n")

        transport = StampedTransport(allow=())
        async with serving(play) as url, httpx.AsyncClient(transport=transport) as client:
            collects = [Collect(limit_s=30) for _ in range(256)]
            await asyncio.gather(*(client.post(url, content=b"{}", extensions={"goodput": c}) for c in collects))
            return [c.exchange for c in collects]

    assert [body(e) for e in asyncio.run(run())] == [b"ok"] * 256


@pytest.mark.parametrize("url", ["http://169.254.169.254/v1", "http://[fe80::1]/", "http://[::ffff:169.254.1.1]/"])
def test_link_local_targets_are_refused_before_connecting(url: str) -> None:
    """Link-local and metadata addresses are a connect error that says why, even when allowed by name."""

    async def run() -> None:
        await fetch(url, transport=StampedTransport(allow=("169.254.169.254", "fe80::1")))

    with pytest.raises(ExchangeError, match="never contacted") as caught:
        asyncio.run(run())
    assert caught.value.kind == "connect"


def test_nobody_listening_is_a_connect_error() -> None:
    """A closed port is a connect error that names host and port; nothing was sent."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ExchangeError, match=f"127.0.0.1:{port}") as caught:
        asyncio.run(fetch(f"http://127.0.0.1:{port}"))
    assert str(caught.value).partition(";")[0] == f"cannot connect to 127.0.0.1:{port}: Connection refused"
    assert caught.value.kind == "connect"
    assert caught.value.exchange is not None
    assert caught.value.exchange.sent_ns is None


def test_line_breaks_in_headers_are_refused() -> None:
    """A key with a line break can't smuggle in a header, and the message does not show it."""

    async def run() -> None:
        async with httpx.AsyncClient(transport=StampedTransport(allow=())) as client:
            headers = {"Authorization": "Bearer secret\r\nX-Evil: 1"}
            await client.post("http://127.0.0.1:9", headers=headers, extensions={"goodput": Collect()})

    with pytest.raises(ExchangeError, match="line break") as caught:
        asyncio.run(run())
    assert "secret" not in str(caught.value)


def test_redirects_are_not_followed() -> None:
    """A redirect is the answer: no request goes where a server points."""
    answer = b"HTTP/1.1 307 T\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n"

    async def run() -> Exchange:
        async with serving(scripted(answer)) as url:
            return await fetch(url)

    assert asyncio.run(run()).status == 307


@pytest.mark.parametrize("pieces", [(b"data: [DONE]\n\n",), (b"data: [DO", b"NE]\n\n")])
def test_a_body_left_open_after_its_end_mark_is_ended(pieces: tuple[bytes, ...]) -> None:
    """A server that sends [DONE] and holds the connection does not hold the client; the end is the mark's stamp."""

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader)
        writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(b"data: 1\n\n"))
        for piece in pieces:
            await asyncio.sleep(0.01)
            writer.write(chunk(piece))
            await writer.drain()
        await reader.read()

    async def run() -> Exchange:
        async with serving(play) as url:
            return await fetch(url, limit_s=20.0, says_done=says_done)

    exchange = asyncio.run(run())
    assert exchange.complete
    assert exchange.end_ns == exchange.stamps[-1]
    assert body(exchange) == b"data: 1\n\ndata: [DONE]\n\n"
