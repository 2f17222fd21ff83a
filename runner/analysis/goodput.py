"""Does a request meet its targets? Five gap rules, always all computed, and the censoring rules."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from runner.analysis.gaps import Bools, Floats, Gaps, Ints, gap_blocks, gap_table
from runner.config import GapRule, Slo

RULES: tuple[GapRule, ...] = ("p99_gap", "mean_tpot", "every_gap", "deadline", "fluidity")


@dataclass(frozen=True)
class Judged:
    """One entry a row. `gap_ok` by rule is the gap rule alone; a verdict also needs TTFT and outcome."""

    has_target: Bools
    ttft_ok: Bools
    ttft_missed: Bools
    gap_ok: dict[GapRule, Bools]
    own_rule: "pd.Series[Any]"  # the rule of the row's class, None without targets


def judge(requests: pd.DataFrame, targets: Mapping[str, Slo]) -> Judged:
    """Applies every rule once. `targets` by class name; a class that is not in it has no targets."""
    names = requests["class_name"]
    t1 = _per_class(names, {c: s.ttft_ms for c, s in targets.items()})
    t2 = _per_class(names, {c: s.gap_ms for c, s in targets.items()})
    wanted = _per_class(names, {c: s.fluidity for c, s in targets.items()})
    ttft = requests["ttft_ms"].to_numpy(dtype=np.float64)
    waited = requests["waited_ms"].to_numpy(dtype=np.float64)
    behind_ns, kept = _deadlines(requests, t1, t2)
    with np.errstate(invalid="ignore"):
        gap_ok: dict[GapRule, Bools] = {
            "p99_gap": ~(requests["gap_p99_ms"].to_numpy(dtype=np.float64) > t2),
            "mean_tpot": ~(requests["tpot_ms"].to_numpy(dtype=np.float64) > t2),
            "every_gap": ~(requests["gap_max_ms"].to_numpy(dtype=np.float64) > t2),
            "deadline": ~(behind_ns > (t1 - ttft) * 1e6 + 0.5),
            "fluidity": ~(kept < wanted),
        }
        return Judged(
            has_target=~np.isnan(t1),
            ttft_ok=ttft <= t1,
            ttft_missed=(ttft > t1) | (waited > t1),
            gap_ok=gap_ok,
            own_rule=names.map({c: s.rule for c, s in targets.items()}),
        )


def verdicts(requests: pd.DataFrame, judged: Judged, rule: GapRule | None = None) -> "pd.Series[Any]":
    """ "met", "missed" or "censored" per row; None for a class without targets. rule None: each class's own.

    Rejected, failed and timed-out requests are missed. A request cut by our own end of run (cancelled) is censored,
    unless its first token was already late. Without gaps the gap rule is vacuous.
    """
    gap_ok = np.zeros(len(requests), dtype=bool)
    for name in RULES:
        mask = np.full(len(requests), name == rule) if rule else (judged.own_rule == name).to_numpy(dtype=bool)
        gap_ok |= mask & judged.gap_ok[name]
    met = requests["completed"].to_numpy(dtype=bool) & judged.ttft_ok & gap_ok
    censored = requests["cancelled"].to_numpy(dtype=bool) & ~judged.ttft_missed
    words = pd.Series("missed", index=requests.index, dtype=object)
    words[censored] = "censored"
    words[met] = "met"
    words[~judged.has_target] = None
    return words


def meets_targets(requests: pd.DataFrame, targets: Mapping[str, Slo], rule: GapRule | None = None) -> "pd.Series[Any]":
    """ "met" | "missed" | "censored" (None: no targets) for every row of `request_table`."""
    return verdicts(requests, judge(requests, targets), rule)


def stalled_but_fine_on_average(requests: pd.DataFrame, judged: Judged) -> Bools:
    """Rows that pass with the mean (TTFT and mean TPOT in target) but not with their own P99 gap."""
    fine = requests["completed"].to_numpy(dtype=bool) & judged.has_target & judged.ttft_ok
    return fine & judged.gap_ok["mean_tpot"] & ~judged.gap_ok["p99_gap"]


def _deadlines(requests: pd.DataFrame, t1_ms: Floats, t2_ms: Floats) -> tuple[Floats, Floats]:
    """`_latest_ns` and `fluidity` per row. Where neither the first chunk nor any gap is too long, nothing is behind
    any deadline: only the others' gaps are looked at, a block of rows at a time."""
    ttft = requests["ttft_ms"].to_numpy(dtype=np.float64)
    longest = requests["gap_max_ms"].to_numpy(dtype=np.float64)
    known = ~np.isnan(ttft) & ~np.isnan(t1_ms)
    behind, kept = np.full(len(ttft), -np.inf), np.where(known, 1.0, np.nan)
    slow = np.flatnonzero(known & ~((ttft <= t1_ms) & (longest <= t2_ms)))
    of_slow = requests[["chunk_deltas_us", "first_chunk_ns"]].iloc[slow]
    for block in gap_blocks(of_slow):
        rows, gaps = slow[block], gap_table(of_slow.iloc[block])
        behind[rows] = _latest_ns(gaps, t2_ms[rows])
        kept[rows] = fluidity(gaps, ttft[rows], t1_ms[rows], t2_ms[rows])
    return behind, kept


