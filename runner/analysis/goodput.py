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
    """ "met", "missed" or "censored" per row; None for a class without targets. rule None: each class's own."""
    met, missed = met_and_missed(requests, judged, rule)
    words = pd.Series("censored", index=requests.index, dtype=object)
    words[missed] = "missed"
    words[met] = "met"
    words[~judged.has_target] = None
    return words


def met_and_missed(requests: pd.DataFrame, judged: Judged, rule: GapRule | None = None) -> tuple[Bools, Bools]:
    """Per row; both are false for a class without targets and where it can't be told (censored).

    Rejected, failed and timed-out requests are missed. A request cut by our own end of run (cancelled) is censored,
    unless its first token was already late. Without gaps the gap rule is vacuous.
    """
    gap_ok = judged.gap_ok[rule] if rule else np.zeros(len(requests), dtype=bool)
    for name in () if rule else RULES:
        gap_ok |= (judged.own_rule == name).to_numpy(dtype=bool) & judged.gap_ok[name]
    met = judged.has_target & requests["completed"].to_numpy(dtype=bool) & judged.ttft_ok & gap_ok
    censored = requests["cancelled"].to_numpy(dtype=bool) & ~judged.ttft_missed
    return met, judged.has_target & ~met & ~censored


def stalled_but_fine_on_average(requests: pd.DataFrame, judged: Judged) -> Bools:
    """Rows that pass with the mean (TTFT and mean TPOT in target) but not with their own P99 gap."""
    fine = requests["completed"].to_numpy(dtype=bool) & judged.has_target & judged.ttft_ok
    return fine & judged.gap_ok["mean_tpot"] & ~judged.gap_ok["p99_gap"]


def _deadlines(requests: pd.DataFrame, t1_ms: Floats, t2_ms: Floats) -> tuple[Floats, Floats]:
    """Per row: how far its worst chunk is behind a steady pace of T2 that starts at its first chunk, in ns, and its
    `fluidity`. Where neither the first chunk nor any gap is too long, nothing is behind any deadline; where only the
    first chunk is late, its first gap tells all. The other rows' gaps are looked at, a block of rows at a time."""
    ttft = requests["ttft_ms"].to_numpy(dtype=np.float64)
    longest = requests["gap_max_ms"].to_numpy(dtype=np.float64)
    known = ~np.isnan(ttft) & ~np.isnan(t1_ms)
    behind, kept = np.full(len(ttft), -np.inf), np.where(known, 1.0, np.nan)
    slow = known & ~((ttft <= t1_ms) & (longest <= t2_ms))
    smooth = slow & (np.rint(longest * 1000.0) * 1000.0 <= np.rint(t2_ms * 1e6))
    _only_first_late(requests["chunk_deltas_us"], np.flatnonzero(smooth), (ttft, t1_ms, t2_ms), behind, kept)
    slow_rows = np.flatnonzero(slow & ~smooth)
    of_slow = requests[["chunk_deltas_us", "first_chunk_ns"]].iloc[slow_rows]
    for block in gap_blocks(of_slow):
        rows, gaps = slow_rows[block], gap_table(of_slow.iloc[block])
        late = _behind_ns(gaps, _ns(t2_ms[rows]))
        behind[rows] = gaps.per_row(late, np.maximum, -np.inf)
        kept[rows] = _fluidity(gaps, late, _ns(ttft[rows] - t1_ms[rows]), _ns(t2_ms[rows]))
    return behind, kept


def _only_first_late(
    deltas: "pd.Series[Any]", rows: Ints, times_ms: tuple[Floats, Floats, Floats], behind: Floats, kept: Floats
) -> None:
    """Fills in the rows of which every gap is within T2, without a look at their gaps but the first: those that follow
    only win time. `times_ms`: TTFT, T1 and T2 of all rows."""
    own = deltas.iloc[rows].tolist()
    count = np.array([len(d) for d in own], dtype=np.int64)
    first_us = np.array([d[0] for d in own], dtype=np.int64)
    ttft, t1, t2 = (of_all[rows] for of_all in times_ms)
    behind[rows] = first_us * 1000 - _ns(t2)
    late = _ns(ttft - t1)
    missed = np.where(late > 0, 1 + late // _ns(t2), 0)
    met = count + (late <= 0)
    kept[rows] = met / (met + missed)


def fluidity(gaps: Gaps, ttft_ms: Floats, t1_ms: Floats, t2_ms: Floats) -> Floats:
    """Share of token deadlines met per row, 0..1, as Etalon's fluidity index (Agrawal et al., arXiv 2407.07000).

    The first chunk is due at T1, each later one T2 after the deadline before it, so an early chunk buys slack. A late
    chunk misses every deadline that passed while it was awaited (1 + floor(lateness / T2)), and then the deadlines
    start anew from its arrival. NaN without a first chunk or without targets.
    """
    known = ~np.isnan(ttft_ms) & ~np.isnan(t1_ms)
    t2 = _ns(np.where(known, t2_ms, 1.0))
    share = _fluidity(gaps, _behind_ns(gaps, t2), _ns(np.where(known, ttft_ms - t1_ms, 0.0)), t2)
    out: Floats = np.where(known, share, np.nan)
    return out


def _fluidity(gaps: Gaps, behind_ns: Ints, late_first_ns: Ints, t2_ns: Ints) -> Floats:
    """`behind_ns`: of each chunk, had deadlines begun at the first chunk and never been set anew. A chunk is late when
    it is further behind than every chunk before it, and than what the first one was early: each reset puts the zero of
    lateness at the chunk that is furthest behind."""
    rows = len(t2_ns)
    behind = behind_ns - np.repeat(np.maximum(-late_first_ns, 0), gaps.count)
    late = behind - _most_before(np.maximum(behind, 0), gaps)
    overdue = np.flatnonzero(late > 0)
    row = gaps.row[overdue]
    missed = np.where(late_first_ns > 0, 1 + late_first_ns // t2_ns, 0) + np.bincount(
        row, weights=1 + late[overdue] // t2_ns[row], minlength=rows
    )
    met = (late_first_ns <= 0) + gaps.count - np.bincount(row, minlength=rows)
    share: Floats = met / (met + missed)
    return share


def _most_before(values: Ints, gaps: Gaps) -> Ints:
    """Running maximum of `values` (all >= 0) within each row over the entries *before* each one; 0 for the first."""
    if not len(values):
        return values
    # puts each row wholly above the one before: one accumulate for all
    shift = np.repeat(np.arange(len(gaps.count), dtype=np.int64) * (1 + int(values.max())), gaps.count)
    running = np.maximum.accumulate(values + shift) - shift
    before = np.concatenate([[0], running[:-1]])
    before[gaps.start[gaps.count > 0]] = 0
    return before


def _behind_ns(gaps: Gaps, t2_ns: Ints) -> Ints:
    """(m,) how far each chunk is behind a steady pace of T2 that starts at its request's first chunk."""
    return gaps.sums(gaps.gap_us * 1000 - np.repeat(t2_ns, gaps.count))


def _per_class(names: "pd.Series[Any]", values: Mapping[str, float]) -> Floats:
    return np.asarray(names.map(dict(values)), dtype=np.float64)


def _ns(ms: Floats) -> Ints:
    whole: Ints = np.rint(ms * 1e6).astype(np.int64)
    return whole
