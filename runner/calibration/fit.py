"""What was seen of the designed requests -> the cost of an iteration, by robust non-negative least squares. PURE.

t = a + b*P + e*Q + c*B + d*K (schedulers.md). A first token after a prompt alone is one iteration with P prompt tokens
and Q = P^2, however it is chunked, and its own `a_prefill`, which has tokenizing and the network in it as well. A gap
between two tokens of B answers is one iteration with that B and K tokens of context. Each row is weighted by 1/t: 5 %
of a small time are as bad as 5 % of a large one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from runner.analysis.gaps import Floats
from runner.calibration.design import Step
from runner.simulator.cost_model import CostModel
from storage.records import RequestRecord

NAMES = ("a", "a_prefill", "b", "c", "d", "e")
TOGETHER = ("c",)  # can't be told from `a` unless several answer at once
BOOTSTRAPS = 120
REWEIGHTINGS = 4
HUBER = 1.345  # times the usual error: 95 % as efficient as least squares where errors are normal
LEAST_ERROR = 1e-4  # share of a time: finer differences are rounding
CHANGED = 1.3  # times that an iteration takes as long as before, from where on the machine is another
FIRST = -1  # part of an answer
SEGMENTS = 2  # of the time in which all of a step answer: its context grows meanwhile
LEAST_GAPS = 3  # of a segment
LUMPS = 1.2  # tokens a chunk, beyond which a gap is no iteration


@dataclass(frozen=True, slots=True)
class Row:
    """One iteration as it was seen: prompt tokens or (answers, context tokens), and how long it took. Rows of one
    `kind` were asked for alike: (sequences, prompt tokens, part of the answer)."""

    prompt_tokens: float
    seqs: int
    context_tokens: float
    ms: float
    kind: tuple[int, int, int] = (0, 0, 0)

    @property
    def columns(self) -> tuple[float, ...]:
        """Of NAMES."""
        p = float(self.prompt_tokens)
        return (0.0, 1.0, p, 0.0, 0.0, p * p) if p else (1.0, 0.0, 0.0, float(self.seqs), self.context_tokens, 0.0)


@dataclass(frozen=True, slots=True)
class Fit:
    """Coefficients in ms with 95 % bootstrap intervals, and how far the rows are from them (shares of the time)."""

    cost: CostModel
    low: dict[str, float]
    high: dict[str, float]
    rows: int
    median_error: float
    worst_error: float


def rows_of(step: Step, records: Sequence[RequestRecord]) -> list[Row]:
    """What one step tells; nothing when a request failed or tokens came in lumps."""
    if any(r.outcome != "ok" or r.first_chunk_ns is None or r.sent_ns is None for r in records):
        return []
    rows = [_first_token(r, step) for r in records] if step.seqs == 1 else []
    lumps = any((r.output_tokens or 0) > LUMPS * r.token_events for r in records)
    return rows if lumps or min(r.token_events for r in records) < 2 else rows + _gaps(records, step)


def _first_token(r: RequestRecord, step: Step) -> Row:
    assert r.first_chunk_ns is not None
    assert r.sent_ns is not None
    return Row(_prompt(r), 0, 0.0, (r.first_chunk_ns - r.sent_ns) / 1e6, (1, step.prompt_tokens, FIRST))


def _gaps(records: Sequence[RequestRecord], step: Step) -> list[Row]:
    """While all of them answer: the median gap of each half, with the context they had then."""
    times = [_times_ms(r) for r in records]
    start, end = max(t[0] for t in times), min(t[-1] for t in times)
    edges = np.linspace(start, end, SEGMENTS + 1)
    rows = []
    for part, (low, high) in enumerate(pairwise(edges.tolist())):
        gaps, context = [], 0.0
        for r, t in zip(records, times, strict=True):
            at = np.flatnonzero((t[:-1] >= low) & (t[1:] <= high))
            gaps += np.diff(t)[at].tolist()
            context += _prompt(r) + float(at.mean()) if len(at) else 0.0
        if len(gaps) >= LEAST_GAPS * len(records):
            kind = (step.seqs, step.prompt_tokens, part)
            rows.append(Row(0, len(records), context, float(np.median(gaps)), kind))
    return [row for row in rows if row.ms > 0]


def _prompt(r: RequestRecord) -> int:
    return max(1, (r.prompt_tokens or r.prompt_tokens_asked) - (r.cached_prompt_tokens or 0))


def _times_ms(r: RequestRecord) -> Floats:
    """Arrivals of the chunks from the first on."""
    assert r.first_chunk_ns is not None
    return r.first_chunk_ns / 1e6 + np.concatenate([[0.0], np.cumsum(np.array(r.chunk_deltas_us, dtype=float) / 1e3)])


def seats_seen(steps: Sequence[Step], records: Sequence[Sequence[RequestRecord]]) -> int | None:
    """The most answers that ever ran at once, where more were sent; null when all that were sent ran together."""
    most, limited = 0, False
    for step, found in zip(steps, records, strict=True):
        spans = [(t[0], t[-1]) for r in found if r.first_chunk_ns is not None and len(t := _times_ms(r)) > 1]
        if len(spans) == step.seqs > 1:
            together = max(sum(a <= at < b for a, b in spans) for at, _ in spans)
            most, limited = max(most, together), limited or together < step.seqs
    return most if limited and most else None


def fit_cost(rows: Sequence[Row], seed: int = 1) -> Fit:
    """Raises ValueError without a first token or without a gap."""
    if not any(r.prompt_tokens for r in rows) or all(r.prompt_tokens for r in rows):
        raise ValueError("a fit needs first tokens and gaps")
    groups = [[r for r in rows if r.kind == kind] for kind in dict.fromkeys(r.kind for r in rows)]
    rng = np.random.default_rng(seed)
    merged = [_middle(group) for group in groups]
    best = _fitted(merged)
    draws = [
        _fitted([_middle([group[i] for i in rng.integers(len(group), size=len(group))]) for group in groups])
        for _ in range(BOOTSTRAPS)
    ]
    low, high = np.quantile(np.array(draws), [0.025, 0.975], axis=0)
    errors = np.array([abs(float(np.dot(r.columns, best)) / r.ms - 1) for r in merged])
    named = dict(zip(NAMES, best.tolist(), strict=True))
    return Fit(
        cost=CostModel(**named),
        low=dict(zip(NAMES, low.tolist(), strict=True)),
        high=dict(zip(NAMES, high.tolist(), strict=True)),
        rows=len(rows),
        median_error=float(np.median(errors)),
        worst_error=float(errors.max()),
    )


def pace_of(rows: Sequence[Row], cost: CostModel) -> float | None:
    """How many times as long as fitted iterations took, in the median: 1 on a machine that did not change."""
    fitted = np.array([getattr(cost, name) or 0.0 for name in NAMES])
    ratios = [r.ms / ms for r in rows if (ms := float(np.dot(r.columns, fitted))) > 0]
    return float(np.median(ratios)) if ratios else None


def _middle(group: Sequence[Row]) -> Row:
    """Rows that were asked for alike as one: the median time, so that a stall in one round is no cost."""
    prompt, context = (float(np.mean([getattr(r, k) for r in group])) for k in ("prompt_tokens", "context_tokens"))
    return Row(prompt, group[0].seqs, context, float(np.median([r.ms for r in group])), group[0].kind)


def _fitted(rows: Sequence[Row]) -> Floats:
    x = np.array([r.columns for r in rows])
    if len({r.seqs for r in rows if r.seqs}) < 2:
        x[:, [NAMES.index(name) for name in TOGETHER]] = 0.0
    return _weighted(x, np.array([r.ms for r in rows]))


def _weighted(x: Floats, t: Floats) -> Floats:
    """Huber's estimator on relative errors, by reweighting: what a hiccup of the machine made late counts little."""
    weight = np.ones(len(t))
    b = np.zeros(x.shape[1])
    for _ in range(REWEIGHTINGS):
        root = np.sqrt(weight)
        b = nnls(x / t[:, None] * root[:, None], root)
        errors = np.abs(x @ b / t - 1)
        usual = max(1.4826 * float(np.median(errors)), LEAST_ERROR)
        weight = np.minimum(1.0, HUBER * usual / np.maximum(errors, 1e-12))
    return b


