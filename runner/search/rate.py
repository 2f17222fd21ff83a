"""The largest load at which every class with targets keeps its share, for one lane after the other. PURE.

Doubling or halving from a first guess until one probe keeps the targets and one does not; then always the load where
the fit through all probes crosses the target, until that is known to 7 % either way. Every probe has arrivals of its
own (the n-th of each lane the same), so that one lucky trace is not taken for capacity.
"""

from collections.abc import Sequence

from runner.config import SweepConfig
from runner.plan import PlannedCell
from runner.search.ended import Ended
from runner.search.fit import Crossing, Point, crossing
from runner.search.lanes import Axis, Lane, axis_of, lanes_of

NARROW = 1.15  # upper by lower end of the interval at which a search is content
MOST_PROBES = 10
USUAL_PROBES = 8
FINE = 20  # people at once, below which one more or less is told apart
LEAST_SPREAD = 1.3  # so that a probe beside the crossing is not put on it
TWICE = 2  # probes that pass, and that miss: one of each may be luck
STEP = 1.5  # beyond all probes at a time
ASIDE = 0.2  # of the interval's width: how far from the crossing a probe is put
FEW = 20.0  # effective requests that a plain miss or pass counts for, and a probe whose misses were not counted
NEAR = 1.35  # times the limit, or a part of it: as far as probes tell how much requests share their fate there


def level_of(ended: Ended, axis: Axis) -> float:
    """The load of a cell along the axis."""
    return float(ended.load[axis.key])


def keeps(ended: Ended, alpha: float) -> bool:
    """Whether a measured probe keeps every class's share, by what was seen and without an interval."""
    values = [s.value for s in ended.shares.values() if s.value is not None]
    return not ended.overload and min(values, default=1.0) >= alpha


def lane_failed(tried: Sequence[Ended]) -> bool:
    """A setting that did not start, or whose server died in two probes, or that was skipped twice, is left alone."""
    lost = [e for e in tried if e.status != "ok"]
    return len(lost) > 1 or any(e.status == "failed" and not e.began for e in lost)


def bracket(tried: Sequence[Ended], axis: Axis, alpha: float) -> tuple[list[float], list[float]]:
    """Levels that keep the targets and levels that do not; a server that died under a load did not keep them."""
    held = [level_of(e, axis) for e in tried if e.status == "ok" and keeps(e, alpha)]
    missed = [level_of(e, axis) for e in tried if e.status == "failed" or (e.status == "ok" and not keeps(e, alpha))]
    return held, missed


def fitted(tried: Sequence[Ended], axis: Axis, alpha: float) -> Crossing | None:
    """The fit through all probes; null before one gave numbers.

    A lucky window shows few misses and no bunches of them: by its own design effect it would count for many times an
    unlucky one, and the limit would be that of the lucky ones. So all probes share the mean design effect of those near
    the limit, which takes a first fit to know.
    """
    if not any(e.shares for e in tried):
        return None
    first = crossing(_points(tried, axis, alpha, tried), alpha)
    near = [e for e in tried if 1 / NEAR <= level_of(e, axis) / first.load <= NEAR]
    return crossing(_points(tried, axis, alpha, near), alpha)


def _points(tried: Sequence[Ended], axis: Axis, alpha: float, near: Sequence[Ended]) -> dict[str, list[Point]]:
    """By class, what each probe says; `near`: the probes whose design effects count."""
    points: dict[str, list[Point]] = {}
    for name in sorted({name for e in tried for name in e.shares}):
        effects = [e.shares[name].deff for e in near or tried if name in e.shares] or [1.0]
        mean = sum(effects) / len(effects)
        found = [_point(e, name, level_of(e, axis), alpha, mean, far=e not in near) for e in tried]
        points[name] = [p for p in found if p is not None]
    return points


def _point(ended: Ended, name: str, level: float, alpha: float, effect: float, far: bool) -> Point | None:
    """`far` from the limit a queue that grows or drains through the window has a design effect that says nothing of how
    the share would vary: a plain miss, with twice the misses of a share at the target, and a plain pass, with a quarter
    of them, count for a few at least.
    """
    if ended.status == "failed" and ended.began:
        return level, 0.0, FEW
    share = ended.shares.get(name)
    if share is None or not share.judged:
        return None
    n_eff, few = share.judged / effect, min(float(share.judged), FEW)
    if ended.overload and keeps_share(ended, alpha):  # the queue grew: a longer run would have missed
        return level, alpha / 2, min(few, n_eff)
    misses, allowed = share.judged - share.met, (1.0 - alpha) * share.judged
    plain = far and (misses >= 2 * allowed or misses <= allowed / 4)
    return level, share.met / share.judged, max(n_eff, few) if plain else n_eff


