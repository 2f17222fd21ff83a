"""A profile file (what a calibration writes) -> EngineProfile."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from runner.errors import ConfigError
from runner.simulator.cost_model import CostModel
from runner.simulator.presets import EngineProfile

COEFFICIENTS = ("a", "b", "c", "d", "e", "a_prefill", "host")


def load_profile(path: Path) -> EngineProfile:
    """Reads a TOML file with `kv_tokens` and a [cost] table (ms: a, b and optionally c, d, e, a_prefill, host).

    Other keys are left to those who wrote them. Raises ConfigError naming file, key and mend.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; give a TOML file with kv_tokens and a [cost] table") from None
    except (OSError, ValueError) as e:
        raise ConfigError(f"{path}: cannot be read as TOML ({e}); mend that line") from None
    cost, kv_tokens = raw.get("cost"), raw.get("kv_tokens")
    if not isinstance(cost, dict):
        raise ConfigError(f"{path}: the table [cost] is missing; add it with at least a and b in ms")
    if not isinstance(kv_tokens, int) or isinstance(kv_tokens, bool) or kv_tokens < 16:
        raise ConfigError(f"{path}: kv_tokens must be a whole number of at least 16, not {kv_tokens!r}")
    return EngineProfile(cost_from(cost, f"{path}: cost"), kv_tokens, False, f"profile {path.name}")


def cost_from(values: Mapping[str, object], where: str) -> CostModel:
    """Coefficients by name -> CostModel. Raises ConfigError that starts with `where` and names the key."""
    numbers: dict[str, float] = {}
    for key, value in values.items():
        if key not in COEFFICIENTS:
            raise ConfigError(f"{where}.{key} is not a coefficient; use {', '.join(COEFFICIENTS)}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
            raise ConfigError(f"{where}.{key} must be a number of milliseconds of at least 0, not {value!r}")
        numbers[key] = float(value)
    for key in ("a", "b"):
        if key not in numbers:
            raise ConfigError(f"{where}.{key} is missing; give at least a and b in ms")
    return CostModel(**numbers)


def parse_cost(text: str) -> CostModel:
    """The flag's form "a=8.3,b=0.235,…". Raises ConfigError."""
    values: dict[str, object] = {}
    for part in text.split(","):
        key, _, number = part.partition("=")
        try:
            values[key.strip()] = float(number)
        except ValueError:
            raise ConfigError(f"--cost: {part!r} is not of the form name=number, such as a=8.3,b=0.235") from None
    return cost_from(values, "--cost")
