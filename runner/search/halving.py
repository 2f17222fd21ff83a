"""The best setting that can be found within a time: which cell comes next. PURE.

Rounds: every lane (a setting with its caps) halves the loads of the file for itself: from the middle on to a higher
one when it keeps its targets, else to a lower one, all lanes with the same arrivals, so that they are compared in
pairs. After a round the lanes fall away that cannot keep what another one does, and where time is short the more
strained half of the others, so that later rounds have longer windows. The rest of the time verifies the winner against
the present setting, in pairs of new arrivals; when the winner does not stand it, the next best one is verified.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from runner.analysis.intervals import pool
from runner.config import SweepConfig
from runner.plan import PlannedCell
from runner.search.ended import Ended
from runner.search.race import GOES_ON, Race, Standing, race_of

FINALISTS = 3
PAIRS = 2  # of verification
MOST_PAIRS = 4
RESERVE = 0.3  # at most so much of the time is set aside for the verification
FIRST = 0.5  # at most so much of it goes into the first round
STICKY = 0.1  # a difference in hope below which nothing is changed
OUT = 0.02  # a lane with less probability of keeping the targets is no rival
FORESEEN = 0.5  # what is thought of a lane at the load below one that it did not keep


@dataclass(frozen=True)
class Bracket:
    """The highest level that a lane is known to keep and the lowest that it is known not to."""

    below: int
    above: int

    @property
    def open(self) -> bool:
        return self.above - self.below > 1

    def after(self, level: int, keeps: bool) -> "Bracket":
        if keeps:
            return Bracket(max(level, self.below), max(level + 1, self.above))
        return Bracket(min(level - 1, self.below), min(level, self.above))


@dataclass(frozen=True)
class Place:
    """Where a search stands: the lane and level to be measured next, and what this turn is about."""

    turn: int
    lane: int
    level: int
    window_s: float
    waiting: int  # cells of this turn that come after it
    alive: int  # lanes that this turn compares
    rounds_left: int  # after this one


def steps_left(config: SweepConfig, ended: Sequence[Ended]) -> list[PlannedCell]:
    """The cells that are still expected: the next one, then as many as usually follow in its turn and after it."""
    race = race_of(config)
    at = place_of(race, ended)
    if at is None:
        return []
    cells = [(at.lane + i, at.turn, at.window_s) for i in range(1 + at.waiting)]
    if at.turn < race.most_rounds:
        alive = at.alive
        for turn in range(at.turn + 1, at.turn + 1 + at.rounds_left):
            alive = max(min(alive, FINALISTS), math.ceil(alive / 2))
            cells += [(at.lane + i, turn, config.run.duration_s) for i in range(alive)]
        cells += [(at.lane + i, race.most_rounds, config.run.duration_s) for i in range(2 * PAIRS)]
    return [
        race.planned(len(ended) + i, lane % len(race.lanes), at.level, turn, window)
        for i, (lane, turn, window) in enumerate(cells)
    ]


def place_of(race: Race, ended: Sequence[Ended]) -> Place | None:
    """The rounds over again from the first cell on, up to what is not measured yet."""
    alive = {lane: Bracket(-1, len(race.axis.levels)) for lane in first_lanes(race)}
    for turn in range(race.most_rounds):
        left = rounds_left(race, alive)
        if left == 0:
            break
        before = [e for e in ended if e.repeat < turn]
        seconds = round_seconds(race, before, turn, left)
        alive, window, each = _that_fit(race, alive, seconds, before)
        if window is None:
            break
        mine = [e for e in ended if e.repeat == turn]
        order = sorted(alive, reverse=turn % 2 == 1)  # the server runs with the last one
        for place, lane in enumerate(order):
            if (level := _next_level(race, lane, alive, mine, each)) is not None:
                return Place(turn, lane, level, window, each * (len(order) - place) - 1, len(order), left - 1)
        alive = narrowed(race, alive, before, mine)
    return _place_of_pair(race, ended)


def first_lanes(race: Race) -> tuple[int, ...]:
    """All lanes; or so many as half the time is enough for, spread over the grid, the present setting among them."""
    lanes = len(race.lanes)
    middle = (len(race.axis.levels) - 1) // 2
    room = int(FIRST * race.budget_s // (race.cell_s(race.shortest_s(middle), []) + race.start_s([])))
    if room >= lanes:
        return tuple(range(lanes))
    room = max(2, room)
    return tuple(sorted({round(i * (lanes - 1) / (room - 1)) for i in range(room)}))


def rounds_left(race: Race, alive: Mapping[int, Bracket]) -> int:
    """So many halvings are left: of the widest bracket, and of the lanes down to the finalists."""
    widest = max((b.above - b.below for b in alive.values()), default=1)
    by_lanes = math.ceil(math.log2(max(1.0, len(alive) / FINALISTS)))
    return max(math.ceil(math.log2(max(1, widest))), by_lanes)


def round_seconds(race: Race, before: Sequence[Ended], turn: int, left: int) -> float:
    """The time of one round: an equal part of what the rounds have; of the first one up to half of all."""
    pair = 2 * (race.cell_s(race.config.run.duration_s, before) + race.start_s(before))
    reserve = min(RESERVE * race.budget_s, PAIRS * pair)
    part = (race.budget_s - reserve - race.used_s(before)) / left
    return max(part, FIRST * race.budget_s) if turn == 0 else part


def _cells_a_start(race: Race, before: Sequence[Ended], alive: Mapping[int, Bracket]) -> int:
    """Two loads in a row where a start takes longer than half a cell, and where there are two to try."""
    slow = race.start_s(before) > 0.5 * race.cell_s(race.config.run.duration_s, before)
    wide = max(b.above - b.below for b in alive.values()) > 2
    return 2 if slow and wide else 1


def _that_fit(
    race: Race, alive: Mapping[int, Bracket], seconds: float, before: Sequence[Ended]
) -> tuple[dict[int, Bracket], float | None, int]:
    """The first of `alive`, best first, for which there is time, their window, and cells a start; window null when
    there is not even time for one. Rather one load for all than two for some.
    """
    level = min(_level(b, alive) for b in alive.values())
    each = _cells_a_start(race, before, alive)
    for count, cells in [(len(alive), each), *((n, 1) for n in range(len(alive), 0, -1))]:
        window = race.window_s(count, seconds, before, level, cells)
        if window is not None:
            return dict(list(alive.items())[:count]), window, cells
    return dict(alive), None, 1


def _level(bracket: Bracket, alive: Mapping[int, Bracket]) -> int:
    """Where a lane is measured next: the middle of what is open, else the highest load that any keeps."""
    if bracket.open:
        return (bracket.below + bracket.above) // 2
    return max(0, *(b.below for b in alive.values()))


def _next_level(race: Race, lane: int, alive: Mapping[int, Bracket], mine: Sequence[Ended], each: int) -> int | None:
    """The level of the lane's next cell in this turn; null when it has had its cells."""
    seen, bracket = [e for e in mine if race.lane_of(e) == lane], alive[lane]
    for e in seen:
        bracket = bracket.after(race.level_of(e), race.standings([e])[0].keeps)
    if not seen or (len(seen) < each and bracket.open):
        return _level(bracket, alive)
    return None


