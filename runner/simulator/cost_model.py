"""What one iteration costs: the linear model behind the built-in engine, the what-if runs and the calibration."""

from bisect import bisect_right
from dataclasses import dataclass
from math import floor

MOST_TOKENS = 10_000_000  # beyond any budget


@dataclass(frozen=True, slots=True)
class CostModel:
    """Coefficients in milliseconds: t = a + b*P + e*Q + c*B + d*K + host.

    P: new prefill tokens; Q: sum of chunk*(2*context + chunk) over prefill chunks; B: decode sequences;
    K: context tokens read by the decodes. `a_prefill` stands in for `a` in iterations without a decode.

    `knots`: points (P+B, ms), rising, never falling, of a piecewise-linear f that stands in for a + b*P + c*B: better
    at small sizes, where a device works in steps. Flat before the first, the last piece's slope behind the last.

    Mixture of experts: `a` holds for one token, which reads `experts_active` of `experts`; `expert_share` is their part
    of what it reads. n = P+B tokens read U = E*(1 - (1 - k/E)^n) distinct experts, so `a` grows: its
    expert part times U/k. A fitted f has that in it already and stays as it is.
    """

    a: float
    b: float
    c: float = 0.0
    d: float = 0.0
    e: float = 0.0
    a_prefill: float | None = None
    host: float = 0.0
    knots: tuple[tuple[int, float], ...] = ()
    experts: int = 0
    experts_active: int = 0
    expert_share: float = 0.0


@dataclass(slots=True)
class BatchShape:
    """What one iteration works on, as the cost model sees it. One is made for every iteration: a frozen one would cost
    four times as much."""

    prefill_tokens: int = 0
    prefill_square: int = 0  # sum of chunk*(2*context + chunk), tokens^2
    decode_seqs: int = 0
    context_tokens: int = 0  # tokens in the KV cache read by the decodes


def iteration_ms(cost: CostModel, batch: BatchShape) -> float:
    """Milliseconds of one iteration."""
    base = cost.a
    if cost.a_prefill is not None and batch.decode_seqs == 0:
        base = cost.a_prefill
    tokens = batch.prefill_tokens + batch.decode_seqs
    work = cost.b * batch.prefill_tokens + cost.c * batch.decode_seqs
    if cost.knots:
        base, work = _between_knots(cost.knots, tokens), 0.0
    elif cost.experts:
        more = distinct_experts(cost.experts, cost.experts_active, tokens) / cost.experts_active - 1
        base *= 1 + cost.expert_share * more
    return base + work + cost.e * batch.prefill_square + cost.d * batch.context_tokens + cost.host


def distinct_experts(experts: int, active: int, tokens: int) -> float:
    """Experts that at least one of the tokens is sent to, each to `active` of them by chance: E*(1 - (1 - k/E)^n)."""
    return experts * (1 - (1 - active / experts) ** tokens)


def _between_knots(knots: tuple[tuple[int, float], ...], tokens: int) -> float:
    at = bisect_right(knots, (tokens, float("inf")))
    if at == 0 or len(knots) == 1:
        return knots[0][1]
    (x0, y0), (x1, y1) = knots[at - 1 : at + 1] if at < len(knots) else knots[-2:]
    return y0 + (y1 - y0) * (tokens - x0) / (x1 - x0)


def largest_safe_token_budget(cost: CostModel, gap_ms: float, decode_seqs: int, kv_tokens: int) -> int:
    """Most prefill tokens an iteration may take so that its decodes keep a token gap of `gap_ms`; 0: none.

    (T2 - a - c*B - d*K - host) / b, with B `decode_seqs` and K `kv_tokens`; the e term is left out, so long
    contexts make the true budget smaller. Published rows scaled to an 8B at Q4_K_M give 785 for an RTX 3090, 106 for a
    P40 and 33 for an M2 Pro at 150 ms; figures of 130 and 42 belong to the rows' own 7B, and 590 to b = 0.235, a
    slower 3090 than its row. Raises ValueError when prefill tokens cost (next to) nothing: no budget is too large.
    """
    if not cost.knots and not cost.experts:
        if cost.b <= 0:
            raise ValueError("b must be above 0: without a cost per prefill token every budget is safe")
        left_ms = gap_ms - cost.a - cost.c * decode_seqs - cost.d * kv_tokens - cost.host
        if left_ms <= 0:
            return 0
        if left_ms >= cost.b * MOST_TOKENS:
            raise ValueError("prefill tokens must cost something: without that every budget is safe")
        return floor(left_ms / cost.b)

    def safe(tokens: int) -> bool:
        return iteration_ms(cost, BatchShape(tokens, 0, max(1, decode_seqs), kv_tokens)) <= gap_ms

    if safe(MOST_TOKENS):
        raise ValueError("prefill tokens must cost something: without that every budget is safe")
    low, high = 0, MOST_TOKENS
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if safe(middle) else (low, middle)
    return low
