"""Which cells a sweep has, and in which order they are measured. PURE: a config always gives the same numbers."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runner.config import Scalar, SweepConfig, is_load_key

DRIFT_FROM_S = 20 * 60.0  # a shorter sweep has little time to drift in
DRIFT_FROM_CELLS = 4  # of fewer cells one more would be a large part


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """One cell. `drift`: the first cell once more, to be compared with it and never chosen from. `window_s`: its
    measured seconds, where they are not those of the config."""

    cell: int
    setting: dict[str, Scalar]
    load: dict[str, Scalar]
    repeat: int
    drift: bool = False
    window_s: float | None = None


def plan_cells(config: SweepConfig) -> list[PlannedCell]:
    """Every cell in running order, numbered from 0.

    Usually all loads of a setting stand together, so that its server starts once a repeat, and one setting differs
    from the one before in a single key. Repeats are outermost although that costs starts: a machine that gets slower
    in an hour must not look like a difference between settings, nor repeats measured in one go like agreement.

    With `stop_by` the most informative cells come first (see `_best_first`), at up to three starts a setting.
    With a drift check the first cell stands last once more, as the repeat after the last.

    None for a sweep that chooses its cells as it goes (`is_search`): which they are is known to runner.search.course.
    """
    if is_search(config):
        return []
    load = {k: v for k, v in config.grid.items() if is_load_key(k)}
    settings = settings_of(config)
    order = _best_first if config.run.stop_by is not None else _setting_by_setting
    cells = [
        PlannedCell(n, setting, level, repeat)
        for n, (setting, level, repeat) in enumerate(order(settings, load, config.run.repeats))
    ]
    if config.run.alone is not None:
        cells.append(PlannedCell(len(cells), cells[0].setting, _load_alone(config, config.run.alone), 0))
    if checks_drift(config):
        cells.append(PlannedCell(len(cells), cells[0].setting, cells[0].load, config.run.repeats, drift=True))
    return cells


def is_search(config: SweepConfig) -> bool:
    """Whether the cells are chosen by what those before them gave."""
    return config.run.find_rate or config.run.budget is not None


def settings_of(config: SweepConfig) -> list[dict[str, Scalar]]:
    """All server settings, each different from the one before in a single key; the first is the present one."""
    server = config.server_grid
    return [dict(zip(server, values, strict=True)) for values in _one_step_apart(tuple(server.values()))]


def cell_config(config: SweepConfig, plan: PlannedCell) -> SweepConfig:
    """The config as one cell runs with it: its own window, and no more warm-up than a short one can afford."""
    if plan.window_s is None:
        return config
    warmup_s = min(config.run.warmup, max(plan.window_s / 4, config.run.warmup * plan.window_s / config.run.duration_s))
    times = {"duration_s": plan.window_s, "warmup_s": warmup_s, "drain_s": config.run.drain}
    return config.model_copy(update={"run": config.run.model_copy(update=times)})


def _load_alone(config: SweepConfig, name: str) -> dict[str, Scalar]:
    """Only that class, held back as little as anywhere in the sweep."""
    caps = config.grid.get(f"{name}_max_in_flight")
    return {**({f"{name}_max_in_flight": max(caps, key=_by_size)} if caps else {}), "only": name}


def trace_seed(config: SweepConfig, plan: PlannedCell) -> int:
    """Each repeat has its own arrivals and lengths, the same in all settings; the drift check has those of cell 0."""
    return config.run.seed + (0 if plan.drift else plan.repeat)


def count_cells(config: SweepConfig) -> int:
    """Number of planned cells without building them (a typo can ask for millions)."""
    return count_points(config) + (config.run.alone is not None) + checks_drift(config)


def checks_drift(config: SweepConfig) -> bool:
    """Whether the first cell is measured once more at the end: as asked for, else when the sweep is long enough.

    Left to itself the built-in engine is not checked: its speed comes from a cost model, not from the machine.
    """
    if is_search(config):
        return False
    wanted = config.run.drift_check
    if wanted != "auto":
        return wanted
    cells, run = count_points(config), config.run
    seconds = cells * (run.warmup + run.duration_s + run.cool_down_s)
    real = config.backend.kind != "simulated"
    return real and cells >= DRIFT_FROM_CELLS and seconds >= DRIFT_FROM_S


def count_points(config: SweepConfig) -> int:
    """Cells of the grid in all repeats, without the drift check."""
    return config.run.repeats * math.prod(len(values) for values in config.grid.values())


Step = tuple[dict[str, Scalar], dict[str, Scalar], int]  # setting, load, repeat


def _setting_by_setting(
    settings: Sequence[dict[str, Scalar]], load: Mapping[str, Sequence[Scalar]], repeats: int
) -> list[Step]:
    levels = [dict(zip(load, values, strict=True)) for values in itertools.product(*load.values())]
    return [(s, level, repeat) for repeat in range(repeats) for s in settings for level in levels]


def _best_first(
    settings: Sequence[dict[str, Scalar]], load: Mapping[str, Sequence[Scalar]], repeats: int
) -> list[Step]:
    """In each repeat three passes over all settings: the middle load, its neighbours, the rest from near to far.

    The middle of an even number is the lower one. Every other pass goes through the settings backwards, so the last
    setting of a pass needs no new start in the next.
    """
    rising = [sorted(values, key=_by_size) for values in load.values()]
    levels = [dict(zip(load, values, strict=True)) for values in itertools.product(*rising)]
    middle = (len(levels) - 1) // 2
    near = sorted(range(len(levels)), key=lambda i: (abs(i - middle), -i))
    passes = [p for p in (near[:1], near[1:3], near[3:]) if p]
    steps: list[Step] = []
    for turn, (repeat, chosen) in enumerate(itertools.product(range(repeats), passes)):
        for setting in settings if turn % 2 == 0 else reversed(settings):
            steps += [(setting, levels[i], repeat) for i in chosen]
    return steps


def _by_size(value: Scalar) -> tuple[float, str]:
    return (float(value), "") if isinstance(value, (int, float)) else (math.inf, value)


def _one_step_apart(axes: Sequence[Sequence[Scalar]]) -> list[tuple[Scalar, ...]]:
    """The product of the axes, the last one fastest, each entry different from the one before in one place only (a
    reflected Gray code)."""
    found: list[tuple[Scalar, ...]] = [()]
    for values in axes:
        found = [
            (*head, value)
            for i, head in enumerate(found)
            for value in (values if i % 2 == 0 else tuple(reversed(values)))
        ]
    return found
