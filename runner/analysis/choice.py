"""Which setting to use, at which load, and why, in one plain sentence."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from runner.analysis.gaps import Bools
from runner.analysis.intervals import Share, paired_shares, paired_shares_p_value, pool
from runner.analysis.student import p_value, t95
from runner.config import SweepConfig

WORK_TOLERANCE = 0.05  # background work within 5 % counts as equal: it has no interval of its own
SAME_REQUESTS = 0.95  # of those of the larger side: fewer in common, and the two did not answer the same requests
MANY = 10_000  # degrees of freedom of a normal distribution
RequestKey = tuple[int, int, str]  # repeat, index in the trace, class: the same request in every setting

# id -> template; the clause about raw throughput is added with its own template
TEXTS = {
    "met": (
        "{setting} at {load}: {share} of the requests meet their targets (95 % interval {low} to {high}), "
        "{goodput:.2f} good requests per second{raw}."
    ),
    "unsure": (
        "Target missed everywhere by the lower bounds: {setting} at {load} has the most good requests per second "
        "({goodput:.2f}), but with {n} requests its share {share} may be anywhere from {low} to {high}, "
        "and {target} are wanted; measure longer{raw}."
    ),
    "missed": (
        "Target missed everywhere: the most good requests per second ({goodput:.2f}) come from {setting} at {load}, "
        "where {share} of the requests meet their targets (95 % interval {low} to {high}) and {target} are "
        "wanted{raw}."
    ),
    "overload": (
        "Target missed everywhere: every setting was overloaded at every load tried, so no figure here would last; the "
        "most good requests per second ({goodput:.2f}) came from {setting} at {load}. Lower the load{raw}."
    ),
    "doubtful": (
        "Not to be relied on: every measured cell has a doubt, see the warnings; the most good requests per second "
        "({goodput:.2f}) came from {setting} at {load}, where {share} of the requests met their targets{raw}."
    ),
    "raw_costs": (
        "; going by raw throughput would pick {raw_setting} at {raw_load}, with {more} more output tokens per second, "
        "where only {raw_share} meet them"
    ),
    "raw_same": "; it also has the most output tokens per second",
    "raw_overloaded": (
        "; going by raw throughput would pick {raw_setting} at {raw_load}, which is overloaded and does not last"
    ),
    "raw_unjudged": "; going by raw throughput would pick {raw_setting} at {raw_load}",
}

# id -> template of why nothing could be chosen
NO_CHOICE = {
    "nothing_measured": "No setting could be chosen: no cell was measured to its end.",
    "all_failed": (
        "No cell was measured to its end, so no setting could be chosen: {failed} of {cells} cells failed, {count} of "
        "them because {why}."
    ),
    "no_targets": "No setting could be chosen: no request of a class with targets fell into a measured window.",
    "no_slo": (
        "No class has targets, so there is no promise to choose by: give one slo = {{ ttft_ms = 1000, gap_ms = 150 }} "
        "in the sweep file. Most output tokens per second ({raw_tokens}) came from {raw_setting} at {raw_load}, "
        "whatever people had to wait for them."
    ),
}
WHY = {
    "out_of_memory": "the server ran out of memory",
    "exited": "the server ended by itself",
    "bad_command": "the server could not be started with this command",
    "port_in_use": "the server's port was taken",
    "not_ready": "the server did not become ready in time",
    "unreachable": "the server was not reachable",
    "connect": "the server was not reachable",
    "server_hung": "the server hung",
    "context_overflow": "a prompt did not fit the context",
    "model_not_found": "the server did not have the model",
    "unauthorized": "the server wanted another key",
    "timeout": "the server did not answer in time",
    "hook_failed": "the command that changes the server failed",
    "hook_timeout": "the command that changes the server took too long",
    "not_restarted": "the server was not started anew",
}
OTHER = "their requests ended as {}"


@dataclass(frozen=True)
class Failures:
    """Failed cells of a sweep, how many cells it has, and their most frequent kind."""

    failed: int
    cells: int
    kind: str
    count: int


@dataclass(frozen=True)
class Point:
    """One setting at one load, repeats pooled. `met_by_request`: 1 met, 0 missed, censored ones absent."""

    setting: dict[str, Any]
    load: dict[str, Any]
    cells: tuple[int, ...]
    valid: bool
    overload: bool
    shares: dict[str, Share]  # by interactive class
    goodput_per_s: float
    window_s: float
    work_per_s: float
    output_tok_per_s: float
    met_by_request: Mapping[RequestKey, bool]

    @property
    def share(self) -> Share:
        return pool(list(self.shares.values()))

    def qualifies(self, share_target: float) -> bool:
        """Every interactive class's lower bound reaches the target, in valid cells without overload."""
        bounds = [s.bounds for s in self.shares.values()]
        sure = all(b is not None and b[0] >= share_target for b in bounds)
        return self.valid and not self.overload and bool(bounds) and sure


