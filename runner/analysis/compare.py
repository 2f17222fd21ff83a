"""Before and after: two sweeps, point by point, and whether the second is worse by more than noise."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from runner.analysis.cell_warnings import OTHERS_SHARE
from runner.analysis.compare_texts import notes_of, reason_of
from runner.analysis.differences import PROMISES, Difference, adjust, class_shares, differences
from runner.analysis.drift import drift_of
from runner.analysis.goodput import judge
from runner.analysis.prepare import Prepared
from runner.analysis.result import common_rule, plain, targets_of
from runner.analysis.sides import Matched, Run, Spot, match, pair_runs, side_of
from runner.analysis.what_differs import what_differs
from runner.config import GapRule, Slo
from runner.errors import ConfigError

Json = dict[str, Any]


def compare(
    a: Sequence[Prepared],
    b: Sequence[Prepared],
    *,
    targets: Mapping[str, Slo] | None = None,
    rule: GapRule | None = None,
) -> Json:
    """The comparison object, strict-JSON-able. A side is one sweep, or several of the same thing measured in turns.

    `targets` by class name judge both sides: those of A's first sweep unless given, B's where A has none. Raises
    ConfigError for a side without a sweep.
    """
    if not a or not b:
        raise ConfigError("a comparison needs a sweep on each side")
    own = [targets_of(side[0].config) for side in (a, b)]
    wanted = dict(targets) if targets is not None else own[0] or own[1]
    sides = side_of(a, wanted, rule), side_of(b, wanted, rule)
    matched = match(*sides)
    unsteady = _unsteady((*a, *b), wanted, rule)
    points, found, failed = [], [], []
    for one, other in matched.pairs:
        point, measured = _point(one, other, list(wanted), unsteady)
        points.append(point)
        found.append(measured)
        failed.append(point["failed"])
    found = adjust(found, [p["paired"] for p in points])
    for point, measured in zip(points, found, strict=True):
        point["metrics"] = {d.metric: d.as_dict() for d in measured if d.class_name is None}
        point["classes"] = {d.class_name: {d.metric: d.as_dict()} for d in measured if d.class_name is not None}
        point["verdict"] = _verdict(measured, point["failed"])
    verdict, regression = _overall(found, failed)
    told = {
        "a": _named(a),
        "b": _named(b),
        "targets": {name: slo.model_dump(mode="json") for name, slo in wanted.items()},
        "rule": rule or common_rule(wanted),
        "differs": what_differs(a[0], b[0]),
        "matched_by": "load" if matched.ignored and not _kept(matched) else "setting_and_load",
        "ignored_setting_keys": list(matched.ignored),
        "points": points,
        "unmatched": {"a": _told(matched.left_a), "b": _told(matched.left_b)},
        "notes": notes_of(sides, matched, points, found, own[0] != own[1] and bool(own[1])),
        "verdict": verdict,
        "regression": regression,
        **reason_of(verdict, points, found),
    }
    return dict(plain(told))


def _named(side: Sequence[Prepared]) -> Json:
    keys = ("sweep_id", "name", "created_unix_ns", "simulated")
    return {"name": side[0].tables.meta["name"], "sweeps": [{k: p.tables.meta[k] for k in keys} for p in side]}


def _kept(matched: Matched) -> bool:
    return any(k not in matched.ignored for spot, _ in matched.pairs for k in spot.setting)


def _told(spots: Sequence[Spot]) -> list[Json]:
    return [{"setting": s.setting, "load": s.load} for s in spots]


def _point(a: Spot, b: Spot, names: list[str], unsteady: Mapping[str, float]) -> tuple[Json, list[Difference]]:
    """One matched point, its metrics still without what the other points make of their p values."""
    doubts = sorted({d for run in (*a.runs, *b.runs) for d in run.doubts} | _neighbours(a.runs, b.runs))
    point = {
        "setting_a": a.setting,
        "setting_b": b.setting,
        "load": a.load,
        "cells_a": [r.facts.cell for r in a.runs],
        "cells_b": [r.facts.cell for r in b.runs],
        "flags_a": _flags(a.runs),
        "flags_b": _flags(b.runs),
        "paired": False,
        "unpaired": None,
        "metrics": {},
        "classes": {},
        "failed": None,
        "doubts": doubts,
        "verdict": "cant_tell",
    }
    if not a.runs or not b.runs:
        one = a if not a.runs else b
        if a.runs or b.runs:
            point["failed"] = {"side": "a" if one is a else "b", "error_kind": one.failed}
        return point, []
    pairs, why = pair_runs(a, b, names)
    if pairs:
        point |= {"cells_a": [r.facts.cell for r, _ in pairs], "cells_b": [r.facts.cell for _, r in pairs]}
    asked = pairs, (a.runs, b.runs), names, unsteady
    measured = differences(*asked) + class_shares(*asked)
    if doubts:  # told, but nothing follows from them
        measured = [d.doubted() for d in measured]
    return {**point, "paired": bool(pairs), "unpaired": why}, measured


def _neighbours(a: Sequence[Run], b: Sequence[Run]) -> set[str]:
    """A doubt where other programs took more of the machine's processors on one side than on the other."""
    known = [
        [r.facts.base["others_share"] for r in side if r.facts.base["others_share"] is not None] for side in (a, b)
    ]
    apart = abs(fmean(known[0]) - fmean(known[1])) if all(known) else 0.0
    return {"machine_busy"} if apart >= OTHERS_SHARE else set()


def _flags(runs: Sequence[Run]) -> list[str]:
    return sorted({flag for run in runs for flag in run.flags})


def _unsteady(sweeps: Sequence[Prepared], targets: Mapping[str, Slo], rule: GapRule | None) -> dict[str, float]:
    """By metric, the largest part by which a sweep's own first cell had changed when it was measured again."""
    out: dict[str, float] = {}
    for prepared in sweeps:
        told, _ = drift_of(prepared, targets, judge(prepared.requests, targets), rule) if prepared.drift else (None, [])
        for metric, found in (told or {}).get("metrics", {}).items():
            part = abs(found["again"] - found["first"]) / found["first"] if found["first"] else 0.0
            names = ("share", "goodput_per_s") if metric == "share" else (metric,)
            names = ("ttft_p50_ms", "ttft_p95_ms") if metric == "ttft_p50_ms" else names
            out |= {name: max(part, out.get(name, 0.0)) for name in names}
    return out


def _verdict(measured: Sequence[Difference], failed: Json | None) -> str:
    """The promises decide where they differ; else the times and the throughput do."""
    if failed:
        return "worse" if failed["side"] == "b" else "better"
    for group in (True, False):
        words = {d.verdict for d in measured if (d.metric in PROMISES) == group}
        if words & {"better", "worse"}:
            return "mixed" if {"better", "worse"} <= words else "worse" if "worse" in words else "better"
    return "noise" if any(d.verdict == "noise" for d in measured) else "cant_tell"


def _overall(found: Sequence[Sequence[Difference]], failed: Sequence[Json | None]) -> tuple[str, bool]:
    """The verdict over all points, and whether a script should stop at it: a promise kept worse somewhere, a setting
    that fails now, or, where promises are kept alike, something worse and nothing better."""
    promises = {d.verdict for point in found for d in point if d.metric in PROMISES}
    promises |= {"worse" if f["side"] == "b" else "better" for f in failed if f}
    others = {d.verdict for point in found for d in point if d.metric not in PROMISES}
    for words in (promises, others):
        if {"better", "worse"} <= words:
            return "mixed", words is promises
        if "worse" in words:
            return "worse", True
        if "better" in words:
            return "better", False
    return "noise" if "noise" in promises | others else "cant_tell", False
