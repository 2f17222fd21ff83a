"""Intervals of shares against published examples, and the design effect against known dependence."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.analysis.intervals import (
    Share,
    allowed_misses,
    design_effect,
    holm,
    paired_shares,
    paired_shares_p_value,
    pool,
    wilson,
)


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718),
        (182, 263, 0.6338, 0.7447), (20, 20, 0.8389, 1.0), (28, 29, 0.8282, 0.9939),
    ],
)  # fmt: skip
def test_wilson_of_newcombe(k: int, n: int, low: float, high: float) -> None:
    """The score intervals of Newcombe (1998), table I, and the same from the other end."""
    assert wilson(k, n) == pytest.approx((low, high), abs=5e-5)


def test_wilson_without_a_miss_is_a_closed_form() -> None:
    """n of n: n / (n + 1.96^2) to 1; one of one is .2065 to 1, and 35 are the fewest that prove .90."""
    for n in (1, 34, 35, 400):
        assert wilson(n, n) == pytest.approx((n / (n + 3.841459), 1.0))
        assert wilson(0, n) == pytest.approx((0.0, 3.841459 / (n + 3.841459)))
    assert wilson(34, 34)[0] < 0.90 < wilson(35, 35)[0]


def test_a_design_effect_is_a_smaller_sample() -> None:
    """With design effect 4, 90 of 100 is as uncertain as 22.5 of 25."""
    assert wilson(90, 100, deff=4.0) == pytest.approx(wilson(22.5, 25))


@settings(max_examples=40)
@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.1, 100))
def test_the_interval_holds_the_share_and_stays_in_the_unit(k_n: tuple[int, int], deff: float) -> None:
    """0 <= low <= k/n <= high <= 1, whatever the design effect."""
    k, n = k_n
    low, high = wilson(k, n, deff)
    assert 0.0 <= low <= k / n <= high <= 1.0


def test_without_requests_nothing_is_known() -> None:
    """n = 0: the whole unit interval, and a Share without value or bounds."""
    assert wilson(0, 0) == (0.0, 1.0)
    assert Share(0, 0).value is None
    assert Share(0, 0).bounds is None


def test_design_effect_of_blocks_and_of_independent_requests() -> None:
    """Blocks of 10 equal outcomes give about 10, widened by (2.262 / 1.960)^2 for ten batches; independent ones little
    above 1; fewer than 50 or all equal exactly 1."""
    rng = np.random.default_rng(3)
    blocks = [design_effect(np.repeat(rng.random(100) < 0.7, 10)) for _ in range(200)]
    free = [design_effect(rng.random(1000) < 0.7) for _ in range(200)]
    assert 8.0 < np.mean(blocks) / 1.332 < 12.0
    assert 1.0 <= np.mean(free) < 1.7
    assert design_effect(np.ones(500, dtype=bool)) == 1.0
    assert design_effect(np.zeros(0, dtype=bool)) == 1.0
    assert design_effect(np.arange(49) < 20) == 1.0
    assert design_effect(np.arange(50) < 25) > 1.0


def test_a_crowd_widens_a_share_without_a_single_miss() -> None:
    """Outcomes that all agree say nothing about bunches of misses; how long crowds last does, by seven tenths."""
    assert design_effect(np.ones(500, dtype=bool), crowd=10.0) == 7.0
    assert design_effect(np.ones(500, dtype=bool), crowd=1.4) == 1.0


def test_pooled_repeats_add_their_effective_numbers() -> None:
    """100 requests at design effect 2 and 100 at 1 are 150 effective ones."""
    both = pool([Share(90, 100, 2.0), Share(80, 100, 1.0)])
    assert (both.met, both.judged) == (170, 200)
    assert both.judged / both.deff == pytest.approx(150)
    assert pool([]).value is None
    assert pool([Share(0, 0), Share(9, 10)]) == Share(9, 10)


def test_paired_shares_need_pairs() -> None:
    """Different lengths or nothing at all is a mistake of the caller."""
    for a, b in (([], []), ([1.0], [1.0, 2.0])):
        with pytest.raises(ValueError, match="same requests"):
            paired_shares(np.array(a), np.array(b))


@pytest.mark.parametrize(("n", "misses"), [(50, 1), (100, 4), (200, 12), (400, 29), (1000, 84)])
def test_allowed_misses_as_published(n: int, misses: int) -> None:
    """One-sided 95 % for a share of at least .90, as on the metrics page; 28 requests cannot prove it at all."""
    assert allowed_misses(n, 0.90) == misses
    assert allowed_misses(28, 0.90) == -1


def test_holm_of_a_published_example() -> None:
    """p = .01, .04, .03, .005 of four: adjusted .03, .06, .06, .02, so two of them stand at 5 % (the example of R's
    p.adjust pages and Wikipedia's Holm-Bonferroni article)."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_of_none_of_one_and_of_ones() -> None:
    """Nothing asked, nothing told; a single p value stays; none is ever more than 1."""
    assert holm([]) == []
    assert holm([0.03]) == [0.03]
    assert holm([0.9, 0.8, 0.0]) == pytest.approx([1.0, 1.0, 0.0])


def test_paired_shares_of_independent_pairs_by_hand() -> None:
    """Agresti and Min (2005): 20 pairs, 6 met on the left alone, 1 on the right alone: (6 - 1) / 22 with standard error
    sqrt(8 - 25 / 22) / 22."""
    a = np.array([True] * 6 + [False] + [True] * 13)
    b = np.array([False] * 6 + [True] + [True] * 13)
    mean, low, high = paired_shares(a, b)
    assert mean == 0.25
    assert (low + high) / 2 == pytest.approx(5 / 22)
    assert (high - low) / 2 == pytest.approx(1.959964 * (8 - 25 / 22) ** 0.5 / 22, rel=1e-6)


def test_equal_pairs_are_no_proof_of_equality() -> None:
    """100 pairs that agree: the difference is 0 and its interval +-1.96 / 102; a design effect of 4 makes 20 pairs of
    them, as differences want 1.25 times that of a share."""
    met = np.arange(100) < 90
    assert paired_shares(met, met) == pytest.approx((0.0, -1.959964 / 102, 1.959964 / 102), rel=1e-6)
    assert paired_shares(met, met, deff=4.0) == pytest.approx((0.0, -1.959964 / 22, 1.959964 / 22), rel=1e-6)
    assert paired_shares_p_value(met, met) == 1.0


@pytest.mark.parametrize("n", [1, 2, 49, 100])
def test_paired_shares_of_opposites(n: int) -> None:
    """All met against none: a difference of 1 that stays within 0..1, and p below .05 as soon as n carries it."""
    mean, low, high = paired_shares(np.ones(n, dtype=bool), np.zeros(n, dtype=bool))
    assert mean == high == 1.0
    assert (low > 0) == (paired_shares_p_value(np.ones(n, dtype=bool), np.zeros(n, dtype=bool)) < 0.05)
    assert (low > 0.9) == (n > 49)


def test_the_p_value_of_paired_shares_agrees_with_their_interval() -> None:
    """Below .05 exactly when the interval leaves 0 out."""
    rng = np.random.default_rng(8)
    found = set()
    for shift in (0.0, 0.05, 0.1, 0.2) * 10:
        a, b = rng.random(100) < 0.7 + shift, rng.random(100) < 0.7
        _, low, high = paired_shares(a, b, deff=1.5)
        found.add(low <= 0 <= high)
        assert (paired_shares_p_value(a, b, deff=1.5) >= 0.05) == (low <= 0 <= high)
    assert found == {True, False}


@pytest.mark.parametrize(
    ("share", "doubt", "n", "misses"),
    [(0.90, 0.01, 64, 1), (0.99, 0.01, 459, 0), (0.99, 0.01, 662, 1)],
)
def test_allowed_misses_of_loadgen(share: float, doubt: float, n: int, misses: int) -> None:
    """MLPerf LoadGen's early stopping at 99 % confidence (loadgen/early_stopping.cc, tolerance 0): single stream needs
    64 queries for P90 and 662 for P99 (one may be over); a server run without a miss needs 459."""
    assert allowed_misses(n, share, doubt) == misses
    assert allowed_misses(n - 1, share, doubt) == misses - 1


def test_loadgen_discards_one_less_than_may_be_over() -> None:
    """Of 2,048 queries "would discard 172 highest latency queries" (its summaries of single-stream runs at P90)."""
    assert allowed_misses(2048, 0.90, 0.01) - 1 == 172
