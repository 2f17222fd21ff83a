"""What one iteration costs: the linear model behind the built-in engine, the what-if runs and the calibration."""

from dataclasses import dataclass
from math import floor


@dataclass(frozen=True, slots=True)
class CostModel:
    """Coefficients in milliseconds: t = a + b*P + e*Q + c*B + d*K + host.

    P: new prefill tokens; Q: sum of chunk*(2*context + chunk) over prefill chunks; B: decode sequences;
    K: context tokens read by the decodes. `a_prefill` stands in for `a` in iterations without a decode.
    """

    a: float
    b: float
    c: float = 0.0
    d: float = 0.0
    e: float = 0.0
    a_prefill: float | None = None
    host: float = 0.0


@dataclass(frozen=True, slots=True)
class BatchShape:
    """What one iteration works on, as the cost model sees it."""

    prefill_tokens: int = 0
    prefill_square: int = 0  # sum of chunk*(2*context + chunk), tokens^2
    decode_seqs: int = 0
    context_tokens: int = 0  # tokens in the KV cache read by the decodes


def iteration_ms(cost: CostModel, batch: BatchShape) -> float:
    """Milliseconds of one iteration."""
    base = cost.a
    if cost.a_prefill is not None and batch.decode_seqs == 0:
        base = cost.a_prefill
    return (
        base
        + cost.b * batch.prefill_tokens
        + cost.e * batch.prefill_square
        + cost.c * batch.decode_seqs
        + cost.d * batch.context_tokens
        + cost.host
    )


def largest_safe_token_budget(cost: CostModel, gap_ms: float, decode_seqs: int, kv_tokens: int) -> int:
    """Most prefill tokens an iteration may take so that its decodes keep a token gap of `gap_ms`; 0: none.

    (T2 - a - c*B - d*K - host) / b, with B `decode_seqs` and K `kv_tokens`; the e term is left out, so long
    contexts make the true budget smaller. Raises ValueError when b is 0: then no budget is too large.
    """
    if cost.b <= 0:
        raise ValueError("b must be above 0: without a cost per prefill token every budget is safe")
    left_ms = gap_ms - cost.a - cost.c * decode_seqs - cost.d * kv_tokens - cost.host
    return max(0, floor(left_ms / cost.b))
