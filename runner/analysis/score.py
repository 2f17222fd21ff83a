"""Prepared facts + targets -> rows with shares and goodput. Cheap: a slider may call it at every move."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, repeat
from typing import Any

import numpy as np

from runner.analysis.bootstrap import BLOCKS, counted, rate_interval, resampled
from runner.analysis.bound import bound_of
from runner.analysis.choice import Point, RequestKey, change, group_key
from runner.analysis.frontier import frontier_chances, is_valid
from runner.analysis.gaps import Bools
from runner.analysis.goodput import RULES, Judged, met_and_missed
from runner.analysis.intervals import Share, design_effect, pool
from runner.analysis.percentiles import nearest_rank, needs
from runner.analysis.prepare import CellFacts, Prepared, limits
from runner.analysis.warnings import CELL_FLAGS, INVALIDATING, MeasurementWarning
from runner.config import GapRule, Slo

Row = dict[str, Any]
FRONTIER_DRAWS = 400
REMEMBERED = 4096  # requests of a cell: the outcomes of larger ones are not kept

SHARE_KEYS = (
    "goodput_per_s", "goodput_per_s_low", "goodput_per_s_high", "share", "share_low", "share_high", "met", "judged",
    "design_effect",
)  # fmt: skip


@dataclass(frozen=True)
class Verdicts:
    """Per row of Prepared.requests: is it a met or missed request of the window (else censored or not counted)?"""

    met: Bools
    judged: Bools
    names: np.ndarray[Any, np.dtype[Any]]

    def share(self, chosen: Bools, crowd: float = 1.0) -> Share:
        """Of the chosen rows (booleans over the table), in order of arrival; `crowd`: their `crowd_effect`."""
        met = self.met[chosen & self.judged]
        deff = _design_effect(met.tobytes(), crowd) if 0 < len(met) <= REMEMBERED else design_effect(met, crowd)
        return Share(int(met.sum()), len(met), deff)

    def value(self, chosen: Bools) -> float | None:
        """The share of the chosen rows without its interval."""
        judged = int((chosen & self.judged).sum())
        return int((chosen & self.met & self.judged).sum()) / judged if judged else None


@lru_cache(maxsize=4096)
def _design_effect(met: bytes, crowd: float) -> float:
    """`design_effect` of outcomes: most cells keep theirs from one rule to the next, and when a target moves."""
    return design_effect(np.frombuffer(met, dtype=np.bool_), crowd)


@lru_cache(maxsize=4096)
def _rate_interval(slices: bytes, blocks: int, window_s: float) -> tuple[float, float]:
    return rate_interval(np.frombuffer(slices), blocks, window_s)


def verdicts_of(prepared: Prepared, judged: Judged, rule: GapRule | None) -> Verdicts:
    met, missed = met_and_missed(prepared.requests, judged, rule)
    window = prepared.requests["in_window"].to_numpy(dtype=bool)
    return Verdicts(met & window, (met | missed) & window, prepared.requests["class_name"].to_numpy(dtype=object))


def score_cells(
    prepared: Prepared, targets: Mapping[str, Slo], judged: Judged, rule: GapRule | None
) -> tuple[list[Row], list[MeasurementWarning]]:
    """One `cells[]` row a cell (on_frontier still null) and every warning about cells."""
    by_rule: dict[str, Verdicts] = {name: verdicts_of(prepared, judged, name) for name in RULES}
    own = by_rule[rule] if rule else verdicts_of(prepared, judged, None)
    classes = {c.name: np.equal(own.names, c.name).astype(bool) for c in prepared.config.classes}
    rows, warnings = [], []
    for facts in prepared.cells:
        row, found = _cell(facts, targets, own, by_rule, classes)
        row["change_from_first"] = list(change(facts.setting, prepared.config))
        rows.append(row)
        warnings += found
    return rows, warnings


def _cell(
    facts: CellFacts,
    targets: Mapping[str, Slo],
    own: Verdicts,
    by_rule: Mapping[str, Verdicts],
    rows_of: Mapping[str, Bools],
) -> tuple[Row, list[MeasurementWarning]]:
    part = Verdicts(own.met[facts.rows], own.judged[facts.rows], own.names[facts.rows])
    parts = {r: Verdicts(v.met[facts.rows], v.judged[facts.rows], part.names) for r, v in by_rule.items()}
    classes = {}
    for name, numbers in facts.classes.items():
        of_class = rows_of[name][facts.rows]
        share = part.share(of_class, facts.crowds.get(name, 1.0)) if name in targets else Share(0, 0)
        shares = {rule: v.value(of_class) if name in targets else None for rule, v in parts.items()}
        classes[name] = {**numbers, **_share_keys(share, facts, part.met & of_class), "rules": shares}
    everyone = np.isin(part.names.astype(str), list(targets))
    whole = part.share(everyone, crowd_of(facts, targets))
    warnings = [*facts.warnings, *_by_targets(facts, targets)] if facts.window_s else []
    flags = sorted({w.message_id for w in warnings} & CELL_FLAGS)
    row = {
        "cell": facts.cell,
        "setting": facts.setting,
        "load": facts.load,
        "request_rate": facts.load.get("request_rate"),
        "repeat": facts.repeat,
        "status": facts.status,
        **facts.base,
        **_share_keys(whole, facts, part.met & everyone),
        "classes": classes,
        "limit": limits(facts.setting),
        "send_lag_p99_ms": nearest_rank(facts.send_lags_ms, 0.99) if len(facts.send_lags_ms) else None,
        "bound": bound_of(facts.seen, flags) if facts.seen else None,
        "flags": flags,
        "warnings": [w.as_dict() for w in warnings],
        "on_frontier": None,
        "on_frontier_probability": None,
    }
    return row, warnings


def crowd_of(facts: CellFacts, names: Iterable[str]) -> float:
    """`crowd_effect` of several classes together: what exceeds 1 grows with the rate of arrivals, so it adds up."""
    return 1.0 + sum(facts.crowds.get(name, 1.0) - 1.0 for name in names)


def _share_keys(share: Share, facts: CellFacts, met: Bools) -> Row:
    """`judged` = scheduled in the window without the censored ones: what the share is of. `met`: over the cell's rows.

    The interval of goodput is null where the window is too short to tell (`needs` of the row says how long it must be).
    """
    if facts.window_s is None or not share.judged:
        return dict.fromkeys(SHARE_KEYS)
    low, high = share.bounds or (0.0, 1.0)
    rate = share.met / facts.window_s
    between: tuple[float | None, float | None] = (None, None)
    if facts.blocks and share.met:
        between = _rate_interval(counted(facts.slice_of, met).tobytes(), facts.blocks, facts.window_s)
    elif facts.blocks:  # without a single one nothing can be drawn anew: what the share leaves possible
        between = (0.0, high * share.judged / facts.window_s)
    return {
        "goodput_per_s": rate,
        "goodput_per_s_low": between[0],
        "goodput_per_s_high": between[1],
        "share": share.value,
        "share_low": low,
        "share_high": high,
        "met": share.met,
        "judged": share.judged,
        "design_effect": share.deff,
    }


def _by_targets(facts: CellFacts, targets: Mapping[str, Slo]) -> list[MeasurementWarning]:
    """Doubts whose limit depends on the targets. A cell of background work by itself has none of those to keep."""
    if "only" in facts.load:
        return []
    out = []
    allowed = max(10.0, 0.01 * min((s.ttft_ms for s in targets.values()), default=0.0))
    lags = facts.send_lags_ms
    # P99 over the limit, but of fewer than 100 requests one hiccup is not a busy client
    if int((lags > allowed).sum()) > max(1.0, 0.01 * len(lags)):
        values = {"send_lag_ms": nearest_rank(lags, 0.99), "allowed_ms": allowed}
        out.append(MeasurementWarning("send_lag", facts.cell, values))
    n = min((c["completed"] for name, c in facts.classes.items() if name in targets), default=facts.base["completed"])
    if n < needs(0.90):
        out.append(MeasurementWarning("low_n", facts.cell, {"n": n, "needs": needs(0.90)}))
    return out


def frontier_probabilities(
    prepared: Prepared, rows: list[Row], targets: Mapping[str, Slo], judged: Judged, rule: GapRule | None
) -> dict[int, float]:
    """By cell: in what part of the windows made anew, all cells from the same moments of their traces, none beats it.

    Only valid cells take part; one whose window is too short to tell has no number of its own.
    """
    own = verdicts_of(prepared, judged, rule)
    there = [f for f, row in zip(prepared.cells, rows, strict=True) if is_valid(row)]
    if not there:
        return {}
    blocks = min((f.blocks for f in there if f.blocks), default=BLOCKS[-1])
    per_s = np.array([1.0 / (f.window_s or 1.0) for f in there])[:, None]
    wanted = np.isin(own.names.astype(str), list(targets))
    met = np.array([counted(f.slice_of, (own.met & wanted)[f.rows]) for f in there])
    tokens = np.array([f.output_slices for f in there])
    chances = frontier_chances(*(resampled(series * per_s, blocks, FRONTIER_DRAWS) for series in (tokens, met)))
    return {f.cell: float(chance) for f, chance in zip(there, chances, strict=True) if f.blocks}


def points_of(
    prepared: Prepared, rows: list[Row], targets: Mapping[str, Slo], judged: Judged, rule: GapRule | None
) -> list[Point]:
    """`points_by_rule` of one rule."""
    return points_by_rule(prepared, rows, targets, {rule: verdicts_of(prepared, judged, rule)})[rule]


def points_by_rule(
    prepared: Prepared, rows: list[Row], targets: Mapping[str, Slo], by_rule: Mapping[GapRule | None, Verdicts]
) -> dict[GapRule | None, list[Point]]:
    """Repeats pooled: one point for each setting at each load that was measured at all. Rules that judge all requests
    of a point alike share it.

    An overloaded repeat makes the point overloaded; a repeat that is invalid for another reason is left out while a
    valid one exists.
    """
    groups: dict[str, list[tuple[CellFacts, Row]]] = {}
    for facts, row in zip(prepared.cells, rows, strict=True):
        if facts.window_s and "only" not in facts.load:  # nobody's promise was asked for there
            groups.setdefault(group_key(facts.setting, facts.load), []).append((facts, row))
    points: dict[GapRule | None, list[Point]] = {rule: [] for rule in by_rule}
    for group in groups.values():
        usable = [(f, r) for f, r in group if not (INVALIDATING - {"overload"}) & set(r["flags"])] or group
        known: dict[bytes, Point] = {}
        for rule, own in by_rule.items():
            told = b"".join(part[f.rows].tobytes() for f, _ in usable for part in (own.met, own.judged))
            if told not in known:
                known[told] = _point(group, usable, targets, own, prepared)
            points[rule].append(known[told])
    return points


def _point(
    group: list[tuple[CellFacts, Row]],
    usable: list[tuple[CellFacts, Row]],
    targets: Mapping[str, Slo],
    own: Verdicts,
    prepared: Prepared,
) -> Point:
    indices = prepared.requests["request"].to_numpy(dtype=np.int64)
    met: dict[RequestKey, bool] = {}
    by_class: dict[str, list[Share]] = {}
    for facts, _ in usable:
        part = Verdicts(own.met[facts.rows], own.judged[facts.rows], own.names[facts.rows])
        for name in targets:
            if facts.classes.get(name, {}).get("scheduled"):
                of_class = np.equal(part.names, name).astype(bool)
                by_class.setdefault(name, []).append(part.share(of_class, facts.crowds.get(name, 1.0)))
        keys = zip(repeat(facts.repeat), indices[facts.rows].tolist(), part.names.tolist())
        met.update(zip(compress(keys, part.judged.tolist()), part.met[part.judged].tolist(), strict=True))
    seconds = sum(f.window_s or 0.0 for f, _ in usable)
    shares = {name: pool(found) for name, found in by_class.items()}
    background = [c["output_tok_per_s"] for f, _ in usable for name, c in f.classes.items() if name not in targets]
    return Point(
        setting=group[0][0].setting,
        load=group[0][0].load,
        cells=tuple(f.cell for f, _ in usable),
        valid=any(is_valid({**r, "flags": set(r["flags"]) - {"overload"}}) for _, r in usable),
        overload=any("overload" in r["flags"] for _, r in group),
        shares=shares,
        goodput_per_s=sum(s.met for s in shares.values()) / seconds,
        window_s=seconds,
        work_per_s=sum(background) / len(usable),
        output_tok_per_s=sum(r["output_tok_per_s"] for _, r in usable) / len(usable),
        met_by_request=met,
    )
