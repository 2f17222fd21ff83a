"""What can be known to be wrong before anything is measured: each a ConfigError with one plain sentence."""

import asyncio

import httpx

from runner.config import SweepConfig
from runner.engines.address import host_and_port, listener_name, port_is_taken
from runner.engines.check import check_control
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
