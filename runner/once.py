"""Short asynchronous work for callers that have no event loop: the command line and the pages."""

import asyncio

import httpx

from runner.config import SweepConfig
from runner.load.event_loop import new_event_loop
from runner.load.transport import StampedTransport
from runner.preflight import check_before
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
