"""Student's t distribution: how much wider an interval must be when its own spread had to be estimated."""

import math
from functools import cache

FRACTIONS = 200  # of the continued fraction; it has converged long before


def p_value(t: float, freedom: float) -> float:
    """Two-sided: P(|T| >= |t|) with `freedom` degrees of freedom > 0. inf gives 0."""
    if math.isinf(t):
        return 0.0
    return _incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)


@cache
def t95(freedom: int) -> float:
    """Two-sided 95 % point: 12.706 for 1 degree of freedom, 2.262 for 9, 1.960 for many."""
    low, high = 1.9, 13.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if p_value(middle, freedom) > 0.05 else (low, middle)
    return (low + high) / 2


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Regularised I_x(a, b) by its continued fraction (Abramowitz and Stegun 26.5.8, Lentz's method)."""
    if x <= 0.0 or x >= 1.0:
        return min(max(x, 0.0), 1.0)
    if x > (a + 1.0) / (a + b + 2.0):  # where the fraction of the complement converges faster
        return 1.0 - _incomplete_beta(1.0 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, FRACTIONS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        step = 1.0
        for term in (even, odd):
            d = 1.0 / (1.0 + term * d)
            c = 1.0 + term / c
            step = c * d
            value *= step
        if abs(step - 1.0) < 1e-15:
            break
    return front * value