def choose(points: Sequence[Point], config: SweepConfig, share_target: float) -> Point | None:
    """The rule: among points that qualify (or, if none does, all valid ones) the most goodput; of those within its
    noise the most background work; of those equal in that too, the smallest change from the first setting.
    An overloaded point, and after it a doubtful (invalid) one, is taken only if there is nothing else, and then never
    as one that meets the target. Null if no point has requests with targets.
    """
    candidates = [p for p in points if p.qualifies(share_target)]
    if not candidates:
        judged = [p for p in points if p.shares]
        return max(judged, key=lambda p: (p.valid, not p.overload, p.goodput_per_s, p.work_per_s), default=None)
    best = max(candidates, key=lambda p: (p.goodput_per_s, p.work_per_s))
    equal = [p for p in candidates if p is best or is_noise(best, p)]
    work = max(p.work_per_s for p in equal)
    equal = [p for p in equal if p.work_per_s >= (1 - WORK_TOLERANCE) * work]
    return min(equal, key=lambda p: (change(p.setting, config), -p.goodput_per_s))


def is_noise(a: Point, b: Point) -> bool:
    """True if the difference in goodput of two points lies within its 95 % interval.

    At the same load both met the same requests, so the difference is paired; else the two intervals are combined, as
    they are where a fixed number at once let the faster one answer more requests.
    """
    both = _same_requests(a, b)
    if both:
        _, low, high = paired_shares(_met(a, both), _met(b, both), max(a.share.deff, b.share.deff))
        return low <= 0.0 <= high
    return abs(a.goodput_per_s - b.goodput_per_s) <= math.hypot(_half_width(a), _half_width(b))


def difference_p(a: Point, b: Point) -> float:
    """Two-sided p value of "both have the same goodput": below .05 where `is_noise` is false."""
    both = _same_requests(a, b)
    if both:
        return paired_shares_p_value(_met(a, both), _met(b, both), max(a.share.deff, b.share.deff))
    error = math.hypot(_half_width(a), _half_width(b)) / t95(MANY)
    d = a.goodput_per_s - b.goodput_per_s
    return p_value(d / error, MANY) if error else float(d == 0)


def _same_requests(a: Point, b: Point) -> list[RequestKey]:
    """What both were asked at the same load, in order of arrival; nothing where that is only a part."""
    if a.load != b.load:
        return []
    both = sorted(a.met_by_request.keys() & b.met_by_request.keys())
    enough = len(both) >= SAME_REQUESTS * max(len(a.met_by_request), len(b.met_by_request))
    return both if enough else []


def _met(point: Point, keys: Sequence[RequestKey]) -> Bools:
    return np.array([point.met_by_request[k] for k in keys], dtype=bool)


def _half_width(point: Point) -> float:
    share = point.share
    low, high = share.bounds or (0.0, 1.0)
    return (high - low) / 2 * share.judged / point.window_s


def change(setting: Mapping[str, Any], config: SweepConfig) -> tuple[int, int]:
    """How far a setting is from the first one of the grid: keys that differ, then steps along the grid's lists."""
    steps = [values.index(setting[key]) for key, values in config.server_grid.items() if key in setting]
    return sum(1 for s in steps if s), sum(steps)


