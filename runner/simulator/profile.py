"""A profile file (what a calibration writes) -> EngineProfile."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from runner.errors import ConfigError
from runner.simulator.cost_model import CostModel
from runner.simulator.presets import EngineProfile
from runner.text_file import Unreadable, read_text

COEFFICIENTS = ("a", "b", "c", "d", "e", "a_prefill", "host")
EXPERTS = ("experts", "experts_active", "expert_share")
MOST_BYTES = 1_000_000
MOST_MS = 1e6  # a quarter of an hour for one token; the times of a whole run then stay within 64 bits of ns
MOST_MS_PER_SQUARE = 1.0  # of `e`, whose number of tokens is squared


def load_profile(path: Path) -> EngineProfile:
    """Reads a TOML file with `kv_tokens` and a [cost] table (ms: a, b and optionally c, d, e, a_prefill, host).

    Further, optionally: `kv_bytes_per_token` (what a swap or a move carries), `cost.knots` = [[tokens, ms], …], and
    `cost.experts`, `cost.experts_active`, `cost.expert_share`. `estimate = true` marks what nobody measured. Other keys
    are left to those who wrote them. Raises ConfigError naming file, key and mend.
    """
    try:
        raw = tomllib.loads(read_text(path, MOST_BYTES))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; give a TOML file with kv_tokens and a [cost] table") from None
    except Unreadable as e:
        raise ConfigError(f"{path}: cannot be read ({e}); check the path and its permissions") from None
    except (ValueError, RecursionError) as e:
        raise ConfigError(f"{path}: cannot be read as TOML ({e}); mend that line") from None
    cost, kv_tokens = raw.get("cost"), raw.get("kv_tokens")
    if not isinstance(cost, dict):
        raise ConfigError(f"{path}: the table [cost] is missing; add it with at least a and b in ms")
    if not isinstance(kv_tokens, int) or isinstance(kv_tokens, bool) or kv_tokens < 16:
        raise ConfigError(f"{path}: kv_tokens must be a whole number of at least 16, not {kv_tokens!r}")
    kv_bytes = raw.get("kv_bytes_per_token", 131_072)
    if not isinstance(kv_bytes, int) or isinstance(kv_bytes, bool) or kv_bytes < 1:
        raise ConfigError(f"{path}: kv_bytes_per_token must be a whole number of at least 1, not {kv_bytes!r}")
    estimate = raw.get("estimate") is True
    source = f"{'estimate, ' if estimate else ''}profile {path.name}"
    return EngineProfile(cost_from(cost, f"{path}: cost"), kv_tokens, estimate, source, kv_bytes)


def cost_from(values: Mapping[str, object], where: str) -> CostModel:
    """Coefficients by name -> CostModel. Raises ConfigError that starts with `where` and names the key."""
    numbers: dict[str, float] = {}
    for key, value in values.items():
        if key in ("knots", *EXPERTS):
            continue
        if key not in COEFFICIENTS:
            known = ", ".join((*COEFFICIENTS, "knots", *EXPERTS))
            raise ConfigError(f"{where}.{key} is not a coefficient; use {known}")
        most = MOST_MS_PER_SQUARE if key == "e" else MOST_MS
        if not _is_number(value, most):
            raise ConfigError(f"{where}.{key} must be a number of milliseconds from 0 to {most:,.0f}, not {value!r}")
        numbers[key] = float(value)  # type: ignore[arg-type]
    for key in ("a", "b"):
        if key not in numbers:
            raise ConfigError(f"{where}.{key} is missing; give at least a and b in ms")
    return CostModel(**numbers, knots=_knots(values.get("knots", []), where), **_experts(values, where))  # type: ignore[arg-type]


def _is_number(value: object, most: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= most


def _knots(value: object, where: str) -> tuple[tuple[int, float], ...]:
    says = f"{where}.knots must be pairs [tokens, ms], tokens rising from at least 1 and ms never falling"
    if not isinstance(value, list):
        raise ConfigError(f"{says}, not {value!r}")
    knots: list[tuple[int, float]] = []
    for pair in value:
        if not (isinstance(pair, list) and len(pair) == 2 and all(_is_number(x, MOST_MS) for x in pair)):
            raise ConfigError(f"{says}, not {pair!r}")
        tokens, ms = pair
        before = knots[-1] if knots else (0, 0.0)
        if tokens != int(tokens) or tokens <= before[0] or ms < before[1]:
            raise ConfigError(f"{says}; {pair!r} is not")
        knots.append((int(tokens), float(ms)))
    return tuple(knots)


def _experts(values: Mapping[str, object], where: str) -> dict[str, float]:
    given = {key: values[key] for key in EXPERTS if key in values}
    if not given:
        return {}
    experts, active, share = (given.get(key) for key in EXPERTS)
    whole = isinstance(experts, int) and isinstance(active, int) and 1 <= active <= experts
    if not whole or not isinstance(share, (int, float)) or not 0 <= share <= 1:
        raise ConfigError(
            f"{where} needs experts and experts_active as whole numbers (active at most experts) and expert_share 0 … 1"
        )
    return {"experts": experts, "experts_active": active, "expert_share": float(share)}  # type: ignore[dict-item]


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
