"""Finished cells of a search, made up: how a server of a known capacity would have answered."""

import math
from collections.abc import Callable, Sequence

from runner.analysis.intervals import Share
from runner.config import SweepConfig
from runner.plan import PlannedCell, cell_config
from runner.search.ended import Ended

Next = Callable[[SweepConfig, Sequence[Ended]], PlannedCell | None]


def logistic_share(load: float, capacity: float, steep: float, top: float = 1.0) -> float:
    """.9 at `capacity`."""
    return top / (1 + math.exp(-(math.log(0.9 / (top - 0.9 + 1e-9)) - steep * math.log(load / capacity))))


def ended(
    config: SweepConfig,
    plan: PlannedCell,
    share: float,
    *,
    status: str = "ok",
    overload: bool = False,
    ours: bool = False,
    began: bool = True,
    deff: float = 1.0,
    drain_s: float = 2.0,
) -> Ended:
    """A cell that met this share of the requests its load would send (100 where it has no rate)."""
    run = cell_config(config, plan).run
    rate = plan.load.get("request_rate")
    judged = max(1, round(float(rate) * run.duration_s)) if rate is not None else 100
    return Ended(
        cell=plan.cell,
        setting=plan.setting,
        load=plan.load,
        repeat=plan.repeat,
        status=status,
        why="made up",
        began=began,
        overload=overload,
        client_limited=ours,
        shares={"chat": Share(round(share * judged), judged, deff)} if status == "ok" else {},
        window_s=run.duration_s,
        work_per_s=0.0,
        took_s=run.warmup + run.duration_s + drain_s if began else 0.0,
        drain_s=drain_s,
        began_unix_s=None,
        strain=max(0.01, 2.0 - share),
    )


def searched(config: SweepConfig, next_cell: Next, answer: Callable[[PlannedCell], Ended]) -> list[Ended]:
    """The whole search."""
    found: list[Ended] = []
    while (plan := next_cell(config, found)) is not None:
        assert plan.cell == len(found)
        found.append(answer(plan))
        assert len(found) < 500
    return found
