"""The `budget` of the result object: what the time was used for, how the winner stood, what more would buy. PURE."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from runner.analysis.choice import Point, describe_load, describe_setting, group_key, percent
from runner.analysis.intervals import paired_shares
from runner.config import Slo, SweepConfig
from runner.estimate import sweep_seconds
from runner.plan import plan_cells
from runner.search.ended import Ended, ended_cell
from runner.search.lanes import Lane
from runner.search.race import GLANCE, Race, race_of
from storage.records import CellRecord

INDICATIVE_S = 3600.0  # a result of less time is a hint, not a proof
MOST_MORE = 50  # pairs: a difference that needs more is none that anybody would notice

TEXTS = {
    "used": "{tried} of {settings} settings were tried in {used} of {budget}.",
    "indicative": "{tried} of {settings} settings were tried in {used} of {budget}: read the result as indicative.",
    "better": (
        "Verified at {load} (pairs: {pairs}): {setting} keeps the targets of {share} of the requests, {rival} of "
        "{rival_share} (difference {difference} points, 95 % interval {low} to {high})."
    ),
    "worse": (
        "Verified at {load} (pairs: {pairs}), and it is not the better one: {setting} keeps the targets of {share} of "
        "the requests, {rival} of {rival_share} (difference {difference} points, 95 % interval {low} to {high})."
    ),
    "noise": (
        "Held against each other at {load} (pairs: {pairs}), {setting} and {rival} differ by noise: {share} and "
        "{rival_share} of the requests kept their targets (difference {difference} points, 95 % interval {low} to "
        "{high})."
    ),
    "overloaded": (
        "Verified at {load} (pairs: {pairs}): {setting} keeps the targets of {share} of the requests, while {rival} is "
        "overloaded and keeps those of {rival_share}."
    ),
    "unverified": "No time was left to hold the winner against {rival}.",
    "not_yet": "The winner was not held against {rival}.",
    "nothing_met": "No request met its targets at any setting, so there was no winner to verify.",
    "alone": "There was no other setting to verify it against.",
    "more_pairs": "The {left} left would verify it {more} more times.",
    "to_verify": "About {needed} more would do that.",
    "to_tell": "About {needed} more would tell them apart, if the difference is as large as it seems.",
    "no_difference": "More time would hardly tell them apart: use whichever is simpler.",
    "enough": "More time is not needed for this answer.",
}


def budget_report(
    config: SweepConfig,
    cells: Sequence[Mapping[Any, Any]],
    rows: Sequence[Mapping[str, Any]],
    targets: Mapping[str, Slo],
    points: Sequence[Point],
    chosen: Point | None,
    *,
    simulated: bool,
) -> dict[str, Any] | None:
    """Null for a sweep without a budget. `cells`: the stored cells, which know their times; `rows`: their `cells[]`.

    `full_grid_s`: what every cell of the grid would have taken. `verification`: null without a chosen setting.
    """
    if config.run.budget is None:
        return None
    race, times = race_of(config), {int(c["cell"]): _record(c) for c in cells}
    ended = [ended_cell(row, targets, times.get(row["cell"]), simulated=simulated) for row in rows]
    used_s, start_s = race.used_s(ended), race.start_s(ended)
    left_s = max(0.0, race.budget_s - used_s)
    whole = config.model_copy(update={"run": config.run.model_copy(update={"budget": None, "drift_check": False})})
    tried = {race.lane_of(e) for e in ended}
    values: dict[str, Any] = {
        "tried": len(tried),
        "settings": len(race.lanes),
        "used": _minutes(used_s),
        "budget": _minutes(race.budget_s),
        "left": _minutes(left_s),
    }
    verification = _verification(race, ended, points, chosen) if chosen else None
    pair_s = 2 * (race.cell_s(config.run.duration_s, ended) + start_s)
    templates = ["indicative" if race.budget_s < INDICATIVE_S else "used"]
    if verification:
        more, words = _more(verification, left_s, pair_s)
        templates += more
        values |= words | _words(verification)
    return {
        "budget_s": race.budget_s,
        "used_s": used_s,
        "left_s": left_s,
        "full_grid_s": sweep_seconds(whole, plan_cells(whole), start_s),
        "settings": len(race.lanes),
        "tried": len(tried),
        "rounds": _rounds(race, ended),
        "verification": verification,
        "reason": " ".join(TEXTS[t].format(**values) for t in templates),
        "reason_templates": [TEXTS[t] for t in templates],
        "reason_values": values,
    }


def sound_points(
    points: Sequence[Point], config: SweepConfig, rows: Sequence[Mapping[str, Any]], window_s: Mapping[int, float]
) -> list[Point]:
    """The points of a search within a time, an overload that only a glance saw left out; others as they are. `window_s`
    by cell. A window of a few answers is too short to see a queue grow, and one such look would bar a point for good.
    """
    if config.run.budget is None:
        return list(points)
    long: dict[str, bool] = {}  # whether a point was overloaded in one of its longer windows
    for row in rows:
        if window_s.get(row["cell"], 0.0) >= GLANCE * config.run.duration_s:
            key = group_key(row["setting"], row["load"])
            long[key] = long.get(key, False) or "overload" in row["flags"]
    return [replace(p, overload=long.get(group_key(p.setting, p.load), p.overload)) for p in points]


def looked_at_enough(points: Sequence[Point], config: SweepConfig, alpha: float) -> list[Point]:
    """What may be chosen: of a search within a time no point that was only glanced at, unless it proves its target.

    The most goodput of many glances is luck.
    """
    if config.run.budget is None:
        return list(points)
    enough = [p for p in points if p.window_s >= config.run.duration_s or p.qualifies(alpha)]
    return enough or list(points)


def _record(cell: Mapping[Any, Any]) -> CellRecord:
    """Only its times."""
    start, opens, closes, end = (
        None if cell[n] is None or math.isnan(float(cell[n])) else int(cell[n])
        for n in ("started_unix_ns", "window_start_ns", "window_end_ns", "end_ns")
    )
    return CellRecord(
        int(cell["cell"]),
        "",
        "",
        int(cell["repeat"]),
        str(cell["status"]),
        started_unix_ns=start,
        window_start_ns=opens,
        window_end_ns=closes,
        end_ns=end,
    )


def _rounds(race: Race, ended: Sequence[Ended]) -> list[dict[str, Any]]:
    """One entry a round and, at their end, one a pair of the verification."""
    groups: dict[int, list[Ended]] = {}
    for e in ended:
        groups.setdefault(e.repeat, []).append(e)
    return [
        {
            "kind": "verify" if turn >= race.most_rounds else "round",
            "load": mine[0].load,
            "window_s": max(e.window_s for e in mine),
            "settings": [e.setting for e in mine],
            "cells": [e.cell for e in mine],
        }
        for turn, mine in sorted(groups.items())
    ]


def _verification(race: Race, ended: Sequence[Ended], points: Sequence[Point], chosen: Point) -> dict[str, Any] | None:
    winner = Lane.of(chosen.setting, chosen.load)
    rival = _rival(race, ended, points, chosen)
    lane = race.lanes[0] if winner != race.lanes[0] else Lane.of(rival.setting, rival.load) if rival else None
    told: dict[str, Any] = {
        "setting": chosen.setting,
        "against": lane.setting if lane else None,
        "load": chosen.load,
        "pairs": 0,
        "difference": None,
        "low": None,
        "high": None,
        "share": None,
        "share_against": None,
        "verdict": "unverified" if lane else "alone",
    }
    if not any(p.goodput_per_s > 0 for p in points):
        return {**told, "verdict": "nothing_met"}
    if rival is None or lane is None:
        return told
    both = sorted(chosen.met_by_request.keys() & rival.met_by_request.keys())
    repeats = {repeat for repeat, _, _ in both}
    pairs = sum(1 for repeat in repeats if repeat >= race.most_rounds)
    out = rival.overload and not chosen.overload  # the rounds that chose the winner are proof enough of that
    if not pairs and not (out and repeats):
        return told
    a, b = (np.array([p.met_by_request[k] for k in both], dtype=bool) for p in (chosen, rival))
    mean, low, high = paired_shares(a, b, max(chosen.share.deff, rival.share.deff))
    verdict = "better" if low > 0 else "worse" if high < 0 else "noise"
    if out and mean >= 0:  # of two that kept the same share only one can go on like that
        verdict, pairs = "overloaded", len(repeats)
    told |= {"share": float(a.mean()), "share_against": float(b.mean())}
    return {**told, "pairs": pairs, "difference": mean, "low": low, "high": high, "verdict": verdict}


def _rival(race: Race, ended: Sequence[Ended], points: Sequence[Point], chosen: Point) -> Point | None:
    """The present setting at the load of the winner; for the present setting, whom it was verified against."""
    others = [p for p in points if p.setting != chosen.setting and _level(race, p) == _level(race, chosen)]
    first = [p for p in others if Lane.of(p.setting, p.load) == race.lanes[0]]
    if Lane.of(chosen.setting, chosen.load) != race.lanes[0]:
        return next(iter(first), None)
    verified = {e.cell for e in ended if e.repeat >= race.most_rounds}
    return max(others, key=lambda p: len(verified & set(p.cells)), default=None)


def _level(race: Race, point: Point) -> object:
    return point.load.get(race.axis.key)


def _more(verification: Mapping[str, Any], left_s: float, pair_s: float) -> tuple[list[str], dict[str, Any]]:
    """Templates and values: how it stands, and what more time would buy."""
    verdict, pairs = str(verification["verdict"]), verification["pairs"]
    more = int(left_s // pair_s)
    if verdict in ("nothing_met", "alone"):
        return [verdict], {}
    if verdict in ("better", "worse", "overloaded"):
        return ([verdict, "more_pairs"], {"more": more}) if more else ([verdict, "enough"], {})
    if verdict == "unverified":  # a search that was stopped has time left
        return ["not_yet" if more else verdict, "to_verify"], {"needed": _minutes(2 * pair_s)}
    mean = abs(verification["difference"])
    half = (verification["high"] - verification["low"]) / 2
    needed = math.ceil(pairs * ((half / mean) ** 2 - 1)) if mean > 0 else MOST_MORE + 1
    if needed > MOST_MORE:
        return [verdict, "no_difference"], {}
    return [verdict, "to_tell"], {"needed": _minutes(max(1, needed) * pair_s)}


def _words(verification: Mapping[str, Any]) -> dict[str, Any]:
    against = verification["against"]
    points = {k: verification[k] for k in ("difference", "low", "high")}
    shares = {"share": verification["share"], "rival_share": verification["share_against"]}
    return {
        "setting": describe_setting(verification["setting"]),
        "rival": describe_setting(against) if against is not None else "",
        "load": describe_load(verification["load"]),
        "pairs": verification["pairs"],
        **{k: "" if v is None else percent(v) for k, v in shares.items()},
        **{k: "" if v is None else f"{100 * v:+.1f}" for k, v in points.items()},
    }


def _minutes(seconds: float) -> str:
    """40 s, 12 min, 1 h 20 min."""
    if seconds < 90:
        return f"{max(0, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
