"""Short asynchronous work for callers that have no event loop: the command line and the pages."""

import asyncio
import os

import httpx

from runner.config import SweepConfig
from runner.engines.address import server_root
from runner.engines.discover import Found, discover, inspect
from runner.engines.oddity import Oddity
from runner.engines.room import Room, room_of
from runner.load.event_loop import new_event_loop
from runner.load.transport import StampedTransport
from runner.preflight import check_before, oddities_before
from runner.probe import Detected, detect, probe


def probe_once(
    url: str, *, api: str | None, model: str | None, prompt: str, max_tokens: int, api_key_env: str | None
) -> dict[str, object]:
    """`runner.probe.probe`: the request object of one streamed request."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(
            probe(url, api=api, model=model, prompt=prompt, max_tokens=max_tokens, api_key_env=api_key_env)
        )


def check_before_start(config: SweepConfig) -> None:
    """`runner.preflight.check_before`: raises ConfigError when no cell of the sweep could be measured."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(check_before(config))


def oddities_before_start(config: SweepConfig) -> list[Oddity]:
    """`runner.preflight.oddities_before`: what the server makes of the sweep's settings."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(oddities_before(config))


def discover_once() -> list[Found]:
    """`runner.engines.discover.discover`: the servers on this host, in under three seconds."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(discover())


def inspect_once(url: str, api_key_env: str | None = None) -> Found | None:
    """`runner.engines.discover.inspect`: what the server says of itself; `url` as users have it at hand."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(inspect(server_root(url), api_key_env))


def room_once(url: str, api_key_env: str | None = None) -> Room:
    """`runner.engines.room.room_of`: what a server says that it can hold."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(room_of(server_root(url), os.environ.get(api_key_env) if api_key_env else None))


def detect_once(
    url: str,
    *,
    api: str | None = None,
    model: str | None = None,
    api_key_env: str | None = None,
    kind: str | None = None,
) -> Detected:
    """`runner.probe.detect`: the connection check. Raises SettingFailed with one sentence."""

    async def look() -> Detected:
        async with httpx.AsyncClient(transport=StampedTransport(), trust_env=False, timeout=10.0) as client:
            return await detect(client, url, api=api, model=model, api_key_env=api_key_env, kind=kind)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(look())