def _goes_up(found: Mapping[tuple[int, int], Standing], lane: int, level: int, bracket: Bracket) -> bool:
    """Whether a higher level is of interest: the targets are kept here or, of a lane that keeps them nowhere, there is
    more goodput here than at the level below."""
    here, below = found[lane, level], found.get((lane, bracket.below))
    climbs = below is not None and not below.keeps and not here.lost and here.goodput_per_s > below.goodput_per_s
    return here.keeps or climbs


def _most_goodput(found: Mapping[tuple[int, int], Standing], lane: int, levels: int) -> Bracket:
    """Of a lane that keeps its targets nowhere: its best level, from which it may climb."""
    best = max((s for (n, _), s in found.items() if n == lane), key=lambda s: (s.score, -s.level))
    seen = {level for n, level in found if n == lane}
    return Bracket(best.level, min((n for n in seen if n > best.level), default=levels))


def kept_up_to(found: Iterable[Standing], top: Standing) -> float:
    """The share that a lane kept at this level and at all below: what one short cell says of it is little."""
    mine = [s for s in found if s.lane == top.lane and s.level <= top.level]
    return sum(s.met for s in mine) / max(1, sum(s.judged for s in mine))


def narrowed(
    race: Race, alive: Mapping[int, Bracket], before: Sequence[Ended], mine: Sequence[Ended]
) -> dict[int, Bracket]:
    """After a round: the lanes that go on, best first, with what is known of each."""
    found = {(s.lane, s.level): s for s in race.standings([*before, *mine])}
    after: dict[int, Bracket] = {}
    for lane, bracket in alive.items():
        for level in sorted({race.level_of(e) for e in mine if race.lane_of(e) == lane}):
            bracket = bracket.after(level, _goes_up(found, lane, level, bracket))
        after[lane] = bracket
    able = after
    if any(s.keeps for s in found.values()):
        top = max(0, *(b.below for b in after.values()))
        sure = {lane for (lane, level), s in found.items() if level == top and s.sure >= GOES_ON}
        able = {lane: b for lane, b in after.items() if b.above > top or lane in sure}
    elif all(b.above <= 0 for b in after.values()):
        able = {lane: _most_goodput(found, lane, len(race.axis.levels)) for lane in after}
    working = [lane for lane in able if any(s.goodput_per_s > 0 for (n, _), s in found.items() if n == lane)]

    def rank(lane: int) -> tuple[float, ...]:
        own = max((s for (n, _), s in found.items() if n == lane), key=lambda s: (s.keeps, s.score))
        return (-own.level, -kept_up_to(found.values(), own), own.strain) if own.keeps else (1.0, -own.score, lane)

    keep = max(FINALISTS, math.ceil(len(alive) / 2))
    return {lane: able[lane] for lane in sorted(working, key=rank)[:keep]}


