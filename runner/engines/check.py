"""Refuses a sweep whose settings could not be applied, before anything is measured."""

import argparse
import itertools
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from runner.config import Scalar, SweepConfig
from runner.engines.address import host_and_port, is_web_address
from runner.engines.hook import HOOKS, OUR_NAMES, hook_of
from runner.engines.knowledge import setting_oddities
from runner.engines.start_line import fill_command, placeholders, simulator_args
from runner.errors import ConfigError
from runner.secret_names import VARIABLE
from runner.simulator.command import add_arguments, server_settings

_MOST_SETTINGS = 1000  # of a grid are looked at


def check_control(config: SweepConfig) -> None:
    """Raises ConfigError, one plain sentence, when some setting of the grid could not be applied as written."""
    if config.backend.kind == "simulated":
        _check_simulated(config)
        return
    _check_url(config)
    for name in ("ready_command", "stop_command"):
        if getattr(config.control, name) and config.control.mode != "command":
            raise ConfigError(
                f'control.{name} would change nothing with mode = "{config.control.mode}": it is a hook of '
                'mode = "command"; leave it out'
            )
    if config.control.mode == "process":
        _check_process(config)
    elif config.control.mode == "command":
        _check_hooks(config)
    refuse_what_the_server_refuses(config, None)


def refuse_what_the_server_refuses(config: SweepConfig, version: str | None) -> None:
    """Raises ConfigError when a server of this kind and version would start with none of the settings.

    One of several that it would not start with is said before the sweep and becomes a failed cell.
    """
    reason = None
    for setting in _settings(config):
        found = setting_oddities(config.backend.kind, version, config, setting)
        refused = next((o for o in found if o.severity == "refused"), None)
        if refused is None:
            return
        reason = reason or refused
    if reason:
        raise ConfigError(f"grid: {reason.sentence}")


def _check_url(config: SweepConfig) -> None:
    for key, url in (("url", config.backend.url), ("metrics_url", config.backend.metrics_url)):
        if url is not None and not is_web_address(url):
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
        server_settings(flags)


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
    _check_variables(config)
    port = host_and_port(str(config.backend.url))[1]
    for setting in _settings(config):
        filled = fill_command(texts, setting, {"port": port})[: len(command)]
        _must_be_runnable("command", filled[0])
        told = re.search(r"(?:^| )--port[ =](\d+)(?: |$)", " ".join(filled))
        if told and int(told.group(1)) != port:
            raise ConfigError(
                f"control.command says --port {told.group(1)}, but backend.url says {port}; write {{port}}"
            )


def _check_hooks(config: SweepConfig) -> None:
    """A hook may read the setting from its environment, so a key without a placeholder is no mistake."""
    _check_variables(config)
    if taken := [k for k in config.server_grid if k in OUR_NAMES]:
        raise ConfigError(
            f"grid.{taken[0]} cannot be told to a hook: GOODPUT_{taken[0].upper()} means something else; rename it"
        )
    for setting in _settings(config):
        for name in HOOKS:
            hook = hook_of(config, name, setting, "sweep")
            if hook is not None:
                _must_be_runnable(name, hook.command[0])


def _check_variables(config: SweepConfig) -> None:
    for name, value in config.control.env.items():
        if VARIABLE.fullmatch(value) and value[2:-1] not in os.environ:
            raise ConfigError(f"control.env.{name} is {value}, but no such variable is set; export it and start again")


def _must_be_runnable(name: str, program: str) -> None:
    if shutil.which(program) is not None:
        return
    path = Path(program)
    if path.is_dir():
        raise ConfigError(f"control.{name}: {program} is a folder; give the program in it")
    if path.is_file() and ("/" in program):
        raise ConfigError(f"control.{name}: {program} may not be executed; allow it with chmod +x {program}")
    raise ConfigError(f"control.{name}: {program} is not found on this machine; give its full path")
