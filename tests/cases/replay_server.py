"""Plays the stream cases over real HTTP. Standard library only.

The base URL of a case is http://127.0.0.1:PORT/ID; any path below it answers, and GET lists one model.
By hand: `python tests/cases/replay_server.py [cases.json] [port]`.
"""

import asyncio
import contextlib
import json
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic_ns
from typing import Any

_CASES_FILE = Path(__file__).with_name("cases.json")


@dataclass
class Played:
    """What the server really did for one request, ns of the monotonic clock: the truth when a machine is busy."""

    case_id: str
    received_ns: int
    written_ns: list[int] = field(default_factory=list)  # right before each chunk was written


@contextlib.asynccontextmanager
async def replay_server(
    cases_file: Path = _CASES_FILE, port: int = 0, log: list[Played] | None = None
) -> AsyncIterator[str]:
    """Serves while the block runs; gives the base URL, without a slash at its end. `log`: is told of every answer."""
    cases = load_inputs(cases_file)
    played: list[Played] = [] if log is None else log

    answering: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(_handle(cases, reader, writer, played))
        answering.add(task)
        task.add_done_callback(answering.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", port, limit=1 << 20)
    async with server:
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            for task in answering:
                task.cancel()
            await asyncio.gather(*answering, return_exceptions=True)


def load_inputs(cases_file: Path) -> dict[str, dict[str, Any]]:
    """The stream inputs of a cases file by id."""
    cases = json.loads(cases_file.read_text(encoding="utf-8"))
    return {case["id"]: case["input"] for case in cases if case["input"]["kind"] == "stream"}


async def _handle(
    cases: dict[str, dict[str, Any]], reader: asyncio.StreamReader, writer: asyncio.StreamWriter, log: list[Played]
) -> None:
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while True:
            method, path = await _read_request(reader)
            case_id = path.strip("/").split("/")[0]
            case = cases.get(case_id)
            if method == "GET" or case is None:
                _write_models(writer, found=case is not None)
            else:
                log.append(Played(case_id, monotonic_ns()))
                if not await _play(case, writer, log[-1]):
                    return
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, str]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *headers = head.split("\r\n")
    method, path, _ = first.split(" ", 2)
    for header in headers:
        if header.lower().startswith("content-length:"):
            await reader.readexactly(int(header.split(":")[1]))
    return method, path


def _write_models(writer: asyncio.StreamWriter, *, found: bool) -> None:
    models = {"object": "list", "data": [{"id": "m", "object": "model"}], "models": [{"name": "m"}]}
    body = json.dumps(models if found else {}).encode()
    status = b"200 OK" if found else b"404 Not Found"
    head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    writer.write(head % (status, len(body)) + body)


async def _play(case: dict[str, Any], writer: asyncio.StreamWriter, played: Played) -> bool:
    """One answer, each chunk as one write at its time; False if the connection is to be cut."""
    http = case["http"]
    headers = "".join(f"{name}: {value}\r\n" for name, value in http["headers"].items())
    writer.write(f"HTTP/1.1 {http['status']} X\r\n{headers}Transfer-Encoding: chunked\r\n\r\n".encode())
    await writer.drain()
    loop = asyncio.get_running_loop()
    due = loop.time()
    for delay_ms, text in case["chunks"]:
        due += delay_ms / 1000
        await asyncio.sleep(max(0, due - loop.time()))
        data = text.encode("latin-1")
        played.written_ns.append(monotonic_ns())
        if data:
            writer.write(b"%x\r\n" % len(data) + data + b"\r\n")
            await writer.drain()
    if http["end"] == "cut":
        return False
    if http["end"].startswith("hold:"):
        await asyncio.sleep(int(http["end"][5:]) / 1000)
    writer.write(b"0\r\n\r\n")
    return True


async def _serve_forever(cases_file: Path, port: int) -> None:
    async with replay_server(cases_file, port) as base_url:
        print("serving", len(load_inputs(cases_file)), "cases on", base_url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    arguments = sys.argv[1:]
    asyncio.run(
        _serve_forever(Path(arguments[0]) if arguments else _CASES_FILE, int(arguments[1]) if arguments[1:] else 8099)
    )
