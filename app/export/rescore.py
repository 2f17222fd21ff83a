"""A shared page scored again at other targets, from the counts its sliders move by. PURE.

The page's script does the same in a browser; here it is for pages that were imported.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from app.export.tallies import CUT, DIGITS, DONE
from runner.analysis.choice import Point, RequestKey, choice_dict, choose, group_key
from runner.analysis.frontier import frontier, is_valid
from runner.analysis.intervals import Share, design_effect, pool
from runner.analysis.result import failures_of
from runner.analysis.warnings import INVALIDATING
from runner.config import Slo, SweepConfig, is_load_key
from storage.errors import StorageError

_SHARES = ("goodput_per_s", "share", "share_low", "share_high", "met", "judged", "design_effect")
# of other targets than the page's own, and not to be had from counts
_UNKNOWN = ("goodput_per_s_low", "goodput_per_s_high", "on_frontier_probability", "rules")
_OF_ITS_TARGETS = ("max_rates", "isolation", "stalls")
Steps = list[tuple[int, int]]  # of each class: first-token step, gap step
_PLACE = {letter: place for place, letter in enumerate(DIGITS)}


def rescore_page(
    result: Mapping[str, Any],
    tallies: Mapping[str, Any],
    *,
    targets: Mapping[str, Slo] | None = None,
    share_target: float | None = None,
) -> dict[str, Any]:
    """The page's result at the nearest steps that are not above `targets` (by class; others keep their own), with these
    steps in its `targets`. The rule stays the page's. Raises StorageError for a damaged page."""
    try:
        return _rescored(result, tallies, targets or {}, share_target)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ZeroDivisionError) as e:
        raise StorageError(f"the page's counts are damaged ({type(e).__name__}); import it again") from None


def sound_tallies(told: object) -> dict[str, Any] | None:
    """The counts of a page that came from elsewhere, each number and text what it should be, so that they can go into
    a page again; null where they are not."""
    try:
        classes = [_sound_class(k) for k in told["classes"]]  # type: ignore[index]
        cells = {str(int(n)): _sound_cell(tally) for n, tally in told["cells"].items()}  # type: ignore[index]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError):
        return None
    return {"classes": classes, "cells": cells} if classes else None


def _sound_class(told: Mapping[str, Any]) -> dict[str, Any]:
    steps = {key: [_number(v) for v in told[key]] for key in ("ttft_steps_ms", "gap_steps_ms")}
    places = {key: int(told[key]) for key in ("ttft", "gap")}
    if not all(0 <= places[key] < len(steps[f"{key}_steps_ms"]) for key in places):
        raise ValueError("a target that is no step")
    return {"name": str(told["name"]), **steps, **places}


def _sound_cell(told: Mapping[str, Any]) -> dict[str, Any]:
    order = told["order"]
    if order is not None:
        if not set(order["kinds"]) <= set(DIGITS):
            raise ValueError("other digits")
        order = {"kinds": str(order["kinds"]), "requests": [[int(a), int(n)] for a, n in order["requests"]]}
    return {
        "window_s": _perhaps(told["window_s"]),
        "n_eff": [_perhaps(v) for v in told["n_eff"]],
        "crowd": [_number(v) for v in told.get("crowd") or [1.0] * len(told["n_eff"])],
        "rows": [[int(v) for v in (a, b, c, d, n)] for a, b, c, d, n in told["rows"]],
        "order": order,
        "lag_ms": _perhaps(told.get("lag_ms")),
    }


def _number(value: Any) -> float:  # noqa: ANN401  (any JSON value)
    if isinstance(value, bool | str) or not math.isfinite(value):
        raise ValueError("no number")
    return float(value)


def _perhaps(value: Any) -> float | None:  # noqa: ANN401  (any JSON value)
    return None if value is None else _number(value)


