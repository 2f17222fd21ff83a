"""Which points are worth a look: the goodput frontier, the best goodput per load, the highest sustainable load."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from runner.analysis.gaps import Floats
from runner.analysis.warnings import INVALIDATING

Row = Mapping[str, Any]  # a `cells[]` row of the result object


def is_valid(row: Row) -> bool:
    """Measured, judged against targets, and free of every flag that makes the point say something else."""
    measured = row["status"] == "ok" and row["goodput_per_s"] is not None and row["output_tok_per_s"] is not None
    return measured and not INVALIDATING & set(row["flags"])


def frontier(rows: Sequence[Row]) -> set[int]:
    """Cells that no valid cell beats: none has at least as much output tok/s *and* goodput, and more of one."""
    points = [(float(r["output_tok_per_s"]), float(r["goodput_per_s"]), int(r["cell"])) for r in rows if is_valid(r)]
    points.sort(key=lambda p: (-p[0], -p[1]))
    kept: set[int] = set()
    best, best_at = -1.0, -1.0
    for tokens, goodput, cell in points:
        # with descending throughput a point survives by more goodput than all before it, or by being their equal
        if goodput > best or (goodput == best and tokens == best_at):
            kept.add(cell)
            best, best_at = goodput, tokens
    return kept


def frontier_chances(tokens: Floats, goodput: Floats) -> Floats:
    """(m,) how often each point is one that none beats, over n joint draws. Both (m, n), in any unit, rows in order.

    As in `frontier` a point survives by more goodput than all with more tokens, or by being their equal.
    """
    places = np.arange(len(tokens))[:, None]
    order = np.argsort(-goodput, axis=0, kind="stable")
    order = np.take_along_axis(order, np.argsort(-np.take_along_axis(tokens, order, 0), axis=0, kind="stable"), 0)
    t, g = np.take_along_axis(tokens, order, 0), np.take_along_axis(goodput, order, 0)
    best = np.maximum.accumulate(g, axis=0)
    new = np.ones(t.shape, dtype=bool)
    new[1:] = (t[1:] != t[:-1]) | (g[1:] != g[:-1])
    ahead = np.ones(t.shape, dtype=bool)
    ahead[1:] = g[1:] > best[:-1]
    first_of_equals = np.maximum.accumulate(np.where(new, places, 0), axis=0)
    survives = np.empty(t.shape, dtype=bool)
    np.put_along_axis(survives, order, np.take_along_axis(ahead, first_of_equals, 0), 0)
    share: Floats = survives.mean(axis=1)
    return share


def load_level(load: Mapping[str, Any]) -> float | None:
    """The number on the load axis: request_rate, load_scale or max_concurrency; null if the sweep has none."""
    for key in ("request_rate", "load_scale", "max_concurrency"):
        if key in load:
            return float(load[key])
    return None


def best_by_load(rows: Sequence[Row]) -> list[tuple[float, Row]]:
    """F(load) = the valid cell of most goodput at each load level, by rising load."""
    best: dict[float, Row] = {}
    for row in rows:
        level = load_level(row["load"])
        if (
            level is not None
            and is_valid(row)
            and (level not in best or row["goodput_per_s"] > best[level]["goodput_per_s"])
        ):
            best[level] = row
    return sorted(best.items())


def sustainable_load(rows: Sequence[Row], share_target: float) -> float | None:
    """Largest load of one setting's cells at which every class with targets has share >= share_target; else null.

    A load counts only if all its repeats are valid and hold the target.
    """
    holds: dict[float, bool] = {}
    for row in rows:
        level = load_level(row["load"])
        if level is not None and row["status"] == "ok":
            shares = [c["share"] for c in row["classes"].values() if c["share"] is not None]
            good = is_valid(row) and bool(shares) and min(shares) >= share_target
            holds[level] = holds.get(level, True) and good
    return max((level for level, good in holds.items() if good), default=None)
