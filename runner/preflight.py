"""What can be known to be wrong before anything is measured: each a ConfigError with one plain sentence."""

import asyncio

import httpx

from runner.config import SweepConfig
from runner.engines.address import host_and_port, listener_name, port_is_taken, server_root
from runner.engines.check import check_control, refuse_what_the_server_refuses
from runner.engines.discover import inspect
from runner.engines.knowledge import engine_oddities
from runner.engines.oddity import Oddity
from runner.errors import ConfigError
from runner.load.transport import StampedTransport
from runner.probe import detect
from storage.errors import GoodputError


async def check_before(config: SweepConfig) -> None:
    """Raises ConfigError when no cell of this sweep could be measured: a setting that can't be applied, a port that
    is taken, a server that does not answer, a model it does not have. What hooks or a person start is not looked for.
    """
    check_control(config)
    if config.backend.kind == "simulated":
        return
    if config.control.mode == "command" or (config.control.mode == "manual" and config.server_grid):
        refuse_what_the_server_refuses(config, await server_version(config))
        return  # the server may well not be there yet
    if config.control.mode == "process":
        host, port = host_and_port(str(config.backend.url))
        if await asyncio.to_thread(port_is_taken, host, port):
            who = await asyncio.to_thread(listener_name, port)
            raise ConfigError(
                f"backend.url: port {port} is taken by {who}; end it, or give this server another port "
                "(to measure a server that is running already, leave [control] out)"
            )
        return
    async with httpx.AsyncClient(transport=StampedTransport(), trust_env=False, timeout=10.0) as client:
        try:
            await detect(
                client,
                str(config.backend.url),
                api=config.backend.api,
                model=config.backend.model,
                api_key_env=config.backend.api_key_env,
                kind=config.backend.kind,
            )
        except GoodputError as e:
            raise ConfigError(f"backend: {e}") from None


async def oddities_before(config: SweepConfig) -> list[Oddity]:
    """What the server makes of the sweep's settings, by the version that it has now, if it answers."""
    return engine_oddities(config.backend.kind, await server_version(config), config)


async def server_version(config: SweepConfig) -> str | None:
    """Null where nobody answers yet, and for a kind that does not tell."""
    if config.backend.kind == "simulated" or config.control.mode == "process":
        return None
    found = await inspect(server_root(str(config.backend.url)), config.backend.api_key_env)
    return found.identity.version if found and found.identity.kind == config.backend.kind else None