def _rescored(
    result: Mapping[str, Any], tallies: Mapping[str, Any], targets: Mapping[str, Slo], share_target: float | None
) -> dict[str, Any]:
    classes = tallies["classes"]
    steps = [_steps(k, targets.get(k["name"])) for k in classes]
    alpha = share_target or result.get("share_target") or 0.9
    windows = [c["window_s"] for c in tallies["cells"].values() if c["window_s"]]
    usual = statistics.median_high(windows) if windows else None
    lag_ms = max(10.0, 0.01 * min(k["ttft_steps_ms"][s[0]] for k, s in zip(classes, steps, strict=True)))
    rows, judged = [], {}
    for row in result["cells"]:
        tally = tallies["cells"].get(str(row["cell"]))
        if tally is None:
            rows.append({**row, "on_frontier": False})
            continue
        one = _Judged(row, tally, classes, steps, tally["window_s"] or usual)
        judged[row["cell"]] = one
        rows.append(one.row(lag_ms))
    on = frontier(rows)
    rows = [{**row, "on_frontier": row["cell"] in on} for row in rows]
    points = _points(rows, judged)
    chosen = choose(points, _order_of(rows), alpha)
    told = {
        k["name"]: {
            **(result.get("targets") or {}).get(k["name"], {}),
            "ttft_ms": k["ttft_steps_ms"][s[0]],
            "gap_ms": k["gap_steps_ms"][s[1]],
        }
        for k, s in zip(classes, steps, strict=True)
    }
    return {
        **{key: value for key, value in result.items() if key not in _OF_ITS_TARGETS},
        "targets": {**(result.get("targets") or {}), **told},
        "share_target": alpha,
        "cells": rows,
        "choice": {**choice_dict(points, chosen, alpha, failures_of(rows)), "start_line": _start_line(rows, chosen)},
    }


def _steps(steps: Mapping[str, Any], slo: Slo | None) -> tuple[int, int]:
    if slo is None:
        return steps["ttft"], steps["gap"]
    return _at_most(steps["ttft_steps_ms"], slo.ttft_ms), _at_most(steps["gap_steps_ms"], slo.gap_ms)


def _at_most(values: Sequence[float], wanted: float) -> int:
    return max(int(np.searchsorted(values, wanted, side="right")) - 1, 0)


class _Judged:
    """One cell at the chosen steps."""

    def __init__(
        self,
        row: Mapping[str, Any],
        tally: Mapping[str, Any],
        classes: Sequence[Mapping[str, Any]],
        steps: Steps,
        window_s: float | None,
    ) -> None:
        self._row, self._tally, self.window_s = row, tally, window_s
        self.names = [str(k["name"]) for k in classes]
        kinds = np.array(tally["rows"], dtype=np.int64).reshape(-1, 5)
        first, gap = (np.array([s[i] for s in steps])[kinds[:, 0]] for i in (0, 1))
        in_time = kinds[:, 2] <= first
        self._met = (kinds[:, 1] == DONE) & in_time & (kinds[:, 3] <= gap)
        self._known = ~((kinds[:, 1] == CUT) & in_time)
        self._kinds = kinds
        self._order = _unfold(tally["order"]) if tally["order"] else None

    def share(self, index: int | None) -> Share:
        """Of one class, or of all of them."""
        if self._order is not None:
            kind = self._order[0]
            chosen = self._known[kind] & (index is None or self._kinds[kind, 0] == index)
            met = self._met[kind[chosen]]
            return Share(int(met.sum()), len(met), design_effect(met, self._crowd(index)))
        if index is None:
            return pool([self.share(i) for i in range(len(self.names))])
        mine = self._known & (self._kinds[:, 0] == index)
        counts = self._kinds[:, 4]
        part = self._tally["n_eff"][index]
        return Share(int(counts[mine & self._met].sum()), int(counts[mine].sum()), 1.0 / part if part else 1.0)

    def _crowd(self, index: int | None) -> float:
        crowds = self._tally.get("crowd") or [1.0] * len(self.names)
        return float(crowds[index]) if index is not None else 1.0 + sum(float(c) - 1.0 for c in crowds)

    def met_by_request(self, repeat: int) -> dict[RequestKey, bool]:
        if self._order is None:
            return {}
        kind, numbers = self._order
        known = self._known[kind]
        names = [self.names[i] for i in self._kinds[kind[known], 0]]
        keys = zip([repeat] * len(names), numbers[known].tolist(), names, strict=True)
        return dict(zip(keys, self._met[kind[known]].tolist(), strict=True))

    def row(self, lag_ms: float) -> dict[str, Any]:
        """The cell's row at these steps; whether requests left late depends on the targets too."""
        flags = set(self._row.get("flags") or [])
        if self._tally.get("lag_ms") is not None:
            flags = flags - {"send_lag"} | ({"send_lag"} if self._tally["lag_ms"] > lag_ms else set())
        classes = dict(self._row.get("classes") or {})
        for index, name in enumerate(self.names):
            if name in classes:
                classes[name] = {**_forgotten(classes[name]), **_share_keys(self.share(index), self.window_s)}
        whole = _share_keys(self.share(None), self.window_s)
        return {**_forgotten(self._row), **whole, "classes": classes, "flags": sorted(flags)}


