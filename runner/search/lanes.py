"""What is searched along the load axis: one setting with one combination of caps. PURE."""

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass

from runner.config import LOAD_AXES, Scalar, SweepConfig, is_load_key
from runner.config_checks import MOST_REQUESTS
from runner.plan import settings_of

REACH = 64.0  # times the file's highest load, and a 64th of its lowest, are as far as a search goes
LEAST_REQUESTS = 10  # of a class with targets that a probe should send
MOST_AT_ONCE = 4096


@dataclass(frozen=True)
class Lane:
    """`caps`: dispatcher-side caps and whatever else of the load is not its size."""

    setting: dict[str, Scalar]
    caps: dict[str, Scalar]

    @classmethod
    def of(cls, setting: Mapping[str, Scalar], load: Mapping[str, Scalar]) -> "Lane":
        """The lane that a cell belongs to."""
        return cls(dict(setting), {k: v for k, v in load.items() if k not in LOAD_AXES})

    @property
    def key(self) -> str:
        return json.dumps([self.setting, self.caps], sort_keys=True)


def lanes_of(config: SweepConfig) -> list[Lane]:
    """In running order; the first one is the present setting."""
    caps = {k: v for k, v in config.grid.items() if is_load_key(k) and k not in LOAD_AXES}
    levels = [dict(zip(caps, values, strict=True)) for values in itertools.product(*caps.values())]
    return [Lane(setting, level) for setting in settings_of(config) for level in levels]


@dataclass(frozen=True)
class Axis:
    """The load that is raised and lowered: its name, how far it may go, and the file's own levels, rising."""

    key: str
    levels: tuple[float, ...]
    low: float
    high: float

    @property
    def whole(self) -> bool:
        return self.key == "max_concurrency"

    @property
    def middle(self) -> float:
        """Of an even number of levels the lower one."""
        return self.levels[(len(self.levels) - 1) // 2]

    def rounded(self, level: float) -> float:
        """Inside the axis, with three significant digits; people at once are whole."""
        inside = min(max(level, self.low), self.high)
        return float(round(inside)) if self.whole else float(f"{inside:.3g}")

    def load(self, lane: Lane, level: float) -> dict[str, Scalar]:
        return {self.key: int(level) if self.whole else level, **lane.caps}


def axis_of(config: SweepConfig) -> Axis:
    """The axis of the grid; without one the rates of the file are scaled, beginning with them as they are."""
    key = next((axis for axis in LOAD_AXES if axis in config.grid), "load_scale")
    levels = tuple(sorted(float(v) for v in config.grid.get(key, (1.0,))))
    if key == "max_concurrency":
        return Axis(key, levels, 1.0, float(MOST_AT_ONCE))
    run, rates = config.run, class_rates(config)
    most = MOST_REQUESTS / (run.warmup + run.duration_s) / max(rates.values(), default=1.0)
    slowest = rarest_rate(config) or 1.0
    low = max(levels[0] / REACH, min(levels[0], LEAST_REQUESTS / (slowest * run.duration_s)))
    # as a probe would be rounded: an end that none can reach would be probed again and again
    return Axis(key, levels, float(f"{low:.3g}"), _three_digits(min(levels[-1] * REACH, most)))


def _three_digits(value: float) -> float:
    """The number of three significant digits that is not above this one."""
    near = float(f"{value:.3g}")
    return near if near <= value else float(f"{0.995 * value:.3g}")


def rarest_rate(config: SweepConfig) -> float | None:
    """Requests per second, at level 1 of the axis, of the class with targets that sends the fewest; null if none has a
    rate."""
    rates = class_rates(config)
    return min((rates[c.name] for c in config.classes if c.slo and c.name in rates), default=None)


def class_rates(config: SweepConfig) -> dict[str, float]:
    """Requests per second at level 1 of the axis, of the classes that have a rate."""
    if "max_concurrency" in config.grid:
        return {}
    if "request_rate" not in config.grid:
        return {c.name: c.rate for c in config.classes if c.rate is not None}
    total = sum(c.weight for c in config.classes if c.weight is not None)
    return {c.name: c.weight / total for c in config.classes if c.weight is not None}
