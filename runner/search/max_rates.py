"""The `max_rates` of the result object: for each setting the largest load that keeps the targets. PURE."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from runner.analysis.choice import describe_load, describe_setting, percent
from runner.config import Slo, SweepConfig
from runner.search.ended import Ended, ended_cell
from runner.search.fit import RISE
from runner.search.lanes import Axis, Lane, axis_of, lanes_of
from runner.search.rate import bracket, fitted, lane_failed, level_of, of_lane

WIDE = 1.5  # upper by lower end of an interval that says little
SLOW = 0.10  # share lost when the load rises by half, below which it falls slowly

TEXTS = {
    "found": "{setting} keeps its targets up to {load} (95 % interval {low} to {high}, from {probes} probes).",
    "ill_defined": (
        "{setting} has no sharp limit: the share falls by only {fall} when the load rises by half, so the largest load "
        "that keeps {target} may lie anywhere from {low} to {high}. Set the targets so that they tell good from bad."
    ),
    "wide": (
        "{setting} keeps its targets up to about {load}, but {probes} probes leave anything from {low} to {high}; "
        "measure longer."
    ),
    "above": "{setting} still keeps its targets at {load}, the highest load tried; its limit lies above.",
    "below": "{setting} misses its targets even at {load}, the lowest load tried.",
    "failed": "{setting} could not be searched: {why}.",
    "empty": (
        "No request with targets fell into the windows of {setting} (probes: {probes}); measure longer, or begin at a "
        "higher load."
    ),
    "unknown": "{setting} was not searched yet.",
}
OURS = " The load generator itself was too slow at the loads that missed, so the server may bear more."


def max_rates(
    config: SweepConfig, rows: Sequence[Mapping[str, Any]], targets: Mapping[str, Slo], alpha: float
) -> list[dict[str, Any]] | None:
    """One entry for each setting (with its caps); null for a sweep that did not search for rates.

    `outcome`: a key of TEXTS. `load` and its interval `low` to `high` are on `axis`; `max_request_rate` is the same
    where the axis is request_rate. A bound that is not known is null.
    """
    if not config.run.find_rate:
        return None
    axis = axis_of(config)
    ended = [ended_cell(row, targets) for row in rows]
    return [of_lane_told(lane, of_lane(lane, ended), axis, alpha) for lane in lanes_of(config)]


def of_lane_told(lane: Lane, tried: Sequence[Ended], axis: Axis, alpha: float) -> dict[str, Any]:
    """The entry of one lane from its probes."""
    outcome, load, low, high, fall = _found(tried, axis, alpha)
    values = {
        "setting": ", ".join([describe_setting(lane.setting), *(f"{k} {v}" for k, v in lane.caps.items())]),
        "load": _words(axis, load if load is not None else high),
        "low": _words(axis, low),
        "high": _words(axis, high),
        "fall": percent(fall or 0.0),
        "target": percent(alpha),
        "probes": len(tried),
        "why": next((e.why for e in reversed(tried) if e.status == "failed"), "its probes were skipped"),
    }
    held, missed = bracket(tried, axis, alpha)
    first = min((m for m in missed if m > max(held, default=0.0)), default=math.inf)
    ours = [e.client_limited for e in tried if level_of(e, axis) == first]
    limited = outcome in ("found", "ill_defined", "wide", "below") and bool(ours) and all(ours)
    return {
        "setting": lane.setting,
        "caps": lane.caps,
        "axis": axis.key,
        "load": load,
        "max_request_rate": load if axis.key == "request_rate" else None,
        "low": low,
        "high": high,
        "outcome": outcome,
        "ill_defined": outcome == "ill_defined",
        "share_fall": fall,
        "rise": RISE,
        "probes": len(tried),
        "client_limited": limited,
        "reason": TEXTS[outcome].format(**values) + (OURS if limited else ""),
        "reason_templates": [TEXTS[outcome], *([OURS.strip()] if limited else [])],
        "reason_values": values,
    }


Found = tuple[str, float | None, float | None, float | None, float | None]  # outcome, load, low, high, fall


def _found(tried: Sequence[Ended], axis: Axis, alpha: float) -> Found:
    measured = any(e.status == "ok" for e in tried)
    tried = [e for e in tried if e.status != "ok" or e.shares]  # a window without requests says nothing of its load
    held, missed = bracket(tried, axis, alpha)
    fit = fitted(tried, axis, alpha)
    if lane_failed(tried) and not (held and missed):
        return "failed", None, max(held, default=None), None, None
    if fit is None or not (held or missed):
        return "empty" if measured else "unknown", None, None, None, None
    if not missed:
        return "above", max(held), max(held), None, None
    if not held:
        return "below", None, None, min(missed), None
    outcome = "found" if fit.spread <= WIDE else "ill_defined" if fit.fall < SLOW else "wide"
    if axis.whole:
        step = max((h for h in held if h < min(missed)), default=0.0)
        load = max(step, float(math.floor(fit.load)))
        return outcome, load, min(load, math.floor(fit.low)), max(load, math.floor(fit.high)), fit.fall
    load, low, high = (float(f"{v:.3g}") for v in (fit.load, fit.low, fit.high))
    return outcome, load, low, high, fit.fall


def _words(axis: Axis, load: float | None) -> str:
    return describe_load({axis.key: load}) if load is not None else "an unknown load"