def keeps_share(ended: Ended, alpha: float) -> bool:
    """As `keeps`, whether or not the queue grew."""
    return min((s.value for s in ended.shares.values() if s.value is not None), default=1.0) >= alpha


def next_level(tried: Sequence[Ended], axis: Axis, alpha: float, guess: float) -> float | None:
    """Where to probe a lane next; null when nothing more is to be learned, or can be."""
    if len(tried) >= MOST_PROBES or lane_failed(tried):
        return None
    held, missed = bracket(tried, axis, alpha)
    if not held and not missed:
        return axis.rounded(guess)
    if not missed:
        return axis.rounded(2 * max(held)) if max(held) < axis.high else None
    if not held:
        return axis.rounded(min(missed) / 2) if min(missed) > axis.low else None
    found = fitted(tried, axis, alpha)
    sure = found is not None and found.spread <= NARROW and min(len(held), len(missed)) >= TWICE
    if found is None or (sure and not (axis.whole and found.load < FINE)):
        return None
    above = len(tried) % 2 if len(held) >= TWICE else len(missed) < len(held)  # in turn, or the slope stays unknown
    aside = max(found.spread, LEAST_SPREAD) ** (ASIDE if above else -ASIDE)
    level = axis.rounded(_asked_again(found.load * aside, [*held, *missed]))
    if not axis.whole:
        return level
    return _next_whole(level, held, missed)


def _asked_again(level: float, seen: Sequence[float]) -> float:
    """A level beyond all probes says that the outermost was bad (or good) luck: that is asked again, then a step more.

    Believed once and for all, a single unlucky miss would keep all later probes below it.
    """
    low, high = min(seen), max(seen)
    if level >= high:
        return high if seen.count(high) < TWICE else min(level, high * STEP)
    if level <= low:
        return low if seen.count(low) < TWICE else max(level, low / STEP)
    return level


def _next_whole(level: float, held: Sequence[float], missed: Sequence[float]) -> float | None:
    """Of whole numbers each side of the step twice, then it is known."""
    step = (max((h for h in held if h < min(missed)), default=0.0), min(missed))
    if step[1] - step[0] > 1:
        return min(max(level, step[0] + 1), step[1] - 1)
    return next((v for v, seen in ((step[0], held), (step[1], missed)) if v > 0 and seen.count(v) < 2), None)


def of_lane(lane: Lane, ended: Sequence[Ended]) -> list[Ended]:
    """The cells of one lane, in the order they were measured."""
    return [e for e in ended if Lane.of(e.setting, e.load) == lane]


def next_probe(config: SweepConfig, ended: Sequence[Ended]) -> PlannedCell | None:
    """The next cell of the whole search; null when every lane has its answer. `ended`: all finished cells by number."""
    axis, alpha, guess = axis_of(config), config.run.share_target, 0.0
    for lane in lanes_of(config):
        tried = of_lane(lane, ended)
        level = next_level(tried, axis, alpha, guess or axis.middle)
        if level is not None:
            return PlannedCell(len(ended), lane.setting, axis.load(lane, level), len(tried))
        found = fitted(tried, axis, alpha)  # where its neighbour gave way is the best guess
        guess = found.load if found and not lane_failed(tried) else guess
    return None


def probes_left(config: SweepConfig, ended: Sequence[Ended]) -> list[PlannedCell]:
    """The cells that are still expected, the certain one first, the others at the load that is known by then."""
    first = next_probe(config, ended)
    if first is None:
        return []
    axis, out = axis_of(config), [first]
    lanes = lanes_of(config)
    now = lanes.index(Lane.of(first.setting, first.load))
    level = float(first.load[axis.key])
    for i, lane in enumerate(lanes[now:]):
        done = len(of_lane(lane, ended)) + 1 if i == 0 else 0
        out += [
            PlannedCell(first.cell + len(out), lane.setting, axis.load(lane, level), n)
            for n in range(done, USUAL_PROBES)
        ]
    return [PlannedCell(first.cell + i, p.setting, p.load, p.repeat) for i, p in enumerate(out)]
