"""The iteration cost and the budget that follows from it, by hand-worked numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.simulator.cost_model import BatchShape, CostModel, iteration_ms, largest_safe_token_budget


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
    """b = 0 would make every budget safe; that is a mistake, not an answer."""
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