def _forgotten(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: None if key in _UNKNOWN else value for key, value in row.items()}


def _unfold(order: Mapping[str, Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(place among the kinds, request number) of each request, by arrival."""
    text = order["kinds"]
    kinds = [_PLACE[text[i]] * 64 + _PLACE[text[i + 1]] for i in range(0, len(text), 2)]
    numbers = [first + i for first, n in order["requests"] for i in range(min(n, len(kinds)))]
    if len(numbers) != len(kinds):
        raise ValueError("as many numbers as requests")
    return np.array(kinds, dtype=np.int64), np.array(numbers, dtype=np.int64)


def _share_keys(share: Share, window_s: float | None) -> dict[str, Any]:
    if not share.judged or not window_s:
        return dict.fromkeys(_SHARES)
    low, high = share.bounds or (0.0, 1.0)
    values = (share.met / window_s, share.value, low, high, share.met, share.judged, share.deff)
    return dict(zip(_SHARES, values, strict=True))


def _points(rows: Sequence[Mapping[str, Any]], judged: Mapping[int, _Judged]) -> list[Point]:
    """Repeats pooled, as runner.analysis.score does it."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["cell"] in judged and judged[row["cell"]].window_s and "only" not in row["load"]:
            groups.setdefault(group_key(row["setting"], row["load"]), []).append(row)
    return [_point(group, judged) for group in groups.values()]


def _point(group: Sequence[Mapping[str, Any]], judged: Mapping[int, _Judged]) -> Point:
    usable = [r for r in group if not (INVALIDATING - {"overload"}) & set(r["flags"])] or list(group)
    met: dict[RequestKey, bool] = {}
    shares: dict[str, list[Share]] = {}
    for row in usable:
        one = judged[row["cell"]]
        for index, name in enumerate(one.names):
            if (row["classes"].get(name) or {}).get("scheduled"):
                shares.setdefault(name, []).append(one.share(index))
        met |= one.met_by_request(row["repeat"])
    seconds = sum(judged[r["cell"]].window_s or 0.0 for r in usable)
    pooled = {name: pool(found) for name, found in shares.items()}
    names = judged[usable[0]["cell"]].names
    background = [c["output_tok_per_s"] or 0.0 for r in usable for n, c in r["classes"].items() if n not in names]
    return Point(
        setting=group[0]["setting"],
        load=group[0]["load"],
        cells=tuple(r["cell"] for r in usable),
        valid=any(is_valid({**r, "flags": set(r["flags"]) - {"overload"}}) for r in usable),
        overload=any("overload" in r["flags"] for r in group),
        shares=pooled,
        goodput_per_s=sum(s.met for s in pooled.values()) / seconds,
        window_s=seconds,
        work_per_s=sum(background) / len(usable),
        output_tok_per_s=sum(r["output_tok_per_s"] for r in usable) / len(usable),
        met_by_request=met,
    )


def _order_of(rows: Sequence[Mapping[str, Any]]) -> SweepConfig:
    """A config that only carries the order of the settings' values, in which ties are decided."""
    grid: dict[str, list[Any]] = {}
    for row in rows:
        for key, value in row["setting"].items():
            known = grid.setdefault(key, [])
            known += [value] if value not in known and not is_load_key(key) else []
    order = {key: tuple(values) for key, values in grid.items()}
    return SweepConfig.model_construct(None, **{"grid": order})  # type: ignore[arg-type]


def _start_line(rows: Sequence[Mapping[str, Any]], chosen: Point | None) -> str | None:
    lines = [r.get("start_line") for r in rows if chosen is not None and r["cell"] in chosen.cells]
    return next((str(line) for line in lines if line), None)
