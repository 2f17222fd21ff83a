"""The measured points of one side of a comparison: one sweep, or several of the same thing measured in turns."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from runner.analysis.choice import choose
from runner.analysis.gaps import Bools, Floats, Ints
from runner.analysis.goodput import judge
from runner.analysis.prepare import CellFacts, Prepared
from runner.analysis.requests import floats, is_closed
from runner.analysis.score import Verdicts, points_of, score_cells, verdicts_of
from runner.analysis.warnings import INVALIDATING
from runner.config import GapRule, Slo

# these say something of the server, and a comparison is about the server
OF_THE_SERVER = frozenset({"overload", "no_steady_state"})
COLUMNS = (
    "class_name", "scheduled_ns", "in_window", "completed", "cancelled", "latency_counts", "buffered", "ttft_ms",
    "first_chunk_ns", "chunk_deltas_us", "token_events", "output_tokens",
)  # fmt: skip
SAME_SHARE = 0.95  # of the requests of two runs that must be the same ones for a comparison in pairs


@dataclass(frozen=True)
class Asked:
    """What every request of a sweep was asked to be: one entry a row of Prepared.requests."""

    class_name: np.ndarray[Any, np.dtype[Any]]
    request: Floats
    scheduled_ns: Floats
    lengths: Floats  # (rows, 2): prompt and answer, in tokens


def _asked(requests: pd.DataFrame) -> Asked:
    lengths = np.column_stack([floats(requests[f"{part}_tokens_asked"]) for part in ("prompt", "output")])
    names = requests["class_name"].to_numpy(dtype=object)
    return Asked(names, floats(requests["request"]), floats(requests["scheduled_ns"]), lengths)


@dataclass(frozen=True)
class Run:
    """One measured cell. `seed`: of its arrivals and lengths; `turn`: which sweep of the side, and which repeat."""

    prepared: Prepared
    facts: CellFacts
    rows: pd.DataFrame  # COLUMNS of its requests; the index is that of Prepared.requests, as in `own`
    asked: Asked
    own: Verdicts
    flags: tuple[str, ...]
    deff: float  # design effect of its share
    seed: int
    turn: tuple[int, int]
    start_ns: float
    end_ns: float

    @property
    def doubts(self) -> frozenset[str]:
        """Flags that make it say something else than what the server did."""
        return (INVALIDATING - OF_THE_SERVER) & set(self.flags)


@dataclass(frozen=True)
class Spot:
    """One setting at one load. Without runs nothing was measured; `failed` is then the kind of the first failure."""

    setting: dict[str, Any]
    load: dict[str, Any]
    runs: tuple[Run, ...]
    failed: str | None


@dataclass(frozen=True)
class Side:
    """`chosen`: the setting that the rule of the choice takes in the first sweep, null without one."""

    sweeps: tuple[Prepared, ...]
    spots: tuple[Spot, ...]
    chosen: dict[str, Any] | None


def side_of(sweeps: Sequence[Prepared], targets: Mapping[str, Slo], rule: GapRule | None) -> Side:
    """Cells of one setting and load together; a doubtful one is left out while a clean one is there."""
    found: dict[str, Spot] = {}
    chosen = None
    for number, prepared in enumerate(sweeps):
        judged = judge(prepared.requests, targets)
        rows, _ = score_cells(prepared, targets, judged, rule)
        own = verdicts_of(prepared, judged, rule)
        table, asked = prepared.requests[list(COLUMNS)], _asked(prepared.requests)
        windows = prepared.tables.cells.set_index("cell")[["window_start_ns", "window_end_ns"]].to_dict("index")
        if number == 0:
            points = points_of(prepared, rows, targets, judged, rule)
            taken = choose(points, prepared.config, prepared.config.run.share_target)
            chosen = taken.setting if taken else None
        for facts, row in zip(prepared.cells, rows, strict=True):
            key = as_key(facts.setting, facts.load)
            spot = found.get(key, Spot(facts.setting, facts.load, (), None))
            runs, failed = spot.runs, spot.failed
            if facts.window_s:
                window = windows[facts.cell]
                seed = prepared.config.run.seed + facts.repeat
                edges = float(window["window_start_ns"]), float(window["window_end_ns"])
                deff = float(row["design_effect"] or 1.0)
                turn, flags, mine = (number, facts.repeat), tuple(row["flags"]), table.iloc[facts.rows]
                runs = (*runs, Run(prepared, facts, mine, asked, own, flags, deff, seed, turn, *edges))
            elif facts.status == "failed":
                failed = failed or str(row["error_kind"])
            found[key] = Spot(spot.setting, spot.load, runs, failed)
    return Side(tuple(sweeps), tuple(_clean(spot) for spot in found.values()), chosen)


def _clean(spot: Spot) -> Spot:
    clean = tuple(run for run in spot.runs if not run.doubts)
    return Spot(spot.setting, spot.load, clean or spot.runs, spot.failed)


def as_key(*parts: Mapping[str, Any]) -> str:
    """The same text for equal settings or loads; 1 and 1.0 are equal."""
    return json.dumps([{k: _as_number(v) for k, v in part.items()} for part in parts], sort_keys=True)


def _as_number(value: object) -> object:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


@dataclass(frozen=True)
class Matched:
    """Points of both sides that belong together, the keys left aside for it, and what found no counterpart."""

    pairs: tuple[tuple[Spot, Spot], ...]
    ignored: tuple[str, ...]
    left_a: tuple[Spot, ...]
    left_b: tuple[Spot, ...]


def match(a: Side, b: Side) -> Matched:
    """By setting and load. Setting keys of which the sides have no value in common are what is compared: they are left
    aside, and where a side then has several settings in one place, the one of its own choice stands for it.
    """
    ignored = [k for k in dict.fromkeys(k for s in (*a.spots, *b.spots) for k in s.setting) if not _shared(k, a, b)]
    spots_a, spots_b = _by_key(a, ignored), _by_key(b, ignored)
    pairs = [(spots_a[k], spots_b[k]) for k in spots_a if k in spots_b]
    used = {id(s) for pair in pairs for s in pair}
    left_a, left_b = ([s for s in side.spots if id(s) not in used and (s.runs or s.failed)] for side in (a, b))
    return Matched(tuple(pairs), tuple(ignored), tuple(left_a), tuple(left_b))


def _shared(key: str, a: Side, b: Side) -> bool:
    values = [{as_key({key: s.setting.get(key)}) for s in side.spots if key in s.setting} for side in (a, b)]
    return bool(values[0] & values[1])


def _by_key(side: Side, ignored: Sequence[str]) -> dict[str, Spot]:
    groups: dict[str, list[Spot]] = {}
    for spot in side.spots:
        if spot.runs or spot.failed:
            kept = {k: v for k, v in spot.setting.items() if k not in ignored}
            groups.setdefault(as_key(kept, spot.load), []).append(spot)
    own = as_key(side.chosen or {})
    return {k: next((s for s in group if as_key(s.setting) == own), group[0]) for k, group in groups.items()}


def pair_runs(a: Spot, b: Spot, names: Sequence[str]) -> tuple[list[tuple[Run, Run]], str | None]:
    """Runs of both sides that sent the same requests at the same moments, else none and why. `names`: classes looked
    at; all classes of the first side when empty.
    """
    by_seed: dict[int, list[Run]] = {}
    for run in b.runs:
        by_seed.setdefault(run.seed, []).append(run)
    pairs = [(run, by_seed[run.seed].pop(0)) for run in a.runs if by_seed.get(run.seed)]
    if not pairs:
        return [], "different_seed"
    for one, other in pairs:
        why = _not_the_same(one, other, names)
        if why:
            return [], why
    return pairs, None


def _not_the_same(one: Run, other: Run, names: Sequence[str]) -> str | None:
    classes = [{c.name: c for c in run.prepared.config.classes} for run in (one, other)]
    wanted = list(names) or list(classes[0])
    if not all(name in found for found in classes for name in wanted):
        return "different_classes"
    for run, found in zip((one, other), classes, strict=True):
        if any(is_closed(found[name], run.facts.load) for name in wanted):
            return "closed_loop"
    start, end = max(one.start_ns, other.start_ns), min(one.end_ns, other.end_ns)
    for name in wanted:
        first, second = _of_class(one, name, end), _of_class(other, name, end)
        n, most = min(len(first), len(second)), max(len(first), len(second))
        at, to = first[:n], second[:n]
        due = one.asked.scheduled_ns[at]
        moments = (due == other.asked.scheduled_ns[to])[due >= start]
        if n < SAME_SHARE * most or (len(moments) and moments.mean() < SAME_SHARE):
            return "different_arrivals"
        lengths = (one.asked.lengths[at] == other.asked.lengths[to]).all(axis=1)[due >= start]
        if len(lengths) and lengths.mean() < SAME_SHARE:
            return "different_lengths"
    return None


def both_judged(pairs: Sequence[tuple[Run, Run]], names: Sequence[str]) -> tuple[Bools, Bools]:
    """Met or not, of every request that both runs of a pair could judge."""
    met: tuple[list[Bools], list[Bools]] = [], []
    for one, other in pairs:
        end = min(one.end_ns, other.end_ns)
        for name in names:
            first, second = _of_class(one, name, end), _of_class(other, name, end)
            n = min(len(first), len(second))
            at, to = first[:n], second[:n]
            both = one.own.judged[at] & other.own.judged[to]
            met[0].append(one.own.met[at][both])
            met[1].append(other.own.met[to][both])
    return np.concatenate(met[0] or [np.zeros(0, bool)]), np.concatenate(met[1] or [np.zeros(0, bool)])


def _of_class(run: Run, name: str, end_ns: float) -> Ints:
    """Rows of Prepared.requests, by their place in the class from the cell's beginning: other classes do not change
    it."""
    here = run.facts.rows
    mine = np.equal(run.asked.class_name[here], name).astype(bool) & (run.asked.scheduled_ns[here] < end_ns)
    rows: Ints = np.flatnonzero(mine) + here.start
    ordered: Ints = rows[np.argsort(run.asked.request[rows], kind="stable")]
    return ordered
