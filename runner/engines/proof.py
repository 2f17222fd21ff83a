"""Is the server that answers now another one than the server that answered before?"""

import asyncio
from dataclasses import dataclass
from typing import Literal

import httpx
import psutil

from runner.config import SweepConfig
from runner.engines.address import host_and_port, is_local, listener_of, port_is_taken, same_origin
from runner.engines.metrics_text import parse_points
from runner.engines.running import api_key, metrics_url_of
from runner.load.transport import StampedTransport

_START_TIME = "process_start_time_seconds"
_TIMEOUT_S = 3.0
_LARGEST_PAGE = 2_000_000
_SAME_S = 0.5  # two readings of one process's start time


@dataclass(frozen=True)
class Identity:
    """Who answers at a server's address. Nulls: the system or the server does not tell."""

    answers: bool
    listener: tuple[int, float] | None = None  # pid and time of creation, of a process on this machine
    started_at_s: float | None = None  # the server's own word, seconds since 1970


Verdict = Literal["new", "old", "unknown"]


def compare(before: Identity, after: Identity) -> Verdict:
    """The server's own start time goes before the listener, which may be a proxy that outlives it."""
    if not before.answers:
        return "new"
    if before.started_at_s is not None and after.started_at_s is not None:
        return "old" if abs(before.started_at_s - after.started_at_s) < _SAME_S else "new"
    if before.listener is not None and after.listener is not None:
        return "old" if before.listener == after.listener else "new"
    return "unknown"


async def who_answers(config: SweepConfig) -> Identity:
    """One look. Never raises: what cannot be found out is null."""
    url = str(config.backend.url)
    host, port = host_and_port(url)
    if not await asyncio.to_thread(port_is_taken, host, port):
        return Identity(False)
    listener = await asyncio.to_thread(_listener, host, port)
    return Identity(True, listener, await _start_time(config, url))


def _listener(host: str, port: int) -> tuple[int, float] | None:
    owner = listener_of(port) if is_local(host) else None
    try:
        return (owner.pid, owner.create_time()) if owner else None
    except psutil.Error:
        return None


async def _start_time(config: SweepConfig, url: str) -> float | None:
    """Standard clients of Prometheus tell when their process began; vLLM and SGLang use one, llama.cpp does not."""
    metrics_url = metrics_url_of(config, url)
    if metrics_url is None:
        return None
    text = await read_page(metrics_url, api_key(config) if same_origin(metrics_url, url) else None)
    lines = [line for line in (text or "").splitlines() if line.startswith(_START_TIME)]
    return next((p.value for p in parse_points("\n".join(lines) + "\n") if p.name == _START_TIME), None)


async def read_page(url: str, key: str | None) -> str | None:
    """A page of the server as text; null when it is not there, too large or too slow, or its address may not be asked.
    Redirects are not followed."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        transport = StampedTransport(max_body_bytes=_LARGEST_PAGE)
        client = httpx.AsyncClient(transport=transport, trust_env=False, headers=headers)
        async with asyncio.timeout(_TIMEOUT_S), client as http:
            answer = await http.get(url)
            return answer.text if answer.status_code == 200 and len(answer.content) <= _LARGEST_PAGE else None
    except (TimeoutError, httpx.HTTPError, httpx.InvalidURL):
        return None