def contenders(race: Race, ended: Sequence[Ended]) -> list[Standing]:
    """Best first: everything measured; the level below one that a lane did not keep; and, where no target is kept by
    anybody, the level above the one with most goodput."""
    found = race.standings(ended)
    tried_enough = [s for s in found if pairs_of(race, ended, s) >= MOST_PAIRS and not _proven(race, ended, s)]
    out = list(found)
    for s in found:
        if s.sure < 0.5 and not s.keeps and s.goodput_per_s > 0:
            out += _foreseen(race, found, s, -1, FORESEEN)
    top = max(found, key=lambda s: s.score, default=None)
    if top and top.goodput_per_s > 0 and not any(s.keeps or s.sure >= GOES_ON for s in out):
        out += _foreseen(race, found, top, 1, 0.0)
    most = max((s.goodput_per_s for s in found), default=0.0) or 1.0
    best = {lane: max(s.goodput_per_s for s in found if s.lane == lane) for lane in {s.lane for s in found}}

    def merit(s: Standing) -> float:
        """Of what is as good as equal, the one that was begun with, and one that does well at other loads too."""
        begun = STICKY if pairs_of(race, ended, s) else 0.0
        kept = kept_up_to(found, s) if s.keeps else 1.0
        return s.score * kept * (1.0 + begun + STICKY * best[s.lane] / most)

    return sorted(out, key=lambda s: (s in tried_enough, -merit(s), s.lane))


def _foreseen(race: Race, found: Sequence[Standing], near: Standing, step: int, sure: float) -> list[Standing]:
    """The lane's next level, if it has one that was not measured: goodput as the load of it goes, up to a little more
    than is known."""
    level = near.level + step
    if not 0 <= level < len(race.axis.levels) or any((s.lane, s.level) == (near.lane, level) for s in found):
        return []
    part = min(1.05, race.axis.levels[level] / race.axis.levels[near.level])
    return [Standing(near.lane, level, False, False, sure, near.goodput_per_s * part, near.strain, 0)]


def pair_of(race: Race, ended: Sequence[Ended]) -> tuple[Standing, int | None] | None:
    """The contender to be verified, and the lane that it is held against: the present one, or the next best."""
    best = contenders(race, ended)
    if not best or best[0].goodput_per_s <= 0:
        return None
    winner = best[0]
    others = [s.lane for s in best if s.lane != winner.lane and s.goodput_per_s > 0]
    rival = 0 if winner.lane != 0 else next(iter(others), None)
    seen = [s for s in best if (s.lane, s.level) == (rival, winner.level) and s.cells]
    if seen and seen[0].sure < OUT < winner.sure and pairs_of(race, ended, seen[0]):
        rival = None  # it has shown that it is no match here; the time is better spent on the winner alone
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
        if missing := [lane for lane in lanes if lane not in mine]:
            return Place(turn, missing[0], winner.level, window, len(missing) - 1, len(lanes), 0)
        turn += 1


def _pair_window(race: Race, before: Sequence[Ended], lanes: int, pairs: int, level: int) -> float | None:
    """For all pairs that are wanted, else for one; null when not even that fits."""
    seconds = race.budget_s - race.used_s(before)
    wanted = race.window_s(lanes * pairs, seconds, before, level)
    return wanted if wanted is not None else race.window_s(lanes, seconds, before, level)


def _proven(race: Race, ended: Sequence[Ended], winner: Standing) -> bool:
    """Whether the lower bound of every class's share reaches the target, or the share is plainly below it."""
    mine = [e for e in ended if (race.lane_of(e), race.level_of(e)) == (winner.lane, winner.level)]
    names = {name for e in mine for name in e.shares}
    bounds = [pool([e.shares[n] for e in mine if n in e.shares]).bounds or (0.0, 1.0) for n in names]
    alpha = race.config.run.share_target
    return all(low >= alpha for low, _ in bounds) or any(high < alpha for _, high in bounds)
