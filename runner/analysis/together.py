"""How many sequences a server steps at once, told from the streams alone: tokens of one iteration arrive together.

A server that batches emits one token of every running sequence at the end of an iteration, so that arrivals of all
streams come in bursts, with the iteration's time between them. The size of a burst is the batch.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from runner.analysis.gaps import Floats, Gaps, Ints
from runner.analysis.requests import floats

# Two groups of waits are separate bursts and pauses when Otsu's split explains this much of their variance (one group
# alone gives 0.6 to 0.7 whatever its shape) and the pauses are this many times as long as the waits inside a burst.
CLEAR_SPLIT = 0.8
CLEAR_RATIO = 8.0
STEPPED_SHARE = 0.25  # at least so many of the streams' own gaps must be longer than the waits inside bursts
ALONE_BELOW = 2.0  # streams open on average: so few that arrivals close to each other are hardly chance
NEAR_SHARE = 0.2  # of the usual gap of a stream: closer than this is together, where few streams are open
SMEARED_SHARE = 0.1  # of all arrivals in bursts longer than the usual gap: bursts run into each other
FEWEST = 20  # arrivals, below which nothing is said
_SHORTEST_NS = 1000.0  # stamps are stored in us
_BINS = 64


@dataclass(frozen=True)
class Together:
    """Sequences per iteration as seen from outside; null where bursts do not stand out."""

    mean: float | None = None
    most: int | None = None


def arrivals_together(rows: pd.DataFrame, gaps: Gaps, start_ns: float, end_ns: float, streams_mean: float) -> Together:
    """Bursts among the chunk arrivals in the window. `gaps`: those of exactly these rows.

    The mean is over bursts, of the streams in each; the most is of bursts that hold no stream twice (one that does is
    two iterations run together). Iterations that emit nothing, such as a part of a long prompt, cannot be seen.
    """
    at, stream = _arrivals(rows, gaps, start_ns, end_ns)
    order = np.argsort(at, kind="stable")
    at = at[order]
    if len(at) < FEWEST:
        return Together()
    inside = (gaps.at_ns >= start_ns) & (gaps.at_ns < end_ns) & (gaps.gap_us > 0)
    own_gaps_ns = gaps.gap_us[inside] * 1000.0
    if not len(own_gaps_ns):
        return Together()
    waits = np.maximum(np.diff(at), _SHORTEST_NS)
    apart_ns = _split(waits)
    if apart_ns is not None and (own_gaps_ns > apart_ns).mean() < STEPPED_SHARE:
        apart_ns = None  # those pauses lie between answers, not between tokens
    if apart_ns is None and streams_mean < ALONE_BELOW:
        apart_ns = NEAR_SHARE * float(np.median(own_gaps_ns))
    if apart_ns is None:
        return Together()
    burst = np.concatenate([[0], np.cumsum(waits > apart_ns)])
    return _sizes(at, stream, order, burst, float(np.median(own_gaps_ns[own_gaps_ns > apart_ns])))


def _arrivals(rows: pd.DataFrame, gaps: Gaps, start_ns: float, end_ns: float) -> tuple[Floats, Ints]:
    """Times of all chunks in the window, stream by stream and each in its order, and whose they are; answers that came
    in one piece are left out."""
    chunks = np.where(rows["buffered"].to_numpy(dtype=bool), 0, gaps.count + 1)
    stream = np.repeat(np.arange(len(chunks), dtype=np.int64), chunks)
    at = np.repeat(floats(rows["first_chunk_ns"]), chunks)
    later = np.ones(len(at), dtype=bool)
    later[(np.cumsum(chunks) - chunks)[chunks > 0]] = False
    at[later] = gaps.at_ns if len(gaps.at_ns) == later.sum() else gaps.at_ns[(chunks > 0)[gaps.row]]
    chosen = (at >= start_ns) & (at < end_ns)
    return at[chosen], stream[chosen]


def _split(waits_ns: Floats) -> float | None:
    """The wait that parts bursts from pauses: Otsu's threshold over a histogram of logarithms; else null."""
    logs = np.log(waits_ns)
    counts, edges = np.histogram(logs, bins=_BINS)
    middles = (edges[:-1] + edges[1:]) / 2
    below = np.cumsum(counts)[:-1]
    above = len(logs) - below
    total = np.cumsum(counts * middles)
    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = total[:-1] / below, (total[-1] - total[:-1]) / above
        between = below * above * (high - low) ** 2 / len(logs) ** 2
    between = np.nan_to_num(between)
    # an empty valley gives many equal thresholds: its middle is taken
    best = np.flatnonzero(between >= between.max() * (1 - 1e-9))
    spread = float(np.var(logs))
    if spread <= 0 or between.max() < CLEAR_SPLIT * spread or high[best[0]] - low[best[0]] < np.log(CLEAR_RATIO):
        return None
    return float(np.exp((edges[best[0] + 1] + edges[best[-1] + 1]) / 2))


def _sizes(at: Floats, stream: Ints, order: Ints, burst: Ints, usual_gap_ns: float) -> Together:
    bursts = int(burst[-1]) + 1
    arrivals = np.bincount(burst, minlength=bursts)
    starts = np.concatenate([[0], np.cumsum(arrivals)[:-1]])
    length_ns = at[starts + arrivals - 1] - at[starts]
    if arrivals[length_ns > usual_gap_ns].sum() > SMEARED_SHARE * len(at):
        return Together()
    # a stream's own chunks in their order: those of one burst are neighbours, all but the first of them are repeats
    of_chunk = np.empty(len(burst), dtype=np.int64)
    of_chunk[order] = burst
    again = (of_chunk[1:] == of_chunk[:-1]) & (stream[1:] == stream[:-1])
    streams = arrivals - np.bincount(of_chunk[1:][again], minlength=bursts)
    single = streams == arrivals
    return Together(float(streams.mean()), int(streams[single].max()) if single.any() else None)
