"""Do other requests' prefills freeze the chats? Long gaps laid beside the prefills that ran meanwhile.

A prefill is taken to last from sending to the first token, queue included: nothing outside the server sees more. If the
queue is long, prefills cover everything, freeze or not; so what they explain is told beside what they would by chance.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from runner.analysis.gaps import Bools, Floats, Gaps, gap_table
from runner.analysis.prepare import Prepared
from runner.analysis.requests import floats
from runner.config import Slo

Names = npt.NDArray[np.str_]
MOST_NAMED = 500  # long gaps for which the request behind is looked for


@dataclass(frozen=True)
class Cause:
    """Prefills of one class beside the long gaps of interactive requests (never a request's own).

    `explained`: part (0-1) of the stalled time that lies inside such a prefill; `expected`: the same part of all time
    between tokens, which chance would give. Well above it, the prefills are where the freezes come from.
    """

    class_name: str
    explained: float
    expected: float
    prefills: int


@dataclass(frozen=True)
class Interference:
    """Of one cell's window. `explained` and `expected` are those of all *other* classes than the stalled request's own
    together, null where there is none."""

    gaps: (
        pd.DataFrame
    )  # longest first: request, class_name, at_s, gap_ms, by_request, by_class, overlap_ms, prompt_tokens
    prefills: pd.DataFrame  # by start: request, class_name, from_s, to_s, prompt_tokens
    by_class: tuple[Cause, ...]
    long_gaps: int
    stalled_ms: float
    explained: float | None
    expected: float | None


def interference(prepared: Prepared, targets: Mapping[str, Slo], cell: int) -> Interference | None:
    """Null for a cell that was not measured, or in which no class with targets streamed anything."""
    facts = next((f for f in prepared.cells if f.cell == cell), None)
    if facts is None or not facts.window_s:
        return None
    rows = prepared.requests.iloc[facts.rows].reset_index(drop=True)
    names = rows["class_name"].to_numpy(dtype=object).astype(str)
    streamed = rows["in_window"].to_numpy(dtype=bool) & ~rows["buffered"].to_numpy(dtype=bool)
    chats: Bools = streamed & np.isin(names, list(targets))
    gaps = gap_table(rows).of_rows(chats)
    if not len(gaps.row):
        return None
    limit = np.array([targets[name].gap_ms if name in targets else np.inf for name in names])[chats]
    long: Bools = gaps.gap_ms > limit[gaps.row]
    prefills = _prefills(rows, names)
    own = names[chats][gaps.row]
    causes = tuple(
        _cause(name, prefills[prefills["class_name"] == name], gaps, long) for name in dict.fromkeys(names.tolist())
    )
    explained, expected = _of_others(prefills, gaps, long, own)
    return Interference(
        gaps=_named_gaps(rows[chats], gaps, long, prefills),
        prefills=prefills,
        by_class=causes,
        long_gaps=int(long.sum()),
        stalled_ms=float(gaps.gap_ms[long].sum()),
        explained=explained,
        expected=expected,
    )


def _prefills(rows: pd.DataFrame, names: Names) -> pd.DataFrame:
    """From sending to the first token; without one (failed, cut) to the end of the attempt."""
    sent, first, end = (floats(rows[c]) for c in ("sent_ns", "first_chunk_ns", "end_ns"))
    until = np.where(np.isnan(first), end, first)
    told = floats(rows["prompt_tokens"])
    tokens = np.where(np.isnan(told), floats(rows["prompt_tokens_asked"]), told)
    out = pd.DataFrame(
        {
            "request": rows["request"].to_numpy(dtype=np.int64),
            "class_name": names,
            "from_s": sent / 1e9,
            "to_s": until / 1e9,
            "prompt_tokens": tokens,
        }
    )
    return out[~np.isnan(sent) & (until > sent)].sort_values("from_s", kind="stable", ignore_index=True)


def _inside(starts: Floats, ends: Floats, prefills: pd.DataFrame) -> Floats:
    """Seconds of each span [start, end) that lie inside at least one prefill."""
    if not len(prefills):
        return np.zeros(len(starts))
    begin, until = prefills["from_s"].to_numpy(), np.maximum.accumulate(prefills["to_s"].to_numpy())
    fresh = np.concatenate([[True], begin[1:] > until[:-1]])  # where nothing before it still runs
    first = np.flatnonzero(fresh)
    left, right = begin[first], until[np.concatenate([first[1:] - 1, [len(until) - 1]])]
    covered = np.concatenate([[0.0], np.cumsum(right - left)])
    edges = np.column_stack([left, right]).ravel()
    totals = np.column_stack([covered[:-1], covered[1:]]).ravel()
    out: Floats = np.interp(ends, edges, totals) - np.interp(starts, edges, totals)
    return out


def _share(gaps: Gaps, chosen: Bools, prefills: pd.DataFrame) -> float:
    ends, seconds = gaps.at_ns[chosen] / 1e9, gaps.gap_us[chosen] / 1e6
    total = float(seconds.sum())
    return min(float(_inside(ends - seconds, ends, prefills).sum()) / total, 1.0) if total else 0.0


def _cause(name: str, prefills: pd.DataFrame, gaps: Gaps, long: Bools) -> Cause:
    everything = np.ones(len(long), dtype=bool)
    return Cause(name, _share(gaps, long, prefills), _share(gaps, everything, prefills), len(prefills))


def _of_others(prefills: pd.DataFrame, gaps: Gaps, long: Bools, own: Names) -> tuple[float | None, float | None]:
    """Explained and expected by classes other than the stalled request's own."""
    stalled = usual = stalled_by = usual_by = 0.0
    seconds, ends = gaps.gap_us / 1e6, gaps.at_ns / 1e9
    others = False
    for name in dict.fromkeys(own.tolist()):
        of = own == name
        foreign = prefills[prefills["class_name"] != name]
        others = others or bool(len(foreign))
        inside = _inside(ends[of] - seconds[of], ends[of], foreign)
        stalled, stalled_by = stalled + float(seconds[of & long].sum()), stalled_by + float(inside[long[of]].sum())
        usual, usual_by = usual + float(seconds[of].sum()), usual_by + float(inside.sum())
    if not others:
        return None, None
    return (stalled_by / stalled if stalled else 0.0), (usual_by / usual if usual else 0.0)


def _named_gaps(chats: pd.DataFrame, gaps: Gaps, long: Bools, prefills: pd.DataFrame) -> pd.DataFrame:
    """Every long gap with the prefill that overlaps it most; looked for in the longest ones only."""
    index = np.flatnonzero(long)
    index = index[np.argsort(-gaps.gap_ms[index], kind="stable")]
    numbers, names = chats["request"].to_numpy(dtype=np.int64), chats["class_name"].to_numpy(dtype=object)
    row = gaps.row[index]
    ends, seconds = gaps.at_ns[index] / 1e9, gaps.gap_us[index] / 1e6
    out = pd.DataFrame(
        {
            "request": numbers[row],
            "class_name": names[row],
            "at_s": ends - seconds,
            "gap_ms": gaps.gap_ms[index],
        }
    )
    behind = [
        _behind(prefills, float(start), float(end), int(request))
        for start, end, request in zip(
            out["at_s"][:MOST_NAMED], ends[:MOST_NAMED], out["request"][:MOST_NAMED], strict=True
        )
    ]
    behind += [(None, None, 0.0, None)] * (len(out) - len(behind))
    columns = ("by_request", "by_class", "overlap_ms", "prompt_tokens")
    for at, column in enumerate(columns):
        out[column] = pd.Series([b[at] for b in behind], dtype=object, index=out.index)
    return out


def _behind(
    prefills: pd.DataFrame, start_s: float, end_s: float, request: int
) -> tuple[int | None, str | None, float, float | None]:
    """Of the prefills that ran within the gap, other than the request's own, the one that overlaps it most."""
    before = prefills.iloc[: int(np.searchsorted(prefills["from_s"].to_numpy(), end_s))]
    overlap = np.minimum(before["to_s"].to_numpy(), end_s) - np.maximum(before["from_s"].to_numpy(), start_s)
    overlap = np.where(before["request"].to_numpy() == request, 0.0, overlap)
    if not len(overlap) or overlap.max() <= 0:
        return None, None, 0.0, None
    most = before.iloc[int(np.argmax(overlap))]
    return int(most["request"]), str(most["class_name"]), 1000 * float(overlap.max()), float(most["prompt_tokens"])
