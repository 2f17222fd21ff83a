"""From designed requests to the cost of an iteration: exact where time is calculated."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.calibration.design import SEQS, Step, specs_of, steps_for
from runner.calibration.fit import FIRST, NAMES, Row, fit_cost, nnls, pace_of, rows_of, seats_seen
from runner.load.workload import Trace
from runner.simulator.cost_model import CostModel
from runner.simulator.presets import EngineProfile
from runner.simulator.settings import ServerSettings
from runner.simulator.state import Knobs
from runner.simulator.virtual_records import records_of
from runner.simulator.virtual_time import Span, run_virtual
from storage.records import RequestRecord
from tests.support.tables import make_request

MINUTE_NS = 60 * 10**9
TRUE = CostModel(a=8.3, b=0.235, c=0.1, d=2e-4, e=4e-6)


def calculated(steps: Sequence[Step], cost: CostModel, scheduler: str, seats: int = 16) -> list[list[RequestRecord]]:
    """What an engine of that cost answers to each step, in virtual time."""
    knobs = Knobs(max_num_seqs=seats, max_num_batched_tokens=2048, kv_unified=True)
    settings = ServerSettings(EngineProfile(cost, 65_536, False, "test"), knobs, scheduler)
    span = Span(10**9, MINUTE_NS, MINUTE_NS, 10**9)
    runs = [run_virtual(Trace(tuple(specs_of(s, i, 7))), settings, span, max_in_flight={}) for i, s in enumerate(steps)]
    return [records_of(run, 0, MINUTE_NS, 10**6) for run in runs]


def rows(steps: Sequence[Step], records: Sequence[Sequence[RequestRecord]]) -> list[Row]:
    return [row for step, found in zip(steps, records, strict=True) for row in rows_of(step, found)]


@pytest.mark.parametrize(("scheduler", "a_prefill"), [("vllm_v1", 8.3), ("llama_cpp", 14.0), ("vllm_v0", 8.3)])
def test_the_engine_s_own_constants_come_back(scheduler: str, a_prefill: float) -> None:
    """To a part in ten thousand, which is the microsecond that token times are kept in, of gaps of 8 ms; `c` and `d`
    are small parts of a gap and get it a hundredfold."""
    steps = steps_for(16, None, None)
    true = CostModel(a=8.3, b=0.235, c=0.1, d=2e-4, e=4e-6, a_prefill=a_prefill)
    fit = fit_cost(rows(steps, calculated(steps, true, scheduler)))
    assert fit.cost.a == pytest.approx(true.a, rel=1e-4)
    assert fit.cost.a_prefill == pytest.approx(a_prefill, rel=1e-4)
    assert fit.cost.b == pytest.approx(true.b, rel=1e-4)
    assert fit.cost.c == pytest.approx(true.c, rel=1e-2)
    assert fit.cost.d == pytest.approx(true.d, rel=1e-2)
    assert fit.cost.e == pytest.approx(true.e, rel=1e-2)
    assert fit.worst_error < 1e-3
    for name in ("a", "b", "c", "d", "e"):
        assert fit.low[name] <= getattr(fit.cost, name) * 1.01
        assert fit.high[name] >= getattr(fit.cost, name) * 0.99


def test_a_stall_in_one_round_is_no_cost() -> None:
    """Of three rounds the middle one counts, however late the worst was."""
    steps = steps_for(4, None, None)
    found = rows(steps, calculated(steps, TRUE, "vllm_v1"))
    late = [replace(row, ms=row.ms * (5 if i < len(found) / 3 else 1)) for i, row in enumerate(found)]
    before, after = fit_cost(found).cost, fit_cost(late).cost
    assert [getattr(after, k) for k in NAMES] == pytest.approx([getattr(before, k) for k in NAMES], rel=1e-2)


def test_the_pace_is_how_much_slower_it_got() -> None:
    """Every iteration half as long again is a pace of 1.5; without any there is none."""
    steps = steps_for(4, None, None, rounds=1)
    found = rows(steps, calculated(steps, TRUE, "vllm_v1"))
    cost = replace(TRUE, a_prefill=TRUE.a)
    assert pace_of(found, cost) == pytest.approx(1.0, abs=1e-3)
    assert pace_of([replace(row, ms=1.5 * row.ms) for row in found], cost) == pytest.approx(1.5, abs=2e-3)
    assert pace_of([], cost) is None


def test_a_server_of_one_answer_at_a_time_is_found_out() -> None:
    """Requests sent together answer one after another: no gap is of two, and `c` stays in `a`."""
    steps = steps_for(None, None, None, rounds=1)
    records = calculated(steps, TRUE, "llama_cpp", seats=1)
    assert seats_seen(steps, records) == 1
    found = rows(steps, records)
    assert max(row.seqs for row in found) == 1
    fit = fit_cost(found)
    assert fit.cost.c == 0.0
    assert fit.cost.a == pytest.approx(TRUE.a + TRUE.c, rel=1e-3)


def test_seats_that_are_never_short_are_not_known() -> None:
    """Sixteen together on sixteen seats: there may be more."""
    steps = steps_for(None, None, None, rounds=1)
    assert seats_seen(steps, calculated(steps, TRUE, "vllm_v1")) is None
    assert seats_seen(steps, calculated(steps, TRUE, "vllm_v1", seats=4)) == 4


def test_the_plan_fits_what_the_server_can_hold() -> None:
    """No prompt over its context with the answer, no more at once than it has seats or cache for."""
    for step in steps_for(4, 512, 2048):
        assert step.seqs <= 4
        assert step.prompt_tokens + step.output_tokens <= 512
        assert step.seqs * (step.prompt_tokens + step.output_tokens) <= 2048
    assert {s.seqs for s in steps_for(None, None, None)} == set(SEQS)


def test_tokens_that_come_in_lumps_are_no_iterations() -> None:
    """Four tokens a chunk: the first token counts, the gaps do not; of a failed request nothing does."""
    lumpy = make_request(ttft_ms=50.0, gaps_ms=[40.0] * 9, output_tokens=40, prompt_tokens=100)
    assert rows_of(Step(1, 100, 40), [lumpy]) == [Row(100, 0, 0.0, 50.0, (1, 100, FIRST))]
    failed = make_request(ttft_ms=None, outcome="error", error_kind="timeout", output_tokens=None)
    assert rows_of(Step(2, 100, 40), [lumpy, failed]) == []


def test_what_a_cache_gave_is_no_prompt() -> None:
    """Only the tokens that were computed took the time."""
    hit = make_request(ttft_ms=50.0, prompt_tokens=100, cached_prompt_tokens=60, output_tokens=1)
    assert rows_of(Step(1, 100, 1), [hit]) == [Row(40, 0, 0.0, 50.0, (1, 100, FIRST))]


@pytest.mark.parametrize("found", [[], [Row(10, 0, 0.0, 5.0)], [Row(0, 1, 10.0, 5.0)]])
def test_a_fit_needs_first_tokens_and_gaps(found: list[Row]) -> None:
    """Either alone leaves half of the model unknown."""
    with pytest.raises(ValueError, match="first tokens and gaps"):
        fit_cost(found)


def test_a_coefficient_that_would_be_negative_is_zero() -> None:
    """y = 3 - x on x = 0, 1, 2: with b >= 0 the best line is the mean, 2."""
    x = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    assert nnls(x, np.array([3.0, 2.0, 1.0])) == pytest.approx([2.0, 0.0])
    assert nnls(x, np.array([1.0, 3.0, 5.0])) == pytest.approx([1.0, 2.0])
    assert nnls(np.zeros((3, 2)), np.ones(3)) == pytest.approx([0.0, 0.0])


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 12))
def test_no_neighbour_of_the_solution_is_better(seed: int, columns: int, extra: int) -> None:
    """Karush, Kuhn and Tucker: the slope is 0 where a coefficient is above 0, and not downhill where it is 0."""
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(columns + extra, columns)), random.normal(size=columns + extra)
    b = nnls(x, y)
    slope = x.T @ (x @ b - y)
    assert (b >= 0).all()
    assert np.abs(slope[b > 0]).max(initial=0.0) < 1e-6
    assert slope[b == 0].min(initial=0.0) > -1e-6
