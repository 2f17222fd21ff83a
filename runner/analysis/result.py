"""One sweep's tables -> the result object that the command line prints and the pages show."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from runner.analysis.bound import bounds_of_settings
from runner.analysis.choice import Failures, Point, choice_dict, choose
from runner.analysis.choice_notes import choice_notes
from runner.analysis.drift import Change, drift_alone, drift_of
from runner.analysis.frontier import frontier
from runner.analysis.goodput import RULES, Judged, judge, stalled_but_fine_on_average
from runner.analysis.isolation import isolation_of
from runner.analysis.prepare import Prepared, prepare
from runner.analysis.score import frontier_probabilities, points_by_rule, score_cells, verdicts_of
from runner.analysis.warnings import MeasurementWarning
from runner.config import GapRule, Slo, SweepConfig
from runner.engines.start_line import suggested_line
from runner.search.max_rates import max_rates
from runner.search.report import budget_report, looked_at_enough, sound_points
from storage.tables import SweepTables


def build_result(
    tables: SweepTables,
    *,
    targets: Mapping[str, Slo] | None = None,
    rule: GapRule | None = None,
    share_target: float | None = None,
    status: str | None = None,
) -> dict[str, Any]:
    """`score(prepare(tables), …)` in one call."""
    return score(prepare(tables), targets=targets, rule=rule, share_target=share_target, status=status)


def score(
    prepared: Prepared,
    *,
    targets: Mapping[str, Slo] | None = None,
    rule: GapRule | None = None,
    share_target: float | None = None,
    status: str | None = None,
) -> dict[str, Any]:
    """The result object, strict-JSON-able. `targets` by class name replace those of the config (a class left out is
    background); `rule` replaces the rule of every class; `status` that which follows from the cells.
    """
    wanted = targets_of(prepared.config) if targets is None else dict(targets)
    alpha = prepared.config.run.share_target if share_target is None else share_target
    judged = judge(prepared.requests, wanted)
    rows, _ = score_cells(prepared, wanted, judged, rule)
    on_frontier = frontier(rows)
    likely = frontier_probabilities(prepared, rows, wanted, judged, rule)
    for row in rows:
        row |= {"on_frontier": row["cell"] in on_frontier, "on_frontier_probability": likely.get(row["cell"])}
    meta = prepared.tables.meta
    common = rule or common_rule(wanted)
    windows = {facts.cell: facts.window_s or 0.0 for facts in prepared.cells}

    judgements: tuple[GapRule | None, ...] = (rule, *RULES)
    by_judgement = points_by_rule(prepared, rows, wanted, {by: verdicts_of(prepared, judged, by) for by in judgements})

    def sound(points: Sequence[Point]) -> list[Point]:
        return sound_points(points, prepared.config, rows, windows)

    def picked(points: Sequence[Point]) -> Point | None:
        return choose(looked_at_enough(points, prepared.config, alpha), prepared.config, alpha)

    points = sound(by_judgement[rule])
    chosen = picked(points)
    by_rule = {
        name: chosen
        if name == common or by_judgement[name] == by_judgement[rule]
        else picked(sound(by_judgement[name]))
        for name in RULES
    }
    drift, changes = drift_of(prepared, wanted, judged, rule)
    result = {
        "sweep_id": meta["sweep_id"],
        "name": meta["name"],
        "status": status or _status(prepared),
        "simulated": bool(meta["simulated"]),
        "backend": meta["backend"],
        "environment": meta["environment"],
        "targets": {name: slo.model_dump(mode="json") for name, slo in wanted.items()},
        "rule": common,
        "share_target": alpha,
        "cells": rows,
        "bounds": bounds_of_settings(rows),
        "choice": {
            **choice_dict(points, chosen, alpha, failures_of(rows), has_targets=bool(wanted)),
            **choice_notes(points, chosen, alpha, by_rule),
            "start_line": _start_line(meta["backend"], rows, chosen),
        },
        "max_rates": max_rates(prepared.config, rows, wanted, alpha),
        "budget": budget_report(
            prepared.config,
            prepared.tables.cells.to_dict("records"),
            rows,
            wanted,
            points,
            chosen,
            simulated=bool(meta["simulated"]),
        ),
        "drift": drift,
        "warnings": [w.as_dict() for w in _sweep_warnings(prepared, judged, chosen, by_rule, changes)],
    }
    isolation = isolation_of(prepared, points, list(wanted), alpha)
    return dict(plain({**result, "isolation": isolation} if isolation else result))


def _start_line(backend: Mapping[str, Any], rows: list[dict[str, Any]], chosen: Point | None) -> str | None:
    """The chosen setting ready to paste: the command that ran, else how a server of this kind is given it."""
    if chosen is None:
        return None
    ran = [row["start_line"] for row in rows if row["cell"] in chosen.cells and row.get("start_line")]
    return ran[0] if ran else suggested_line(backend, chosen.setting)


def cell_row(
    tables: SweepTables, cell: int, *, targets: Mapping[str, Slo] | None = None, rule: GapRule | None = None
) -> dict[str, Any]:
    """The `cells[]` row of one cell, from tables that hold at least that cell; on_frontier is null (needs the others).

    Raises KeyError for a cell that the tables do not have.
    """
    if not (tables.cells["cell"] == cell).any():
        raise KeyError(f"no cell {cell}")
    one = SweepTables(
        meta=tables.meta,
        cells=tables.cells[tables.cells["cell"] == cell],
        requests=tables.requests[tables.requests["cell"] == cell],
        engine=tables.engine[tables.engine["cell"] == cell],
        client=tables.client[tables.client["cell"] == cell],
    )
    prepared = prepare(one, only=cell)
    again = prepared.drift is not None and prepared.drift.cell == cell
    prepared = drift_alone(prepared) if again else prepared
    wanted = targets_of(prepared.config) if targets is None else dict(targets)
    rows, _ = score_cells(prepared, wanted, judge(prepared.requests, wanted), rule)
    found = next(row for row in rows if row["cell"] == cell)
    return dict(plain({**found, "drift": True} if again else found))


def targets_of(config: SweepConfig) -> dict[str, Slo]:
    """Targets by class name, as the sweep was configured. Classes without are background."""
    return {c.name: c.slo for c in config.classes if c.slo is not None}


def failures_of(rows: Sequence[Mapping[str, Any]]) -> Failures | None:
    """Of the failed cells the most frequent kind, the first of equals; null when none failed."""
    kinds = Counter(str(row["error_kind"]) for row in rows if row["status"] == "failed")
    if not kinds:
        return None
    kind, count = kinds.most_common(1)[0]
    return Failures(kinds.total(), len(rows), kind, count)


def common_rule(targets: Mapping[str, Slo]) -> str | None:
    rules = {slo.rule for slo in targets.values()}
    return rules.pop() if len(rules) == 1 else None


def _status(prepared: Prepared) -> str:
    states = {facts.status for facts in prepared.cells}
    if states - {"ok", "failed", "skipped"}:
        return "interrupted"
    return "done" if "ok" in states else "failed"


def _sweep_warnings(
    prepared: Prepared,
    judged: Judged,
    chosen: Point | None,
    by_rule: Mapping[GapRule, Point | None],
    changes: Sequence[Change],
) -> list[MeasurementWarning]:
    out = []
    run = prepared.config.run
    usual = max(30.0, 0.1 * run.duration_s)
    if run.warmup < usual:
        out.append(MeasurementWarning("short_warmup", None, {"warmup_s": run.warmup, "usual_s": usual}))
    if any(c.differs for c in changes):
        told = ", ".join(c.text for c in changes if c.differs)
        out.append(MeasurementWarning("drift", None, {"changes": told}))
    settings = {name: point.setting for name, point in by_rule.items() if point is not None}
    differ = [name for name, setting in settings.items() if chosen is not None and setting != chosen.setting]
    if differ:
        out.append(MeasurementWarning("rule_sensitive", None, {"rules": ", ".join(differ)}))
    hidden = stalled_but_fine_on_average(prepared.requests, judged)
    chosen_from = np.isin(prepared.requests["cell"].to_numpy(dtype=np.int64), [f.cell for f in prepared.cells])
    count = int((hidden & chosen_from & prepared.requests["in_window"].to_numpy(dtype=bool)).sum())
    if count:
        out.append(MeasurementWarning("stalls_hidden", None, {"count": count}))
    return out


def plain(value: Any) -> Any:  # noqa: ANN401  (any JSON value)
    """numpy scalars to Python's, NaN and infinities to null, tuples to lists: what strict JSON can hold."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