def choice_dict(
    points: Sequence[Point],
    chosen: Point | None,
    share_target: float,
    failures: Failures | None = None,
    *,
    has_targets: bool = True,
) -> dict[str, Any]:
    """The `choice` of the result object from all points and the one of `choose`. `has_targets`: any class has some.

    Without a chosen point only `reason` and the raw-throughput winner are told, the other keys are null.
    """
    raw = max(points, key=lambda p: p.output_tok_per_s, default=None)
    if chosen is None or raw is None:
        return _no_choice(raw, failures, has_targets)
    met = chosen.qualifies(share_target)
    low, high = chosen.share.bounds or (0.0, 1.0)
    values = {
        "setting": describe_setting(chosen.setting),
        "load": describe_load(chosen.load),
        "share": percent(chosen.share.value or 0.0),
        "low": percent(low),
        "high": percent(high),
        "n": chosen.share.judged,
        "goodput": chosen.goodput_per_s,
        "target": percent(share_target),
        **_raw_values(chosen, raw),
    }
    enough = all((s.value or 0.0) >= share_target for s in chosen.shares.values())
    template = "doubtful" if not chosen.valid else "overload" if chosen.overload else "unsure" if enough else "missed"
    template = "met" if met else template
    clause = _raw_template(chosen, raw)
    reason = TEXTS[template].format(**{**values, "raw": TEXTS[clause].format(**values)})
    return {
        "setting": chosen.setting,
        "request_rate": chosen.load.get("request_rate"),
        "reason": reason,
        "target_met": met,
        "raw_throughput_setting": raw.setting,
        "load": chosen.load,
        "cells": list(chosen.cells),
        "share": chosen.share.value,
        "share_low": low,
        "share_high": high,
        "goodput_per_s": chosen.goodput_per_s,
        "work_per_s": chosen.work_per_s,
        "raw_throughput_share": raw.share.value,
        "raw_throughput_goodput_per_s": raw.goodput_per_s,
        "raw_throughput_load": raw.load,
        "raw_throughput_cells": list(raw.cells),
        "reason_templates": [TEXTS[template], TEXTS[clause]],
        "reason_values": values,
    }


def _no_choice(raw: Point | None, failures: Failures | None, has_targets: bool) -> dict[str, Any]:
    template, values = "nothing_measured", dict[str, Any]()
    if raw:
        template = "no_targets" if has_targets else "no_slo"
        told = {"raw_setting": describe_setting(raw.setting), "raw_load": describe_load(raw.load)}
        values = {} if has_targets else {**told, "raw_tokens": f"{raw.output_tok_per_s:.1f}"}
    elif failures:
        template = "all_failed"
        values = asdict(failures) | {"why": WHY.get(failures.kind, OTHER.format(failures.kind))}
    unknown = dict.fromkeys(
        ("setting", "request_rate", "load", "share", "share_low", "share_high", "goodput_per_s", "work_per_s")
    )
    return {
        **unknown,
        "reason": NO_CHOICE[template].format(**values),
        "target_met": False,
        "raw_throughput_setting": raw.setting if raw else None,
        "cells": [],
        "raw_throughput_share": raw.share.value if raw else None,
        "raw_throughput_goodput_per_s": None,
        "raw_throughput_load": raw.load if raw else None,
        "raw_throughput_cells": list(raw.cells) if raw else [],
        "reason_templates": [NO_CHOICE[template]],
        "reason_values": values,
    }


def _raw_template(chosen: Point, raw: Point) -> str:
    if raw is chosen:
        return "raw_same"
    if (raw.share.value or 0.0) < (chosen.share.value or 0.0):
        return "raw_costs"
    return "raw_overloaded" if raw.overload and not chosen.overload else "raw_unjudged"


def _raw_values(chosen: Point, raw: Point) -> dict[str, Any]:
    gain = raw.output_tok_per_s / chosen.output_tok_per_s - 1.0 if chosen.output_tok_per_s else 0.0
    return {
        "raw_setting": describe_setting(raw.setting),
        "raw_load": describe_load(raw.load),
        "more": f"{gain:.0%}".replace("%", " %"),
        "raw_share": percent(raw.share.value or 0.0),
    }


def percent(share: float) -> str:
    """In percent as the pages show it: whole, but 99.7 % is never shown as all."""
    return f"{min(share, 0.999):.1%}".replace("%", " %") if 0.99 < share < 1 else f"{share:.0%}".replace("%", " %")


def describe_setting(setting: Mapping[str, Any]) -> str:
    """ "max_num_seqs 8, max_num_batched_tokens 512"; a sweep without server settings has one setting."""
    return ", ".join(f"{k} {v}" for k, v in setting.items()) or "the present setting"


def describe_load(load: Mapping[str, Any]) -> str:
    """ "2 requests/s", "8 at once", with any dispatcher-side cap behind."""
    words = {"request_rate": "{:g} requests/s", "load_scale": "load scale {:g}", "max_concurrency": "{:g} at once"}
    parts = [words[k].format(v) if k in words else f"{k} {v}" for k, v in load.items()]
    return ", ".join(parts) or "the load of the file"


def group_key(setting: Mapping[str, Any], load: Mapping[str, Any]) -> str:
    """The same for all repeats of one point."""
    return json.dumps([setting, load], sort_keys=True)