def fluidity(gaps: Gaps, ttft_ms: Floats, t1_ms: Floats, t2_ms: Floats) -> Floats:
    """Share of token deadlines met per row, 0..1, as Etalon's fluidity index (Agrawal et al., arXiv 2407.07000).

    The first chunk is due at T1, each later one T2 after the deadline before it, so an early chunk buys slack. A late
    chunk misses every deadline that passed while it was awaited (1 + floor(lateness / T2)), and then the deadlines
    start anew from its arrival. NaN without a first chunk or without targets.
    """
    known = ~np.isnan(ttft_ms) & ~np.isnan(t1_ms)
    t2 = _ns(np.where(known, t2_ms, 1.0))
    late_first = _ns(np.where(known, ttft_ms - t1_ms, 0.0))
    missed = np.where(late_first > 0, 1 + late_first // t2, 0).astype(np.float64)
    met = np.where(late_first > 0, 0.0, 1.0)
    # slack after each chunk, had deadlines never been reset; a chunk is late when this falls below every value before
    # it (and below 0), because each reset puts the zero of the slack at that lowest value
    slack = np.maximum(-late_first, 0)[gaps.row] + gaps.order * t2[gaps.row] - gaps.elapsed_us * 1000
    lowest_before = _lowest_before(np.minimum(slack, 0), gaps)
    late = lowest_before - slack
    misses, overdue = np.zeros(len(late), dtype=np.int64), late > 0
    misses[overdue] = 1 + late[overdue] // t2[gaps.row[overdue]]
    missed += gaps.per_row(misses, np.add, 0.0)
    met += gaps.per_row((late <= 0).astype(np.int64), np.add, 0.0)
    share: Floats = np.where(known, met / (met + missed), np.nan)
    return share


def _lowest_before(values: Ints, gaps: Gaps) -> Ints:
    """Running minimum of `values` (all <= 0) within each row over the entries *before* each one; 0 for the first."""
    if not len(values):
        return values
    shift = gaps.row * (1 - int(values.min()))  # puts each row wholly below the one before: one accumulate for all
    running = np.minimum.accumulate(values - shift) + shift
    before = np.concatenate([[0], running[:-1]])
    before[gaps.start[gaps.count > 0]] = 0
    return before


def _latest_ns(gaps: Gaps, t2_ms: Floats) -> Floats:
    """Per row: by how much its worst chunk is behind a steady pace of T2 that starts at the first chunk, in ns."""
    t2 = _ns(np.nan_to_num(t2_ms))
    return gaps.per_row(gaps.elapsed_us * 1000 - gaps.order * t2[gaps.row], np.maximum, -np.inf)


def _per_class(names: "pd.Series[Any]", values: Mapping[str, float]) -> Floats:
    return np.asarray(names.map(dict(values)), dtype=np.float64)


def _ns(ms: Floats) -> Ints:
    whole: Ints = np.rint(ms * 1e6).astype(np.int64)
    return whole
