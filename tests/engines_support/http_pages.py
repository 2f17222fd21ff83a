"""A small HTTP server inside the test: a function from request to (status, headers, body), on a real socket."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

Reply = tuple[int, dict[str, str], str]


@dataclass(frozen=True)
class Request:
    path: str
    headers: dict[str, str]  # names in lower case
    method: str = "GET"


@contextlib.asynccontextmanager
async def serve_pages(answer: Callable[[Request], Awaitable[Reply]], port: int = 0) -> AsyncIterator[str]:
    """Gives the base URL; one request per connection. Port 0: any free one."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:] if line)}
        status, extra, body = await answer(Request(head[0].split(" ")[1], headers, head[0].split(" ")[0]))
        data = body.encode()
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(data)}", "Connection: close"]
        lines += [f"{k}: {v}" for k, v in extra.items()]
        with contextlib.suppress(ConnectionError):
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", port)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.close()
