"""Is the measured window in a steady state, and does the server keep up?"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from runner.analysis.dependence import Z95
from runner.analysis.gaps import Floats
from runner.analysis.requests import floats

MSER_BATCH = 5
MSER_LEAST_BATCHES = 20  # with 10, one series in ten of pure noise is cut at its half
POINTS = 40


def mser5(values: Floats) -> int | None:
    """How many values MSER-5 would cut from the front; null below 100 values.

    White (1997): batch means of 5; the cut d minimises sum((Y_i - mean)^2, i > d) / (m - d)^2 over d <= m/2.
    """
    m = len(values) // MSER_BATCH
    if m < MSER_LEAST_BATCHES:
        return None
    if np.ptp(values) <= 1e-9 * np.abs(values).max():
        return 0
    y = (values - values.mean())[: m * MSER_BATCH].reshape(m, MSER_BATCH).mean(axis=1)[::-1]
    kept = np.arange(1, m + 1)
    spread = np.cumsum(y * y) - np.cumsum(y) ** 2 / kept
    score = (spread / kept**2)[::-1][: m // 2 + 1]
    return int(np.argmin(score)) * MSER_BATCH


def no_steady_state(values: Floats) -> bool:
    """True if the cut of MSER-5 lands at half of the values: the start is no transient, the whole series drifts."""
    cut = mser5(values)
    return cut is not None and cut >= (len(values) // MSER_BATCH) // 2 * MSER_BATCH


@dataclass(frozen=True)
class OverloadSigns:
    """Any two of these mean that the load is not sustainable at this setting."""

    in_system_grows: bool
    completions_behind: bool
    late_start: bool
    long_drain: bool

    @property
    def verdict(self) -> bool:
        return self.in_system_grows + self.completions_behind + self.late_start + self.long_drain >= 2


def overload_signs(
    rows: pd.DataFrame, start_ns: float, end_ns: float, queue_time_s: float | None = None
) -> OverloadSigns:
    """The four signs over one cell's open-loop rows (no closed loops, no dumps). `queue_time_s`: as told by the server.

    In system: from scheduled arrival to the end of the attempt. Second half of the window for the first two signs.
    Completions are behind when they are below .95 of the arrivals there, and by more than chance makes of so few.
    """
    scheduled, end = floats(rows["scheduled_ns"]), floats(rows["end_ns"])
    end = np.where(np.isnan(end), np.inf, end)
    half = (start_ns + end_ns) / 2
    window = rows["in_window"].to_numpy(dtype=bool)
    arrived = int(((scheduled >= half) & (scheduled < end_ns)).sum())
    done = rows["completed"].to_numpy(dtype=bool) & (end >= half) & (end < end_ns)
    behind = arrived - int(done.sum())
    drain_ns = float(np.max(end[window & np.isfinite(end)], initial=end_ns)) - end_ns
    return OverloadSigns(
        in_system_grows=_grows(scheduled, end, half, end_ns),
        completions_behind=behind > 0.05 * arrived and behind > _chance(scheduled, end, start_ns, end_ns, arrived),
        late_start=(queue_time_s if queue_time_s is not None else _median_delay_s(rows[window])) > 2.0,
        long_drain=drain_ns > 0.2 * (end_ns - start_ns),
    )


def _in_system(scheduled: Floats, end: Floats, from_ns: float, to_ns: float) -> Floats:
    """The number in system at evenly spread moments."""
    at = np.linspace(from_ns, to_ns, POINTS, endpoint=False)
    begun, ended = (np.searchsorted(np.sort(each), at, side="right") for each in (scheduled, end))
    inside: Floats = (begun - ended).astype(np.float64)
    return inside


def _chance(scheduled: Floats, end: Floats, start_ns: float, end_ns: float, arrived: int) -> float:
    """How far completions fall behind by chance, in 39 of 40 windows at most, where nothing is overloaded.

    With ample room the numbers in system at two moments far apart are independent, each with a variance of their mean
    (M/G/inf); with little, what is behind varies as the arrivals do.
    """
    mean = float(_in_system(scheduled, end, start_ns, end_ns).mean())
    return Z95 * math.sqrt(min(2.0 * mean, float(arrived)))


def _grows(scheduled: Floats, end: Floats, from_ns: float, to_ns: float) -> bool:
    """Slope of the number in system with a 95 % interval above 0, neighbouring points counted as correlated."""
    inside = _in_system(scheduled, end, from_ns, to_ns)
    x = np.linspace(-0.5, 0.5, POINTS)
    slope = float((x * inside).sum() / (x * x).sum())
    residual = inside - inside.mean() - slope * x
    power = float((residual * residual).sum())
    if power < 1e-9:
        return slope > 1e-9
    correlation = min(max(float((residual[1:] * residual[:-1]).sum()) / power, 0.0), 0.99)
    effective = max(3.0, POINTS * (1 - correlation) / (1 + correlation))
    error = math.sqrt(power / (effective - 2) / ((x * x).mean() * effective))
    return slope - Z95 * error > 0


def _median_delay_s(rows: pd.DataFrame) -> float:
    """Median time before the server starts on a request, from outside: TTFT beyond the fastest prefill seen per token.

    A request that never got a first token waited until it ended.
    """
    ttft = rows["ttft_ms"].to_numpy(dtype=np.float64)
    waited = rows["waited_ms"].to_numpy(dtype=np.float64)
    prompt = np.maximum(floats(rows["prompt_tokens_asked"]), 1.0)
    got = ~np.isnan(ttft)
    pace = float(np.min(ttft[got] / prompt[got])) if got.any() else 0.0
    delay = np.where(got, ttft - pace * prompt, waited)
    delay = delay[~np.isnan(delay)]
    return float(np.median(delay)) / 1000.0 if len(delay) else 0.0
