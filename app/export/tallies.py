"""Request counts on a grid of target steps, so that a browser can move targets and stay exact. PURE.

A slider stops at fixed steps only. For each request it is enough to know the first step that its first-token time and
its gaps still meet: requests of one kind (class, outcome, steps) fold into a count. Intervals and paired differences
need the order of arrival as well, so each request's kind is told too, in two letters, unless there are very many.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from app.views import cells as c
from app.views.percentiles import targets_of
from runner.analysis.intervals import wilson
from runner.analysis.requests import floats

TTFT_STEPS_MS = (
    50, 75, 100, 150, 200, 250, 300, 400, 500, 600, 800, 1000, 1250, 1500, 2000, 2500, 3000, 4000, 5000, 6000, 8000,
    10_000, 15_000, 20_000, 30_000, 60_000,
)  # fmt: skip
GAP_STEPS_MS = (
    5, 10, 15, 20, 25, 30, 40, 50, 60, 75, 100, 125, 150, 200, 250, 300, 400, 500, 600, 800, 1000, 1500, 2000, 3000,
)  # fmt: skip
# the number of a request that each rule holds against the gap target; other rules can't be moved after the fact
GAP_COLUMN = {"p99_gap": "gap_p99_ms", "mean_tpot": "tpot_ms", "every_gap": "gap_max_ms"}
DONE, LOST, CUT = 0, 1, 2  # completed; failed or rejected; cut by our own end of run
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
MOST_KINDS = len(DIGITS) ** 2
MOST_IN_ORDER = 100_000  # requests of all cells: 200 kB of page


def make_tallies(
    result: c.Result,
    requests: pd.DataFrame,
    windows_s: Mapping[int, float] | None = None,
    crowds: Mapping[int, Mapping[str, float]] | None = None,
) -> dict[str, Any] | None:
    """`requests`: analysis' request table. `crowds`: of each cell the crowd effect of its classes, without which
    intervals are those of the outcomes alone. None if no class has a rule that can be moved.

    {"classes": [{"name", "ttft_steps_ms", "gap_steps_ms", "ttft", "gap" (steps of the sweep's own targets)}],
     "cells": {cell: {"window_s", "n_eff": [share of n that counts, per class], "crowd": [crowd effect, per class],
                      "rows": [[class, outcome, ttft step, gap step, count], …],
                      "order": {"kinds": two DIGITS a request (its place in rows, base 64), by arrival,
                                "requests": [[first number, count], …] runs of request numbers} or null,
                      "lag_ms": send lag above which too few requests are to be called late, or null}}}
    """
    movable = {
        name: t
        for name, t in targets_of(result).items()
        if str(t.get("rule") or result.get("rule") or "p99_gap") in GAP_COLUMN
    }
    if not movable or len(movable) < len(targets_of(result)) or requests.empty:
        return None
    classes = [_class_steps(name, t) for name, t in movable.items()]
    rules = [GAP_COLUMN[str(t.get("rule") or result.get("rule") or "p99_gap")] for t in movable.values()]
    in_window = requests[requests["in_window"].to_numpy(dtype=bool)]
    by_cell = dict(tuple(in_window.groupby("cell")))
    told = int(in_window["class_name"].isin(list(movable)).sum()) <= MOST_IN_ORDER
    cells = {}
    for cell in c.measured(result):
        mine = by_cell.get(cell["cell"])
        if mine is not None:
            rows, of_request = _kinds(mine, classes, rules)
            cells[str(cell["cell"])] = {
                "window_s": (windows_s or {}).get(cell["cell"]) or _window_s(cell, classes, rows),
                "n_eff": [_effective_share(cell, k["name"]) for k in classes],
                "crowd": [float((crowds or {}).get(cell["cell"], {}).get(k["name"], 1.0)) for k in classes],
                "rows": rows,
                "order": _order(mine, of_request, len(rows)) if told else None,
                "lag_ms": _excused_lag_ms(mine),
            }
    return {"classes": classes, "cells": cells}


def _class_steps(name: str, target: Mapping[str, Any]) -> dict[str, Any]:
    ttft = sorted({*map(float, TTFT_STEPS_MS), float(target["ttft_ms"])})
    gap = sorted({*map(float, GAP_STEPS_MS), float(target["gap_ms"])})
    return {
        "name": name,
        "ttft_steps_ms": ttft,
        "gap_steps_ms": gap,
        "ttft": ttft.index(float(target["ttft_ms"])),
        "gap": gap.index(float(target["gap_ms"])),
    }


def _floats(rows: pd.DataFrame, column: str) -> npt.NDArray[np.float64]:
    return rows[column].to_numpy(dtype=np.float64, na_value=np.nan)


def _kinds(
    mine: pd.DataFrame, classes: Sequence[Mapping[str, Any]], rules: Sequence[str]
) -> tuple[list[list[int]], npt.NDArray[np.int64]]:
    """Counted kinds, and of each request of `mine` its place among them; -1 for a class without targets."""
    rows: list[list[int]] = []
    of_request = np.full(len(mine), -1, dtype=np.int64)
    for index, steps in enumerate(classes):
        here = (mine["class_name"] == steps["name"]).to_numpy(dtype=bool)
        kinds, place, counts = np.unique(
            _steps_met(mine[here], steps, rules[index]), axis=0, return_inverse=True, return_counts=True
        )
        of_request[here] = len(rows) + place.reshape(-1)
        rows += [[index, int(o), int(f), int(g), int(n)] for (o, f, g), n in zip(kinds, counts, strict=True)]
    return rows, of_request


def _steps_met(rows: pd.DataFrame, steps: Mapping[str, Any], gap_column: str) -> npt.NDArray[np.int64]:
    """One [outcome, first step met by the first token, first step met by the gaps] a request."""
    completed, cancelled = rows["completed"].to_numpy(dtype=bool), rows["cancelled"].to_numpy(dtype=bool)
    outcome = np.where(completed, DONE, np.where(cancelled, CUT, LOST))
    ttft = _floats(rows, "ttft_ms")
    # a request cut before its first token has waited at least this long
    ttft = np.where(np.isnan(ttft), _floats(rows, "waited_ms"), ttft)
    first = np.searchsorted(steps["ttft_steps_ms"], np.nan_to_num(ttft, nan=0.0))
    first = np.where(completed & np.isnan(_floats(rows, "ttft_ms")), len(steps["ttft_steps_ms"]), first)
    gaps = np.searchsorted(steps["gap_steps_ms"], np.nan_to_num(_floats(rows, gap_column), nan=0.0))
    first, gaps = np.where(outcome == LOST, 0, first), np.where(outcome == DONE, gaps, 0)
    return np.column_stack([outcome, first, gaps]).astype(np.int64)


def _order(mine: pd.DataFrame, of_request: npt.NDArray[np.int64], kinds: int) -> dict[str, Any] | None:
    """The requests with targets as they arrived; None where a table has no request numbers (it is not ours)."""
    if "request" not in mine or kinds > MOST_KINDS:
        return None
    chosen = of_request >= 0
    numbers = mine["request"].to_numpy(dtype=np.int64)[chosen]
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 2) != 1)
    lengths = np.diff(starts, append=len(numbers))
    return {
        "kinds": "".join(DIGITS[k // 64] + DIGITS[k % 64] for k in of_request[chosen].tolist()),
        "requests": [[int(numbers[s]), int(n)] for s, n in zip(starts, lengths, strict=True)],
    }


def _excused_lag_ms(mine: pd.DataFrame) -> float | None:
    """The largest send lag that is not one of the few that may be late anyway (one, or 1 % of the requests): a cell is
    to be doubted for late sends where this is above what its targets allow."""
    if "send_lag_ms" not in mine:
        return None
    free = ~(mine["closed"].to_numpy(dtype=bool) | mine["capped"].to_numpy(dtype=bool))
    lags = floats(mine["send_lag_ms"])[free]
    lags = np.sort(lags[~np.isnan(lags)])[::-1]
    excused = int(max(1.0, 0.01 * len(lags)))
    return float(lags[excused]) if len(lags) > excused else None


def met_and_judged(rows: Sequence[Sequence[int]], index: int, ttft: int, gap: int) -> tuple[int, int]:
    """Requests of a class that meet targets at these steps, and those that can be judged. The page's script does it
    the same way."""
    met = sum(n for i, o, f, g, n in rows if i == index and o == DONE and f <= ttft and g <= gap)
    censored = sum(n for i, o, f, _, n in rows if i == index and o == CUT and f <= ttft)
    return met, sum(n for i, _, _, _, n in rows if i == index) - censored


def _window_s(cell: c.Cell, classes: Sequence[Mapping[str, Any]], rows: Sequence[Sequence[int]]) -> float | None:
    """Length of the measured window as the goodput tells it; None when nothing was met."""
    met = sum(met_and_judged(rows, i, k["ttft"], k["gap"])[0] for i, k in enumerate(classes))
    return met / cell["goodput_per_s"] if met and cell["goodput_per_s"] else cell.get("window_s")


def _effective_share(cell: c.Cell, name: str) -> float:
    """n_eff / n of a class, 0–1: the part of its requests that count as independent, read back from its interval."""
    row = (cell.get("classes") or {}).get(name) or cell
    if row.get("design_effect"):
        return round(1.0 / float(row["design_effect"]), 4)
    if any(row.get(k) is None for k in ("share", "share_low", "share_high")) or not row.get("scheduled"):
        return 1.0
    share, width, n = float(row["share"]), float(row["share_high"]) - float(row["share_low"]), float(row["scheduled"])
    if not 0 < share < 1:
        return 1.0
    few, many = 0.5, n
    for _ in range(50):  # the interval narrows as n_eff grows
        middle = (few + many) / 2
        low, high = wilson(share * middle, middle)
        few, many = (middle, many) if high - low > width else (few, middle)
    return round(many / n, 4)
