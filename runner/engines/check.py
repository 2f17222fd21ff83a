"""Refuses a sweep whose settings could not be applied, before anything is measured."""

import argparse
import itertools
import os
import re
import shutil
from collections.abc import Iterator
from typing import NoReturn

from runner.config import Scalar, SweepConfig
from runner.engines.address import host_and_port, is_web_address
from runner.engines.start_line import fill_command, placeholders, simulator_args
from runner.errors import ConfigError
from runner.secret_names import VARIABLE
from runner.simulator.command import add_arguments, engine_profile
from runner.simulator.schedulers.by_name import SCHEDULERS

_MOST_SETTINGS = 1000  # of a grid are looked at


def check_control(config: SweepConfig) -> None:
    """Raises ConfigError, one plain sentence, when some setting of the grid could not be applied as written."""
    if config.backend.kind == "simulated":
        _check_simulated(config)
        return
    _check_url(config)
    if config.control.mode in ("manual", "command"):
        raise ConfigError(
            f'control.mode = "{config.control.mode}" is not available yet; use mode = "process" with the start command'
        )
    if config.control.mode == "process":
        _check_process(config)


def _check_url(config: SweepConfig) -> None:
    for key, url in (("url", config.backend.url), ("metrics_url", config.backend.metrics_url)):
        if url is not None and not ("://" in url and is_web_address(url)):
            raise ConfigError(f'backend.{key} = "{url}" is not a web address; write it as http://host:port')


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"the built-in engine cannot take a setting of [grid] or [backend]: {message}")


def _check_simulated(config: SweepConfig) -> None:
    """The flags are read as the engine itself will read them; a preset, a profile and a scheduler must exist."""
    parser = _Parser(prog="goodput engine", add_help=False, allow_abbrev=False)
    add_arguments(parser)
    for setting in _settings(config):
        flags = parser.parse_args(simulator_args(config.backend, setting))
        if flags.scheduler not in SCHEDULERS:
            raise ConfigError(f"scheduler = {flags.scheduler!r} is not known; choose one of {', '.join(SCHEDULERS)}")
        engine_profile(flags)


def _settings(config: SweepConfig) -> Iterator[dict[str, Scalar]]:
    keys, values = list(config.server_grid), config.server_grid.values()
    for chosen in itertools.islice(itertools.product(*values), _MOST_SETTINGS):
        yield dict(zip(keys, chosen, strict=True))


def _check_process(config: SweepConfig) -> None:
    command = config.control.command or ()
    texts = (*command, *config.control.env.values())
    unused = [k for k in config.server_grid if k not in placeholders(texts)]
    if unused:
        raise ConfigError(
            f"grid.{unused[0]} would change nothing: control.command has no {{{unused[0]}}}; add it or drop the key"
        )
    for name, value in config.control.env.items():
        if VARIABLE.fullmatch(value) and value[2:-1] not in os.environ:
            raise ConfigError(f"control.env.{name} is {value}, but no such variable is set; export it and start again")
    port = host_and_port(str(config.backend.url))[1]
    for setting in _settings(config):
        filled = fill_command(texts, setting, {"port": port})[: len(command)]
        if shutil.which(filled[0]) is None:
            raise ConfigError(f"control.command: {filled[0]} is not found on this machine; give its full path")
        told = re.search(r"(?:^| )--port[ =](\d+)(?: |$)", " ".join(filled))
        if told and int(told.group(1)) != port:
            raise ConfigError(
                f"control.command says --port {told.group(1)}, but backend.url says {port}; write {{port}}"
            )
