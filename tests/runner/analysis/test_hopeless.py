"""When a running cell is given up: misses that no pass allows, and nothing that is not surely one."""

import pytest

from runner.analysis.goodput import judge, verdicts
from runner.analysis.hopeless import Hopes, surely_missed
from runner.analysis.requests import request_table
from runner.config import GapRule, Slo
from tests.support.tables import SECOND, make_config, make_request, make_tables

SLO = Slo(ttft_ms=1000, gap_ms=150)


def hopes(planned: int, share_target: float = 0.90) -> Hopes:
    return Hopes({"chat": SLO}, {"chat": planned}, share_target, 10 * SECOND, 110 * SECOND)


@pytest.mark.parametrize(("planned", "allowed"), [(50, 1), (100, 4), (200, 12), (400, 29), (1000, 84)])
def test_one_miss_more_than_the_table_allows_ends_it(planned: int, allowed: int) -> None:
    """The counts of the metrics page: as many misses go on, the next one says how many there were."""
    cell = hopes(planned)
    told = [cell.note(make_request(n, at_ms=20_000, ttft_ms=1500)) for n in range(allowed + 1)]
    assert told[:-1] == [None] * allowed
    assert told[-1] == (
        f"cut short: {allowed + 1} of the {planned} requests of class chat had missed their targets already, and no "
        f"more than {allowed} may for a share of 90 %"
    )


def test_what_is_no_miss_of_the_window_does_not_count() -> None:
    """Requests that meet their targets, of the warm-up, of after the window, and of a class that is not looked at."""
    cell = hopes(50)
    for n in range(100):
        assert cell.note(make_request(n, at_ms=20_000, ttft_ms=900)) is None
        assert cell.note(make_request(n, at_ms=9_999, ttft_ms=1500)) is None
        assert cell.note(make_request(n, at_ms=110_000, ttft_ms=1500)) is None
        assert cell.note(make_request(n, at_ms=20_000, ttft_ms=1500, class_name="jobs")) is None


def test_a_class_too_small_to_prove_anything_is_never_given_up() -> None:
    """28 requests cannot prove 90 % even without a miss: their misses say nothing that was not known before."""
    cell = hopes(28)
    assert {cell.note(make_request(n, at_ms=20_000, ttft_ms=1500)) for n in range(28)} == {None}


@pytest.mark.parametrize("rule", ["p99_gap", "every_gap", "mean_tpot", "deadline", "fluidity"])
def test_a_sure_miss_is_one_of_the_whole_table(rule: GapRule) -> None:
    """Never more than the judgement of the finished table, and for the rules without deadlines the same."""
    slo = Slo(ttft_ms=1000, gap_ms=150, rule=rule)
    gaps = [(), (10.0,), (150.0, 10.0), (151.0, 10.0), (10.0,) * 98 + (400.0,), (10.0,) * 100 + (400.0,),
            (10.0,) * 299 + (400.0, 400.0, 400.0, 400.0), (200.0,) * 20]  # fmt: skip
    records = [
        make_request(n, at_ms=n, ttft_ms=t, gaps_ms=g)
        for n, (t, g) in enumerate((t, g) for t in (900, 1001) for g in gaps)
    ]
    records += [
        make_request(90, at_ms=90, ttft_ms=None, outcome="error", error_kind="timeout"),
        make_request(91, at_ms=91, ttft_ms=None, outcome="cancelled", error_kind="cancelled"),
        make_request(92, at_ms=92, ttft_ms=1200, outcome="cancelled", error_kind="cancelled"),
        make_request(93, at_ms=93, ttft_ms=500, gaps_ms=(400.0,), outcome="cancelled", error_kind="cancelled"),
    ]  # fmt: skip
    rows = request_table(make_tables(records), make_config())
    whole = [w == "missed" for w in verdicts(rows, judge(rows, {"chat": slo}))]
    sure = [surely_missed(r, slo) for r in records]
    assert all(w for s, w in zip(sure, whole, strict=True) if s)
    if rule in ("p99_gap", "every_gap", "mean_tpot"):
        assert sure == whole
