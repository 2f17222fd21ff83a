"""Servers that play scripted bytes over real sockets, on a free loopback port."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED_HEAD = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
Play = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def take_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """(head, body) of one request."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next((int(h.split(b":")[1]) for h in head.split(b"\r\n") if h.lower().startswith(b"content-length")), 0)
    return head, await reader.readexactly(length)


@asynccontextmanager
async def serving(play: Play, host: str = "127.0.0.1", context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server that runs `play` for each connection and then closes it; gives its base URL."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await play(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, host, 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"{'https' if context else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
    finally:
        server.close()


def scripted(*writes: bytes, gap_s: float = 0.0) -> Play:
    """Reads one request, then writes each piece by itself and closes."""

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader)
        for piece in writes:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(gap_s)

    return play


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)
