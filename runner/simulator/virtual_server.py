"""A sweep's setting -> the engine that stands for its server in virtual time, if there is one."""

import argparse
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, NoReturn

from runner.config import Backend, Scalar, SweepConfig
from runner.engines.start_line import setting_line, shown_line, simulator_args
from runner.errors import ConfigError
from runner.simulator.command import add_arguments, server_settings
from runner.simulator.cost_model import BatchShape, iteration_ms
from runner.simulator.presets import EngineProfile
from runner.simulator.settings import ServerSettings

# the scheduler of ours that comes nearest to a kind of server; vllm_v1 for all others
NEAREST_SCHEDULER = dict.fromkeys(("llama_cpp", "ollama", "lmstudio", "koboldcpp", "localai"), "llama_cpp")
SPEEDS = ("preset", "profile", "cost")
LEAST_MS = 1e-3  # of an iteration: below a nanosecond time would stand still, and a closed loop go on for ever


@dataclass(frozen=True)
class Stand:
    """What answers in place of a setting's server; `facts` are kept with the cell."""

    settings: ServerSettings
    start_line: str | None
    facts: dict[str, Any]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"virtual time cannot take a setting of [grid] or [backend]: {message}")


@cache
def _parser() -> _Parser:
    """One for all settings of a sweep: to make it takes far longer than to use it."""
    parser = _Parser(prog="goodput engine", add_help=False, allow_abbrev=False)
    add_arguments(parser)
    return parser


def for_virtual_time(config: SweepConfig) -> SweepConfig:
    """The config as it is run: with a scheduler like the server's, and without what only a real machine needs (the
    check for drift, cooling down, an hour to end by, cells cut short).
    """
    backend, run = config.backend, config.run
    if backend.kind != "simulated" and "scheduler" not in backend.model_fields_set:
        backend = backend.model_copy(update={"scheduler": NEAREST_SCHEDULER.get(backend.kind, "vllm_v1")})
    run = run.model_copy(update={"drift_check": False, "cool_down_s": 0, "stop_by": None, "stop_hopeless": False})
    return config.model_copy(update={"backend": backend, "run": run})


def check_speed(config: SweepConfig, profile: EngineProfile | None) -> None:
    """Raises ConfigError unless exactly one thing says how fast the server of each setting is."""
    grid = config.server_grid
    varied = [k for k in SPEEDS if k in grid]
    if profile is not None and varied:
        raise ConfigError(f"grid.{varied[0]} and --profile both say how fast the server is; drop one of them")
    own = [k for k in SPEEDS if getattr(config.backend, k) is not None]
    if config.backend.kind != "simulated" and profile is None and not varied and not own:
        raise ConfigError(
            f"backend.kind = {config.backend.kind!r} does not say how fast the server is; give --profile FILE with its "
            'cost model, or preset = "device/model/quant" in [backend]'
        )
    if "model" in grid:
        raise ConfigError('grid.model: virtual time cannot tell models apart; vary preset = ["device/model/quant", …]')


def stand_for(config: SweepConfig, setting: Mapping[str, Scalar], profile: EngineProfile | None) -> Stand:
    """The engine for one setting; `profile` goes before what the backend says. Raises ConfigError."""
    backend = config.backend
    named = backend if profile is None else backend.model_copy(update=dict.fromkeys(SPEEDS))
    flags = simulator_args(named, setting)
    settings = server_settings(_parser().parse_args(flags), profile)
    cost = settings.profile.cost
    if min(iteration_ms(cost, BatchShape(1, 1)), iteration_ms(cost, BatchShape(decode_seqs=1))) < LEAST_MS:
        raise ConfigError("the cost model says that an iteration takes no time; give its a (and a_prefill) in ms")
    return Stand(settings, _start_line(backend, setting, flags), _facts(settings))


def _start_line(backend: Backend, setting: Mapping[str, Scalar], flags: list[str]) -> str | None:
    if backend.kind == "simulated":
        return shown_line(["goodput", "engine", *flags], {}, [])
    return setting_line(backend.kind, setting, model=backend.model)


def _facts(settings: ServerSettings) -> dict[str, Any]:
    profile = settings.profile
    return {
        "kind": "virtual time",
        "scheduler": settings.scheduler,
        "cost_model": profile.source,
        "cost_ms": asdict(profile.cost),
        "kv_tokens": profile.kv_tokens,
        "estimate": profile.estimate,
        "notes": [],
    }
