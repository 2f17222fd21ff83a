"""Background work beside chats: what each way to keep it apart gives the chats and costs the work, and which to take.

An arm is one way: chats alone, the background as it is, a cap of our dispatcher, the server's own priorities, both, or
a time window of its own. All arms have the same arrivals and lengths, so differences are paired.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from runner.analysis.choice import WORK_TOLERANCE, Point, RequestKey, percent
from runner.analysis.frontier import load_level
from runner.analysis.gaps import Floats
from runner.analysis.intervals import BATCHES, SMALLEST_BATCH, holm
from runner.analysis.isolation_missing import Missing, Way, missing_arms
from runner.analysis.isolation_texts import TEXTS
from runner.analysis.prepare import CellFacts, Prepared
from runner.analysis.requests import floats
from runner.analysis.student import p_value, t95
from runner.config import SweepConfig

NOISE = 0.05  # of a p value, adjusted for the number of arms
CAP, PRIORITY = "_max_in_flight", "_priority"
ORDER = ("alone", "as_is", "cap", "priority", "cap_priority", "setting", "window")
SIMPLEST_FIRST = ("cap", "priority", "cap_priority", "setting")
WINDOW = "a time window of its own"


@dataclass(frozen=True)
class Work:
    """What became of the background in one arm, repeats averaged. `makespan_s`: from its first arrival to the end of
    its last job; null unless it has an end. `projected`: some jobs were left, at the pace of those that ended."""

    jobs: int
    completed: int
    failed: int
    makespan_s: float | None
    projected: bool
    output_tok_per_s: float


@dataclass(frozen=True)
class Arm:
    """One way. `point` is null for the time window, whose chats are those of the arm `alone`."""

    kind: str  # alone | as_is | cap | priority | cap_priority | setting | window
    name: str
    cap: int | None
    point: Point
    work: Work | None

    @property
    def cost(self) -> float:
        """Of the background, to be small: seconds that it takes, else seconds a token."""
        if self.work is None:
            return 0.0
        if self.work.makespan_s is not None:
            return self.work.makespan_s
        return 1.0 / self.work.output_tok_per_s if self.work.output_tok_per_s else float("inf")


def isolation_of(
    prepared: Prepared, points: Sequence[Point], interactive: Sequence[str], share_target: float
) -> dict[str, Any] | None:
    """The `isolation` of the result object; null unless a class without targets was held back in different ways
    beside one with targets, and something of it was measured. `interactive`: classes with targets. With several load
    levels: at the largest. `unmeasured` are the arms of which nothing is known.
    """
    name = background_of(prepared.config, interactive)
    arms, missing = _arms(prepared, points, name) if name else ([], [])
    kinds = {arm.kind for arm in arms} | {m.kind for m in missing}
    if name is None or not arms or "as_is" not in kinds or len(kinds) < 2:
        return None
    as_is = as_is_of(arms)
    cells = [f for f in prepared.cells if as_is and f.cell in as_is.point.cells]
    differences = _differences(arms, as_is, _beside(prepared, cells, name)) if as_is else {}
    verdict, chosen = decide(arms, differences, share_target, missing)
    chats = [c for c in interactive if c in chosen.point.shares]
    values = _values(arms, chosen, name, chats, share_target) | {"why": _why(missing, as_is)}
    clause = _cost_template(chosen, as_is, verdict)
    cut = {f.cell for f in prepared.cells if f.base["error_kind"] == "hopeless"}
    return {
        "background": name,
        "interactive": list(chosen.point.shares),
        "load": {k: v for k, v in chosen.point.load.items() if k not in (name + CAP, name + PRIORITY)},
        "share_target": share_target,
        "arms": [_row(a, differences.get(a.name), share_target, not cut.isdisjoint(a.point.cells)) for a in arms],
        "unmeasured": [m.row() for m in missing],
        "verdict": verdict,
        "arm": chosen.name,
        "reason": TEXTS[verdict].format(**{**values, "costs": TEXTS[clause].format(**values)}),
        "reason_templates": [TEXTS[verdict], TEXTS[clause]],
        "reason_values": values,
    }


def _why(missing: Sequence[Missing], as_is: Arm | None) -> str:
    """Of the arm whose lack the verdict speaks of; empty where none is missing."""
    lacking = [m for m in missing if m.kind == "as_is"] if as_is is None else missing
    told = [m for m in lacking if m.kind != "alone"] or lacking
    return told[0].why if told else ""


def _differences(
    arms: Sequence[Arm], as_is: Arm, beside: Mapping[RequestKey, bool]
) -> dict[str, tuple[float, float, float, float]]:
    """Each arm against the background as it is, by name, p values adjusted for all; the window has those of `alone`.

    `beside`: of each request, whether the background was there as it is."""
    before = as_is.point.met_by_request
    found = {}
    for arm in arms:
        if arm.kind not in ("as_is", "window"):
            now = arm.point.met_by_request
            parts: dict[bool, list[float]] = {True: [], False: []}
            for key in sorted(now.keys() & before.keys()):
                parts[beside.get(key, False)].append(float(now[key]) - float(before[key]))
            found[arm.name] = difference_of([np.array(d, dtype=np.float64) for d in parts.values()])
    adjusted = holm([p for *_, p in found.values()])
    out = {name: (*pair[:3], p) for (name, pair), p in zip(found.items(), adjusted, strict=True)}
    return out | {arm.name: out["alone"] for arm in arms if arm.kind == "window"}


def _beside(prepared: Prepared, cells: Sequence[CellFacts], name: str) -> dict[RequestKey, bool]:
    """By request: scheduled before the last job of the background had ended."""
    out: dict[RequestKey, bool] = {}
    for f in cells:
        rows = prepared.requests.iloc[f.rows]
        mine = np.equal(rows["class_name"].to_numpy(dtype=object), name).astype(bool)
        last = float(np.nanmax(floats(rows["end_ns"])[mine], initial=-np.inf))
        keys = zip(rows["request"].tolist(), rows["class_name"].tolist(), rows["scheduled_ns"].tolist(), strict=True)
        out |= {(f.repeat, int(i), str(c)): at < last for i, c, at in keys}
    return out


def background_of(config: SweepConfig, interactive: Sequence[str]) -> str | None:
    """The class whose isolation a sweep looks at: the first without targets that the grid holds back in two ways, or
    holds back at all beside several policies."""
    for c in config.classes:
        caps = config.grid.get(c.name + CAP, ())
        lanes = len(config.grid.get("policy", (0,))) * len(config.grid.get(c.name + PRIORITY, (0,)))
        if c.name not in interactive and interactive and caps and len(caps) * lanes > 1:
            return c.name
    return None


def as_is_of(arms: Sequence[Arm]) -> Arm | None:
    """The background as it is; null where nothing of it was measured."""
    return next((arm for arm in arms if arm.kind == "as_is"), None)


def _arms(prepared: Prepared, points: Sequence[Point], name: str) -> tuple[list[Arm], list[Missing]]:
    """At the largest level of the other load axes, those without any way first, then by kind and cap; and the arms of
    that level of which nothing is known."""
    key = name + CAP
    ours = [p for p in points if key in p.load and p.shares]
    top = max((load_level(p.load) or 0.0 for p in ours), default=0.0)
    most = max(int(v) for v in prepared.config.grid[key])
    first = {k: values[0] for k, values in prepared.config.server_grid.items()}
    lanes = prepared.config.grid.get(name + PRIORITY, (0,))
    facts = {f.cell: f for f in prepared.cells}

    def way_of(place: Point | CellFacts) -> Way:
        if key not in place.load or (load_level(place.load) or 0.0) != top:
            return None, "", None
        cap = int(place.load[key])
        behind = place.load.get(name + PRIORITY, lanes[0]) != lanes[0]
        return *_kind(cap, most, place.setting, first, behind), cap if cap < most else None

    out: dict[str, Arm] = {}
    for p in ours:
        kind, label, cap = way_of(p)
        if kind is not None:
            work = _work(prepared, [facts[c] for c in p.cells], name) if cap != 0 else None
            out.setdefault(label, Arm(kind, label, cap, p, work))
    alone = next((arm for arm in out.values() if arm.kind == "alone"), None)
    lonely = [f for f in prepared.cells if f.load.get("only") == name]
    by_itself = [f for f in lonely if f.window_s]
    if alone and by_itself:
        out[WINDOW] = Arm("window", WINDOW, None, alone.point, _work(prepared, by_itself, name))
    beside = [f for f in prepared.cells if "only" not in f.load]
    missing = missing_arms(beside, way_of, out) if ours else []
    missing += missing_arms([f for f in lonely if not f.window_s], lambda f: ("window", WINDOW, None), out)
    return sorted(out.values(), key=_place), sorted(missing, key=_place)


def _place(arm: Arm | Missing) -> tuple[int, int]:
    return ORDER.index(arm.kind), arm.cap or 0


def _kind(
    cap: int, most: int, setting: Mapping[str, Any], first: Mapping[str, Any], behind: bool
) -> tuple[str | None, str]:
    """What an arm is, by what differs from the present setting, and its name. None for one that is of no interest:
    without background only the present setting is. `behind`: its jobs have a lower priority than at first."""
    differs = {k: v for k, v in setting.items() if v != first.get(k)}
    if cap == 0:
        return (None, "") if differs or behind else ("alone", "alone")
    priority = differs.get("policy") == "priority" or behind
    others = [f"{k} {v}" for k, v in differs.items() if not (priority and k == "policy")]
    parts = [*([f"cap {cap}"] if cap < most else []), *(["server priority"] if priority else []), *others]
    if not parts:
        return "as_is", "as it is"
    kind = "setting" if others else "_".join([*(["cap"] * (cap < most)), *(["priority"] * priority)])
    return kind, " + ".join(parts)


def _work(prepared: Prepared, cells: Sequence[CellFacts], name: str) -> Work:
    each = [_work_of(prepared, f, name) for f in cells]
    ends = [w.makespan_s for w in each]
    return Work(
        jobs=sum(w.jobs for w in each),
        completed=sum(w.completed for w in each),
        failed=sum(w.failed for w in each),
        makespan_s=None if None in ends else float(np.mean([e for e in ends if e is not None])),
        projected=any(w.projected for w in each),
        output_tok_per_s=float(np.mean([w.output_tok_per_s for w in each])),
    )


def _work_of(prepared: Prepared, facts: CellFacts, name: str) -> Work:
    rows = prepared.requests.iloc[facts.rows]
    rows = rows[np.equal(rows["class_name"].to_numpy(dtype=object), name).astype(bool)]
    done = rows["completed"].to_numpy(dtype=bool)
    lost = (rows["failed"] | rows["rejected"]).to_numpy(dtype=bool)
    finite = any(c.name == name and (c.dump or c.trace) for c in prepared.config.classes)
    makespan_s, left = None, len(rows) - int(done.sum()) - int(lost.sum())
    if finite and done.any():
        spent_ns = float(np.nanmax(floats(rows["end_ns"])[done | lost])) - float(floats(rows["scheduled_ns"]).min())
        makespan_s = spent_ns / 1e9 * len(rows) / (len(rows) - left)
    told = facts.classes.get(name, {}).get("output_tok_per_s")
    return Work(len(rows), int(done.sum()), int(lost.sum()), makespan_s, left > 0, float(told or 0.0))


def difference_of(parts: Sequence[Floats]) -> tuple[float, float, float, float]:
    """Mean of paired differences (-1, 0 or 1 a request) that come in parts of different means, its 95 % interval and
    p value. Each part is in order of arrival.

    A pile of jobs is there and then gone: taken together, batch means would call that step noise. Within each part the
    variance is that of batch means (where 50 requests allow), and at least 1/n^2: that none of n contradicts does not
    prove that none ever would (rule of three). Nothing in common is no knowledge: (0, -1, 1, 1).
    """
    known = [d for d in parts if len(d)]
    n = sum(map(len, known))
    if n < 2:
        return 0.0, -1.0, 1.0, 1.0
    mean, variance, freedom = 0.0, 0.0, n - len(known)
    for d in known:
        mean += float(d.sum()) / n
        if not d.any():
            continue
        own, size = float(d.var(ddof=1)) / len(d) if len(d) > 1 else 1.0, len(d) // BATCHES
        if size >= SMALLEST_BATCH:
            means = d[: size * BATCHES].reshape(BATCHES, size).mean(axis=1)
            own, freedom = max(own, float(np.var(means, ddof=1)) / BATCHES), min(freedom, BATCHES - 1)
        variance += max(own, len(d) ** -2.0) * (len(d) / n) ** 2
    error = math.sqrt(variance)
    half = t95(max(1, freedom)) * error
    p = p_value(mean / error, max(1, freedom)) if mean else 1.0
    return mean, max(-1.0, mean - half), min(1.0, mean + half), p


def decide(
    arms: Sequence[Arm],
    differences: Mapping[str, tuple[float, float, float, float]],
    share_target: float,
    missing: Sequence[Missing] = (),
) -> tuple[str, Arm]:
    """The verdict's id and the arm that it speaks of.

    Of the arms whose lower bounds reach the target the one that costs the background least; of those within 5 % the
    simplest. A time window of its own is taken only when nothing else does. Where nothing is known of the background
    as it is, the same order without what is said against it.
    """
    as_is, found = as_is_of(arms), {arm.kind: arm for arm in arms}
    if as_is and as_is.point.qualifies(share_target):
        return "nothing_needed", as_is
    tried = [arm for arm in arms if arm.kind in SIMPLEST_FIRST]
    best = _cheapest([arm for arm in tried if arm.point.qualifies(share_target)])
    alone, window = found.get("alone"), found.get("window")
    if as_is is None:
        return _decide_without(best, alone, window, tried, share_target)
    if best:
        return ("arm" if differences[best.name][3] < NOISE else "arm_noise"), best
    if alone and _upper(alone) < share_target:
        return "alone_misses", as_is
    if window and window.point.qualifies(share_target) and differences[window.name][3] < NOISE:
        return "window", window
    if missing and not tried and not window:
        return "only_as_is", as_is
    if all(d[3] >= NOISE for d in differences.values()):
        return "noise", as_is
    nearest = _nearest([*tried, *([window] if window else [])] or [as_is])
    return ("unsure" if _upper(nearest) >= share_target else "none_helps"), nearest


def _decide_without(
    best: Arm | None, alone: Arm | None, window: Arm | None, tried: Sequence[Arm], share_target: float
) -> tuple[str, Arm]:
    """`decide` where nothing is known of the background as it is. At least one of the arms is there."""
    if best:
        return "no_as_is_arm", best
    if alone and _upper(alone) < share_target:
        return "no_as_is_alone_misses", alone
    if window and window.point.qualifies(share_target):
        return "no_as_is_arm", window
    if alone and not tried and not window:
        return "no_as_is_alone", alone
    return "no_as_is_nearest", _nearest([*tried, *([window] if window else [])])


def _cheapest(sure: Sequence[Arm]) -> Arm | None:
    """Of those that cost the background least, within 5 %, the simplest."""
    least = min((arm.cost for arm in sure), default=0.0)
    equal = [arm for arm in sure if arm.cost <= least * (1 + WORK_TOLERANCE)]
    return min(equal, key=lambda arm: (SIMPLEST_FIRST.index(arm.kind), arm.cost), default=None)


def _nearest(arms: Sequence[Arm]) -> Arm:
    return max(arms, key=lambda arm: (arm.point.share.value or 0.0, -arm.cost))


def _upper(arm: Arm) -> float:
    return arm.point.share.bounds[1] if arm.point.share.bounds else 1.0


def _row(
    arm: Arm, difference: tuple[float, float, float, float] | None, share_target: float, cut: bool
) -> dict[str, Any]:
    share = arm.point.share
    low, high = share.bounds or (None, None)
    keys = ("difference", "difference_low", "difference_high", "difference_p")
    return {
        "arm": arm.name,
        "kind": arm.kind,
        "cap": arm.cap,
        "setting": arm.point.setting,
        "cells": list(arm.point.cells),
        "cut": cut,
        "share": share.value,
        "share_low": low,
        "share_high": high,
        "judged": share.judged,
        "classes": {name: found.value for name, found in arm.point.shares.items()},
        "goodput_per_s": arm.point.goodput_per_s,
        "meets_target": arm.point.qualifies(share_target),
        **dict(zip(keys, difference or (None,) * 4, strict=True)),
        "background": None if arm.work is None else asdict(arm.work),
    }


def _cost_template(chosen: Arm, as_is: Arm | None, verdict: str) -> str:
    if chosen.work is None or (as_is and as_is.work is None):
        return "costs_nothing"
    this = "_this" if chosen is as_is or as_is is None or verdict == "nothing_needed" else ""
    before = chosen.work if as_is is None else as_is.work
    if chosen.work.makespan_s is not None and before and before.makespan_s is not None:
        return f"takes{this}"
    ends = chosen.work.jobs and chosen.work.completed == 0
    return "never_ends" if ends else f"works{this}"


def _values(
    arms: Sequence[Arm], chosen: Arm, background: str, interactive: Sequence[str], share_target: float
) -> dict[str, Any]:
    as_is = as_is_of(arms)
    alone = next((arm for arm in arms if arm.kind == "alone"), None)
    low, high = chosen.point.share.bounds or (0.0, 1.0)
    now, before = chosen.work, as_is.work if as_is else chosen.work
    ends = bool(now and before and now.makespan_s is not None and before.makespan_s is not None)
    longest = max((w.makespan_s or 0.0 for w in (now, before) if w), default=0.0)
    return {
        "arm": chosen.name[:1].upper() + chosen.name[1:] if chosen.kind != "as_is" else chosen.name,
        "background": background,
        "chats": "/".join(interactive),
        "share": percent(chosen.point.share.value or 0.0),
        "was": percent(as_is.point.share.value or 0.0) if as_is else "",
        "alone": percent(alone.point.share.value or 0.0) if alone else "",
        "low": percent(low),
        "high": percent(high),
        "n": chosen.point.share.judged,
        "target": percent(share_target),
        "now": _amount(now, longest, ends),
        "before": _amount(before, longest, ends),
        "unit": "min" if longest >= 90 else "s",
    }


def _amount(work: Work | None, longest_s: float, ends: bool) -> str:
    """Minutes or seconds, with ~ where they are projected; else tokens a second."""
    if work is None:
        return ""
    if not ends or work.makespan_s is None:
        return f"{work.output_tok_per_s:.3g}"
    value = work.makespan_s / 60 if longest_s >= 90 else work.makespan_s
    return f"{'~' if work.projected else ''}{value:.1f}"