def nnls(x: Floats, y: Floats) -> Floats:
    """The b >= 0 that makes |x b - y| smallest (Lawson and Hanson 1974, chapter 23). Columns of zeros get 0.

    Columns are scaled to length 1 first: a prompt squared is a million times a constant.
    """
    size = np.linalg.norm(x, axis=0)
    scaled = x / np.where(size > 0, size, 1.0)
    n = x.shape[1]
    used = np.zeros(n, dtype=bool)
    b = np.zeros(n)
    for _ in range(3 * n):
        slope = scaled.T @ (y - scaled @ b)
        slope[used | (size == 0)] = -np.inf
        if slope.max() <= 1e-12:
            break
        used[int(slope.argmax())] = True
        b = _least_on(scaled, y, used, b)
    return b / np.where(size > 0, size, 1.0)


def _least_on(x: Floats, y: Floats, used: "np.ndarray[tuple[int], np.dtype[np.bool_]]", b: Floats) -> Floats:
    """Least squares on the columns in use; those that would go below 0 leave it one after another."""
    while True:
        s = np.zeros(len(b))
        s[used] = np.linalg.lstsq(x[:, used], y, rcond=None)[0]
        wrong = used & (s <= 0)
        if not wrong.any():
            return s
        step = np.min(b[wrong] / (b[wrong] - s[wrong] + 1e-300))
        b = b + step * (s - b)
        used &= ~(wrong & (b <= 1e-12))
        b[~used] = 0.0
