"""What a calibration leaves: a profile file with its errors in it, which virtual time and the What-if page read."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.calibration.held_out import worst_error
from runner.errors import ConfigError
from runner.simulator.profile import MOST_BYTES
from runner.text_file import Unreadable, read_text
from storage.plain_errors import write_error

TABLE = "calibration"
FIGURES = ("ttft_ms", "gap_ms")


@dataclass(frozen=True)
class Calibration:
    """The [calibration] table of a profile. `measured_up_to`: prompt_tokens, seqs and context_tokens of an iteration
    that the fit has seen; beyond them it extrapolates. `held_out`: rows of `errors_of`."""

    model: str | None
    kind: str
    scheduler: str
    max_num_seqs: int
    max_num_batched_tokens: int
    measured_up_to: dict[str, float] = field(default_factory=dict)
    held_out: tuple[dict[str, Any], ...] = ()
    sweep_id: str | None = None
    pace_after: float | None = None  # times that an iteration took as long after the held-out run as when fitted

    @property
    def worst_error(self) -> float | None:
        """Of all figures of the held-out run, as a share."""
        return worst_error(self.held_out)


def profile_text(told: Mapping[str, Any]) -> str:
    """The file. `told`: the JSON object of `goodput calibrate`."""
    cost = [f"{k} = {_toml(v)}" for k, v in told["cost"].items()]
    facts = {k: told[k] for k in (*_PLAIN, "sweep_id", "pace_after") if told.get(k) is not None}
    spans = {k: [told["cost_low"][k], told["cost_high"][k]] for k in told["cost"]}
    lines = [
        "# Cost of an iteration in ms, measured by `goodput calibrate`: use it with `goodput simulate --profile`,",
        "# as profile = in [backend], or on the What-if page.",
        f"kv_tokens = {told['kv_tokens']}" + ("" if told["kv_tokens_told"] else "  # a guess: the server does not say"),
        "", "[cost]", *cost,
        "", f"[{TABLE}]", *(f"{k} = {_toml(v)}" for k, v in facts.items()),
        f"measured_up_to = {_toml(told['measured_up_to'])}",
        f"fit = {_toml(told['fit'])}",
        f"interval_95 = {_toml(spans)}",
    ]  # fmt: skip
    for row in told["held_out"]:
        lines += ["", f"[[{TABLE}.held_out]]", *(f"{k} = {_toml(v)}" for k, v in row.items())]
    return "\n".join(lines) + "\n"


def write_profile(path: Path, told: Mapping[str, Any]) -> None:
    """Raises StorageError."""
    try:
        path.write_text(profile_text(told), encoding="utf-8")
    except OSError as e:
        raise write_error(path, e) from None


def load_calibration(path: Path) -> Calibration | None:
    """Of a profile file; null where nobody calibrated. Raises ConfigError for a table that can't be read."""
    try:
        told = tomllib.loads(read_text(path, MOST_BYTES)).get(TABLE)
    except (OSError, Unreadable, ValueError, RecursionError) as e:
        raise ConfigError(f"{path}: cannot be read as TOML ({e}); mend that line") from None
    if told is None:
        return None
    try:
        return Calibration(
            **{k: told.get(k) for k in _PLAIN},
            measured_up_to={k: float(v) for k, v in told.get("measured_up_to", {}).items()},
            held_out=tuple(_row(row) for row in told.get("held_out", ())),
            sweep_id=told.get("sweep_id"),
            pace_after=told.get("pace_after"),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ConfigError(f"{path}: {TABLE} is not as `goodput calibrate` writes it; calibrate anew") from None


_PLAIN = ("model", "kind", "scheduler", "max_num_seqs", "max_num_batched_tokens")


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Checked where pages rely on it."""
    for key in FIGURES:
        for each in row[key].values():
            float(each["measured"]), float(each["predicted"]), float(each["error_share"])
    return {**row, "request_rate": float(row["request_rate"])}


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    if isinstance(value, float):
        return f"{value:.6g}" if "e" in f"{value:.6g}" or "." in f"{value:.6g}" else f"{value:.6g}.0"
    return json.dumps(value, ensure_ascii=False)
