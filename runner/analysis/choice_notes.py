"""What stands beside the choice, each as a plain sentence: who came next and whether the difference is noise, who would
win by another gap rule, and what each leaves to background work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.analysis.choice import WORK_TOLERANCE, Point, describe_load, describe_setting, difference_p, percent
from runner.analysis.intervals import holm
from runner.config import GapRule

SIGNIFICANT = 0.05

# id -> template; `values` hold the numbers, and the setting and load behind each name, for another language
NOTES = {
    "runner_up_noise": (
        "Next came {other} at {other_load} with {other_goodput} good requests per second; the difference is noise."
    ),
    "kept_by_change": (
        "{other} at {other_load} had {other_goodput} good requests per second, but the difference is noise: of "
        "equals, the setting nearest to the first one is taken."
    ),
    "kept_by_work": (
        "{other} at {other_load} had {other_goodput} good requests per second, but the difference is noise: of "
        "equals, the one that leaves more to background work is taken."
    ),
    "unproven": (
        "{other} at {other_load} kept {other_share} of its requests inside the targets, but that is not proven (95 % "
        "interval from {other_low}); measure longer."
    ),
    "other_rule": "By another gap rule ({rules}) the choice would be {other} at {other_load}.",
    "work": "To background work it leaves {work} output tokens per second.",
    "work_against_raw": (
        "To background work it leaves {work} output tokens per second; the most raw throughput, {other} at "
        "{other_load}, would leave {other_work}."
    ),
}


@dataclass(frozen=True)
class RunnerUp:
    """The best of the other points that keep the target; `p_adjusted`: Holm over all of them."""

    point: Point
    p_adjusted: float

    @property
    def noise(self) -> bool:
        return self.p_adjusted >= SIGNIFICANT


def runner_up(points: Sequence[Point], chosen: Point | None, share_target: float) -> RunnerUp | None:
    """Null when nothing was chosen, or when nothing else keeps the target."""
    others = [p for p in points if p is not chosen and p.qualifies(share_target)]
    if chosen is None or not chosen.qualifies(share_target) or not others:
        return None
    adjusted = holm([difference_p(chosen, p) for p in others])
    best = max(range(len(others)), key=lambda i: (others[i].goodput_per_s, others[i].work_per_s))
    return RunnerUp(others[best], adjusted[best])


def choice_notes(
    points: Sequence[Point], chosen: Point | None, share_target: float, by_rule: Mapping[GapRule, Point | None]
) -> dict[str, Any]:
    """The keys `runner_up` and `notes` of the choice. `by_rule`: what each gap rule would choose."""
    following = runner_up(points, chosen, share_target)
    notes: list[tuple[str, dict[str, Any]]] = []
    if chosen is not None:
        if following and following.noise:
            notes.append((_kept(chosen, following.point), _of(following.point)))
        if near := _unproven(points, chosen, share_target):
            notes.append(("unproven", near))
        notes += [("other_rule", values) for values in _other_rules(chosen, by_rule)]
        notes += _work(points, chosen)
    return {
        "runner_up": None if following is None else _as_dict(following),
        "notes": [
            {"type": kind, "text": NOTES[kind].format(**_written(values)), "template": NOTES[kind], "values": values}
            for kind, values in notes
        ],
    }


def _kept(chosen: Point, other: Point) -> str:
    if other.goodput_per_s <= chosen.goodput_per_s:
        return "runner_up_noise"
    return "kept_by_work" if other.work_per_s < (1 - WORK_TOLERANCE) * chosen.work_per_s else "kept_by_change"


def _unproven(points: Sequence[Point], chosen: Point, share_target: float) -> dict[str, Any] | None:
    """Where the choice misses the target: the point with the most goodput of those that kept it as far as was seen."""
    if chosen.qualifies(share_target) or not chosen.valid or _keeps(chosen, share_target):
        return None
    near = max((p for p in points if _keeps(p, share_target)), key=lambda p: p.goodput_per_s, default=None)
    if near is None:
        return None
    low = min(s.bounds[0] if s.bounds else 0.0 for s in near.shares.values())
    return {**_of(near), "other_share": percent(near.share.value or 0.0), "other_low": percent(low)}


def _keeps(point: Point, share_target: float) -> bool:
    """Every class does, by what was seen and without its interval."""
    seen = all((s.value or 0.0) >= share_target for s in point.shares.values())
    return point.valid and not point.overload and bool(point.shares) and seen


def _of(point: Point) -> dict[str, Any]:
    return {
        "other": describe_setting(point.setting),
        "other_setting": point.setting,
        "other_load": describe_load(point.load),
        "other_level": point.load,
        "other_goodput": point.goodput_per_s,
    }


def _written(values: Mapping[str, Any]) -> dict[str, Any]:
    digits = {"other_goodput": 2, "work": 1, "other_work": 1}
    return {k: f"{v:.{digits[k]}f}" if k in digits else v for k, v in values.items()}


def _as_dict(following: RunnerUp) -> dict[str, Any]:
    point = following.point
    return {
        "setting": point.setting,
        "load": point.load,
        "cells": list(point.cells),
        "goodput_per_s": point.goodput_per_s,
        "share": point.share.value,
        "work_per_s": point.work_per_s,
        "p_adjusted": following.p_adjusted,
        "noise": following.noise,
    }


def _other_rules(chosen: Point, by_rule: Mapping[GapRule, Point | None]) -> list[dict[str, Any]]:
    """Another setting and the rules that would take it; each setting once, at the load of its first rule."""
    found: dict[str, tuple[Point, list[str]]] = {}
    for rule, point in by_rule.items():
        if point is not None and point.setting != chosen.setting:
            found.setdefault(describe_setting(point.setting), (point, []))[1].append(rule)
    return [{**_of(point), "rules": ", ".join(rules)} for point, rules in found.values()]


def _work(points: Sequence[Point], chosen: Point) -> list[tuple[str, dict[str, Any]]]:
    if not any(p.work_per_s for p in points):
        return []
    raw = max(points, key=lambda p: p.output_tok_per_s)
    if raw is chosen:
        return [("work", {"work": chosen.work_per_s})]
    return [("work_against_raw", {"work": chosen.work_per_s, **_of(raw), "other_work": raw.work_per_s})]
