"""The best setting that can be found within a time: which cell comes next. PURE.

Rounds: all lanes (a setting with its caps) at one load of the file and with the same arrivals, so that they are
compared in pairs. Then those that keep their targets there go on to a higher load; if none does, the better half goes
on to a lower one. Half the loads fall away in a round, and half the lanes where time is short, so that later rounds
have longer windows. The rest of the time verifies the winner against the present setting, in pairs of new arrivals;
when the winner does not stand it, the next best one is verified.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from runner.analysis.intervals import pool
from runner.config import SweepConfig
from runner.plan import PlannedCell
from runner.search.ended import Ended
from runner.search.race import Race, Standing, race_of

FINALISTS = 3
PAIRS = 2  # of verification
MOST_PAIRS = 6
GOES_ON = 0.2  # probability of keeping the targets with which a lane goes on to a higher load
RESERVE = 0.4  # at most so much of the time is set aside for the verification
FIRST = 0.5  # at most so much of it goes into the first round
FORESEEN = 0.5  # what is thought of a lane at the load below one that it did not keep


@dataclass(frozen=True)
class Front:
    """Lanes still in the race; the highest level kept by some of them and the lowest kept by none."""

    alive: tuple[int, ...]
    below: int
    above: int

    @property
    def level(self) -> int:
        """The level of the next round."""
        return (self.below + self.above) // 2 if self.above - self.below > 1 else max(self.below, 0)

    def over(self) -> bool:
        return not self.alive or (self.above - self.below <= 1 and len(self.alive) <= FINALISTS)


@dataclass(frozen=True)
class Place:
    """Where a search stands: the lanes that this turn still has to measure, at one level with one window."""

    turn: int
    level: int
    missing: tuple[int, ...]
    window_s: float
    alive: int  # lanes that this turn compares
    loads_open: bool  # more than one load may still be the highest that is kept


def next_step(config: SweepConfig, ended: Sequence[Ended]) -> PlannedCell | None:
    """The next cell; null when the winner is verified or the time is used up. `ended`: all finished cells by number."""
    race = race_of(config)
    at = place_of(race, ended)
    return None if at is None else race.planned(len(ended), at.missing[0], at.level, at.turn, at.window_s)


def steps_left(config: SweepConfig, ended: Sequence[Ended]) -> list[PlannedCell]:
    """The cells that are still expected: those of this turn, then as many as usually follow."""
    race = race_of(config)
    at = place_of(race, ended)
    if at is None:
        return []
    cells = [(lane, at.turn, at.window_s) for lane in at.missing]
    first, longest = at.missing[0], config.run.duration_s
    if at.turn < race.most_rounds:
        alive, turn = at.alive, at.turn + 1
        while alive > FINALISTS or (at.loads_open and turn < race.load_rounds):
            alive = max(min(alive, FINALISTS), math.ceil(alive / 2))
            cells += [((first + i) % len(race.lanes), turn, longest) for i in range(alive)]
            turn += 1
        cells += [(i % len(race.lanes), race.most_rounds, longest) for i in range(2 * PAIRS)]
    return [race.planned(len(ended) + i, lane, at.level, turn, w) for i, (lane, turn, w) in enumerate(cells)]


def place_of(race: Race, ended: Sequence[Ended]) -> Place | None:
    """The rounds over again from the first cell on, up to what is not measured yet."""
    front = Front(first_lanes(race), -1, len(race.axis.levels))
    for turn in range(race.most_rounds):
        if front.over():
            break
        before = [e for e in ended if e.repeat < turn]
        seconds = round_seconds(race, front, before, turn)
        window = race.window_s(len(front.alive), seconds, race.start_s(before), front.level)
        if window is None and turn > 0:
            break
        mine = [e for e in ended if e.repeat == turn]
        measured = {race.lane_of(e) for e in mine}
        order = front.alive if turn % 2 == 0 else tuple(reversed(front.alive))  # the server runs with the last one
        if missing := tuple(lane for lane in order if lane not in measured):
            width = window or race.shortest_s(front.level)
            return Place(turn, front.level, missing, width, len(order), front.above - front.below > 1)
        front = narrowed(race, front, race.standings(mine), seconds, before)
    return _place_of_pair(race, ended)


def first_lanes(race: Race) -> tuple[int, ...]:
    """All lanes; or so many as half the time is enough for, spread over the grid, the present setting among them."""
    lanes, start = len(race.lanes), race.start_s([])
    front = Front(tuple(range(lanes)), -1, len(race.axis.levels))
    room = int(FIRST * race.budget_s // (race.cell_s(race.shortest_s(front.level)) + start))
    if room >= lanes:
        return front.alive
    room = max(2, room)
    return tuple(sorted({round(i * (lanes - 1) / (room - 1)) for i in range(room)}))


def round_seconds(race: Race, front: Front, before: Sequence[Ended], turn: int) -> float:
    """The time of one round: what the rounds have, in equal parts."""
    start = race.start_s(before)
    reserve = min(RESERVE * race.budget_s, 2 * PAIRS * (race.cell_s(race.config.run.duration_s) + start))
    by_load = race.load_rounds - turn if front.above - front.below > 1 else 0
    by_lanes = math.ceil(math.log2(max(1.0, len(front.alive) / FINALISTS)))
    part = (race.budget_s - reserve - race.used_s(before)) / max(1, by_load, by_lanes)
    if turn > 0:
        return part
    shortest = race.cell_s(race.shortest_s(front.level)) + start
    return max(part, min(FIRST * race.budget_s, len(front.alive) * shortest))  # rather a short look than none


def narrowed(race: Race, front: Front, standings: Sequence[Standing], seconds: float, before: Sequence[Ended]) -> Front:
    """After a round: which lanes go on, and to which loads."""
    level = front.level
    room = int(seconds // (race.cell_s(race.config.run.duration_s) + race.start_s(before)))
    keep = max(FINALISTS if len(standings) > FINALISTS else 1, math.ceil(len(standings) / 2), room)
    if any(s.sure >= 0.5 for s in standings):
        able = sorted((s for s in standings if s.sure >= GOES_ON), key=lambda s: (s.sure < 0.5, s.strain))
        return Front(tuple(sorted(s.lane for s in able[:keep])), max(level, front.below), front.above)
    able = sorted((s for s in standings if s.goodput_per_s > 0), key=lambda s: -s.score)
    lanes = tuple(sorted(s.lane for s in able[:keep]))
    # kept by some of them before, so it is noise that none does now: no lower load is looked at
    return Front(lanes, front.below, front.above if level == front.below else level)


def contenders(race: Race, ended: Sequence[Ended]) -> list[Standing]:
    """Best first: everything measured, and the level below one that a lane did not keep."""
    found = race.standings(ended)
    tried_enough = [s for s in found if pairs_of(race, ended, s) >= MOST_PAIRS and not _proven(race, ended, s)]
    seen = {(s.lane, s.level) for s in found}
    for s in list(found):
        if s.level > 0 and s.sure < 0.5 and s.goodput_per_s > 0 and (s.lane, s.level - 1) not in seen:
            less = race.axis.levels[s.level - 1] / race.axis.levels[s.level]
            found.append(Standing(s.lane, s.level - 1, FORESEEN, s.goodput_per_s * less, s.strain, 0))
    return sorted(found, key=lambda s: (s in tried_enough, -s.score, s.lane))


def pair_of(race: Race, ended: Sequence[Ended]) -> tuple[Standing, int | None] | None:
    """The contender to be verified, and the lane that it is held against: the present one, or the next best."""
    best = contenders(race, ended)
    if not best or best[0].goodput_per_s <= 0:
        return None
    winner = best[0]
    others = [s.lane for s in best if s.lane != winner.lane and s.goodput_per_s > 0]
    rival = 0 if winner.lane != 0 else next(iter(others), None)
    return winner, rival


def pairs_of(race: Race, ended: Sequence[Ended], winner: Standing) -> int:
    """How often the winner was measured at its level in the verification."""
    return sum(
        1
        for e in ended
        if e.repeat >= race.most_rounds and (race.lane_of(e), race.level_of(e)) == (winner.lane, winner.level)
    )


def _place_of_pair(race: Race, ended: Sequence[Ended]) -> Place | None:
    turn = race.most_rounds
    while True:
        before = [e for e in ended if e.repeat < turn]
        found = pair_of(race, before)
        if found is None:
            return None
        winner, rival = found
        done = pairs_of(race, before, winner)
        if done >= MOST_PAIRS or (done >= PAIRS and _proven(race, before, winner)):
            return None
        lanes = [winner.lane] if rival is None else [winner.lane, rival]
        window = _pair_window(race, before, len(lanes), max(1, PAIRS - done), winner.level)
        if window is None:
            return None
        mine = {race.lane_of(e) for e in ended if e.repeat == turn}
        if before and race.lane_of(before[-1]) == lanes[-1]:
            lanes.reverse()  # its server is still there
        if missing := tuple(lane for lane in lanes if lane not in mine):
            return Place(turn, winner.level, missing, window, len(lanes), False)
        turn += 1


def _pair_window(race: Race, before: Sequence[Ended], lanes: int, pairs: int, level: int) -> float | None:
    """For all pairs that are wanted, else for one; null when not even that fits."""
    seconds, start = race.budget_s - race.used_s(before), race.start_s(before)
    wanted = race.window_s(lanes * pairs, seconds, start, level)
    return wanted if wanted is not None else race.window_s(lanes, seconds, start, level)


def _proven(race: Race, ended: Sequence[Ended], winner: Standing) -> bool:
    """Whether the lower bound of every class's share reaches the target, or the share is plainly below it."""
    mine = [e for e in ended if (race.lane_of(e), race.level_of(e)) == (winner.lane, winner.level)]
    names = {name for e in mine for name in e.shares}
    bounds = [pool([e.shares[n] for e in mine if n in e.shares]).bounds or (0.0, 1.0) for n in names]
    alpha = race.config.run.share_target
    return all(low >= alpha for low, _ in bounds) or any(high < alpha for _, high in bounds)
