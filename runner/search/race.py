"""What a search within a time goes by: how good a lane looks, and what a cell costs. PURE."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median

import numpy as np

from runner.analysis.intervals import Share, pool
from runner.config import SweepConfig
from runner.estimate import IDLE_WAIT_S, USUAL_DRAIN_S, cell_seconds, start_seconds
from runner.plan import PlannedCell, cell_config
from runner.search.budget_text import budget_seconds
from runner.search.ended import Ended
from runner.search.lanes import Axis, Lane, axis_of, lanes_of, rarest_rate

LEAST_PART = 1 / 8  # of the file's window: a shorter one says too little
LEAST_JUDGED = 15  # requests of the rarest class with targets that a window should hold
GLANCE = 0.5  # a window of less than so much of the file's
GOES_ON = 0.2  # probability of keeping the targets with which a load is not given up
GRID = (np.arange(400) + 0.5) / 400


@dataclass(frozen=True)
class Standing:
    """One lane at one level, its cells pooled. `keeps`: every class does, by what was seen; `sure`: the probability."""

    lane: int
    level: int
    lost: bool  # overloaded, or a cell of it failed
    keeps: bool
    sure: float
    goodput_per_s: float
    strain: float
    cells: int  # that were measured; 0: foreseen from a higher level
    met: int = 0
    judged: int = 0

    @property
    def score(self) -> float:
        """What can be hoped for: goodput counts in so far as the targets may be kept, and a little if nobody keeps
        them. To three digits, so that of what is as good as equal the earlier lane, the smaller change, is taken."""
        hope = 0.01 if self.lost else 1.0 if self.keeps else min(1.0, 2 * self.sure) if self.sure >= GOES_ON else 0.05
        return float(f"{self.goodput_per_s * hope:.3g}")


def sure_of(share: Share, alpha: float) -> float:
    """Probability that the share behind these requests is at least alpha: all shares equally likely beforehand."""
    n = share.judged / max(share.deff, 1.0)
    k = n * share.met / share.judged if share.judged else 0.0
    log = k * np.log(GRID) + (n - k) * np.log1p(-GRID)
    weight = np.exp(log - log.max())
    return float(weight[alpha <= GRID].sum() / weight.sum())


@dataclass(frozen=True)
class Race:
    """What the config says about its search, worked out once."""

    config: SweepConfig
    axis: Axis
    lanes: list[Lane]
    budget_s: float

    @cached_property
    def load_rounds(self) -> int:
        """So many halvings of the file's loads leave one."""
        return math.ceil(math.log2(len(self.axis.levels) + 1))

    @cached_property
    def most_rounds(self) -> int:
        """Repeats from this number on belong to the verification."""
        return self.load_rounds + math.ceil(math.log2(len(self.lanes) + 1))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {lane.key: i for i, lane in enumerate(self.lanes)}

    def planned(self, cell: int, lane: int, level: int, repeat: int, window_s: float) -> PlannedCell:
        own = self.lanes[lane]
        load = self.axis.load(own, self.axis.levels[level]) if self.axis.key in self.config.grid else own.caps
        same = window_s == self.config.run.duration_s
        return PlannedCell(cell, own.setting, load, repeat, window_s=None if same else window_s)

    def lane_of(self, ended: Ended) -> int:
        return self._numbers[Lane.of(ended.setting, ended.load).key]

    def level_of(self, ended: Ended) -> int:
        """Of a file without a load axis there is one level."""
        told = ended.load.get(self.axis.key)
        return self.axis.levels.index(float(told)) if told is not None else 0

    def standings(self, ended: Sequence[Ended]) -> list[Standing]:
        """One for each lane and level that was measured, lanes in order. What failed stands last: it has no goodput."""
        groups: dict[tuple[int, int], list[Ended]] = {}
        for e in ended:
            groups.setdefault((self.lane_of(e), self.level_of(e)), []).append(e)
        return [self._standing(lane, level, cells) for (lane, level), cells in sorted(groups.items())]

    def _standing(self, lane: int, level: int, cells: Sequence[Ended]) -> Standing:
        good = [e for e in cells if e.status == "ok"]
        if not good:
            return Standing(lane, level, True, False, 0.0, 0.0, math.inf, len(cells))
        names = {name for e in good for name in e.shares}
        shares = [pool([e.shares[n] for e in good if n in e.shares]) for n in sorted(names)]
        alpha = self.config.run.share_target
        failed = len(good) < len(cells) or any(self.overloaded(e) for e in good)
        keeps = not failed and all((s.value or 0.0) >= alpha for s in shares)
        sure = 0.0 if failed else math.prod(sure_of(s, alpha) for s in shares)
        seconds = sum(e.window_s for e in good)
        goodput = sum(s.met for s in shares) / seconds if seconds else 0.0
        total = pool(shares)
        strain = max(e.strain for e in good)
        return Standing(lane, level, failed, keeps, sure, goodput, strain, len(cells), total.met, total.judged)

    def overloaded(self, ended: Ended) -> bool:
        """A glance is too short to see a queue grow: there an overload counts only if targets were missed as well."""
        alpha = self.config.run.share_target
        kept = all((s.value or 0.0) >= alpha for s in ended.shares.values())
        return ended.overload and not (kept and ended.window_s < GLANCE * self.config.run.duration_s)

    def cell_s(self, window_s: float, ended: Sequence[Ended]) -> float:
        """Seconds of a cell with that window, without a start; its drain as the longest seen so far."""
        plan = PlannedCell(0, {}, {}, 0, window_s=window_s)
        longest = max((e.drain_s for e in ended), default=USUAL_DRAIN_S)
        more = max(0.0, longest - USUAL_DRAIN_S)
        return cell_seconds(cell_config(self.config, plan)) + more + self.config.run.cool_down_s

    def start_s(self, ended: Sequence[Ended]) -> float:
        """Of one server start: the median of those seen between two cells, else a guess."""
        pairs = [(a, b) for a, b in pairwise(ended) if a.setting != b.setting]
        seen = [b.began_unix_s - a.began_unix_s - a.took_s for a, b in pairs if a.began_unix_s and b.began_unix_s]
        return max(0.0, median(seen)) if seen else start_seconds(self.config)

    def used_s(self, ended: Sequence[Ended]) -> float:
        """Seconds that these cells took, with their starts and the waits between them."""
        starts = sum(1 for i, e in enumerate(ended) if i == 0 or e.setting != ended[i - 1].setting)
        between = IDLE_WAIT_S + self.config.run.cool_down_s
        return sum(e.took_s + between for e in ended) + starts * self.start_s(ended)

    def window_s(self, starts: int, seconds: float, ended: Sequence[Ended], level: int, each: int = 1) -> float | None:
        """The longest window, up to the file's, with which so many starts with `each` so many cells fit into that
        time."""
        low, high, start_s = self.shortest_s(level), self.config.run.duration_s, self.start_s(ended)

        def fits(window: float) -> bool:
            return starts * (each * self.cell_s(window, ended) + start_s) <= seconds

        if not fits(low):
            return None
        if fits(high):
            return high
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return max(self.shortest_s(level), math.floor(low * 10) / 10)

    def shortest_s(self, level: int) -> float:
        """The shortest window worth a cell at that level, never above the file's."""
        rate = rarest_rate(self.config)
        enough = LEAST_JUDGED / (rate * self.axis.levels[level]) if rate else 0.0
        return min(self.config.run.duration_s, max(LEAST_PART * self.config.run.duration_s, enough))


def race_of(config: SweepConfig) -> Race:
    """Of a config with a budget."""
    return Race(config, axis_of(config), lanes_of(config), budget_seconds(config.run.budget or ""))
