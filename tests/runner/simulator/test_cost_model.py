"""The iteration cost and the budget that follows from it, by hand-worked numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.simulator.cost_model import (
    BatchShape,
    CostModel,
    distinct_experts,
    iteration_ms,
    largest_safe_token_budget,
)
from runner.simulator.presets import resolve_preset


def test_every_term_counts_once():
    """t = a + b*P + e*Q + c*B + d*K + host."""
    cost = CostModel(a=8, b=0.5, c=0.25, d=0.01, e=0.001, host=2)
    batch = BatchShape(prefill_tokens=10, prefill_square=300, decode_seqs=4, context_tokens=100)
    assert iteration_ms(cost, batch) == pytest.approx(8 + 5 + 0.3 + 1 + 1 + 2)


def test_a_prefill_stands_in_only_where_nothing_decodes():
    """With a_prefill 18 and a 20, a prefill-only iteration starts at 18 and any with a decode at 20."""
    cost = CostModel(a=20, b=0.1, a_prefill=18)
    assert iteration_ms(cost, BatchShape(prefill_tokens=100)) == pytest.approx(28)
    assert iteration_ms(cost, BatchShape(prefill_tokens=100, decode_seqs=1)) == pytest.approx(30)


@pytest.mark.parametrize(("pp", "tg", "budget"), [(1007, 54.7, 132), (341, 38.9, 42)])
def test_budget_of_published_rows(pp: float, tg: float, budget: int):
    """Rows of a P40 and an M2 Pro at a 150 ms gap: (150 - 1000/tg) / (1000/pp), the design page's 130 and 42."""
    assert largest_safe_token_budget(CostModel(a=1000 / tg, b=1000 / pp), 150, 0, 0) == budget


def test_budget_counts_decodes_and_context():
    """(150 - 10 - 0.5*8 - 0.001*16000) / 0.25 = 480."""
    assert largest_safe_token_budget(CostModel(a=10, b=0.25, c=0.5, d=0.001), 150, 8, 16_000) == 480


def test_no_budget_when_decodes_alone_are_too_slow():
    """A machine that needs 200 ms for a decode has no safe budget at 150 ms."""
    assert largest_safe_token_budget(CostModel(a=200, b=1), 150, 1, 0) == 0


def test_budget_without_prefill_cost_is_refused():
    """b = 0 would make every budget safe; that is a mistake, not an answer. So is one that is next to nothing."""
    with pytest.raises(ValueError, match="every budget is safe"):
        largest_safe_token_budget(CostModel(a=1, b=1e-320), 150, 0, 0)
    assert largest_safe_token_budget(CostModel(a=200, b=1e-320), 150, 0, 0) == 0
    with pytest.raises(ValueError, match="b must be above 0"):
        largest_safe_token_budget(CostModel(a=1, b=0), 150, 1, 0)


@given(
    st.floats(0.1, 50),
    st.floats(0.01, 5),
    st.floats(0, 1),
    st.floats(0, 1e-3),
    st.integers(0, 64),
    st.integers(0, 90000),
)
def test_the_budget_keeps_the_gap_and_the_next_token_breaks_it(
    a: float, b: float, c: float, d: float, decodes: int, context: int
):
    """The budget is the largest one whose iteration stays within the gap."""
    cost = CostModel(a, b, c, d)
    budget = largest_safe_token_budget(cost, 150, decodes, context)
    if budget:
        assert iteration_ms(cost, BatchShape(budget, 0, decodes, context)) <= 150 + 1e-6
    assert iteration_ms(cost, BatchShape(budget + 1, 0, decodes, context)) >= 150 - 1e-6


KNOTS = ((1, 10.0), (2, 10.0), (8, 16.0), (16, 32.0))


@pytest.mark.parametrize(
    ("prefill", "decodes", "ms"), [(0, 1, 10), (0, 2, 10), (0, 5, 13), (4, 4, 16), (12, 0, 24), (20, 4, 48), (0, 0, 10)]
)
def test_knots_stand_in_for_the_linear_part(prefill: int, decodes: int, ms: float):
    """Halfway between (2, 10) and (8, 16) lies (5, 13); behind the last knot its piece goes on, 2 ms a token."""
    cost = CostModel(a=999, b=999, c=999, d=0.5, host=1, knots=KNOTS)
    assert iteration_ms(cost, BatchShape(prefill, 0, decodes, 6)) == pytest.approx(ms + 0.5 * 6 + 1)


def test_budget_by_knots():
    """40 ms less 0.001*1000 for the context: f(P+4) = 39 is reached at 19.5 tokens, so 15 beside 4 decodes."""
    assert largest_safe_token_budget(CostModel(0, 0, d=0.001, knots=KNOTS), 40, 4, 1000) == 15
    with pytest.raises(ValueError, match="every budget is safe"):
        largest_safe_token_budget(CostModel(0, 0, knots=((1, 5.0), (2, 5.0))), 40, 0, 0)


def test_distinct_experts():
    """One token reads its own 2 of 4; two tokens 4*(1 - 1/4) = 3; very many read all."""
    assert distinct_experts(4, 2, 1) == pytest.approx(2)
    assert distinct_experts(4, 2, 2) == pytest.approx(3)
    assert distinct_experts(4, 2, 1000) == pytest.approx(4)


def test_experts_make_a_batch_dearer_than_one_token():
    """Half of a = 8 is experts: one decode 8, two 4 + 4*3/2 = 10, very many 4 + 4*4/2 = 12."""
    cost = CostModel(a=8, b=0, experts=4, experts_active=2, expert_share=0.5)
    assert [iteration_ms(cost, BatchShape(decode_seqs=n)) for n in (1, 2, 1000)] == pytest.approx([8, 10, 12])


@pytest.mark.parametrize(("device", "budget"), [("rtx3090", 785), ("p40", 106), ("m2-pro", 33)])
def test_budget_of_an_8b_by_its_preset(device: str, budget: int):
    """Rows scaled to 8.03e9 parameters at 0.61 bytes: (150 - a)/b by hand, e.g. (150 - 7.494)/0.18142 = 785."""
    assert largest_safe_token_budget(resolve_preset(f"{device}/llama-3.1-8b/q4_k_m").cost, 150, 0, 0) == budget


@given(st.lists(st.tuples(st.integers(1, 64), st.floats(0, 20)), min_size=1, max_size=6), st.integers(1, 200))
def test_a_larger_batch_is_never_cheaper(pieces: list[tuple[int, float]], tokens: int):
    """Knots that never fall make a cost that never falls."""
    at, ms, knots = 0, 1.0, []
    for more_tokens, more_ms in pieces:
        at, ms = at + more_tokens, ms + more_ms
        knots.append((at, ms))
    cost = CostModel(0, 0, knots=tuple(knots))
    assert iteration_ms(cost, BatchShape(tokens + 1)) >= iteration_ms(cost, BatchShape(tokens)) >= knots[0][1] - 1e-9
