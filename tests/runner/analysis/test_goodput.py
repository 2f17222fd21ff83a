"""Targets: five gap rules against hand-worked cases and plain loops, and the censoring rules."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.analysis.gaps import gap_table
from runner.analysis.goodput import RULES, fluidity, judge, stalled_but_fine_on_average, verdicts
from runner.analysis.requests import request_table
from runner.config import GapRule, Slo
from storage.records import RequestRecord
from tests.support.tables import MS, make_config, make_request, make_tables

TARGET = Slo(ttft_ms=1000, gap_ms=150)
CONFIG = make_config()


def verdict(record: RequestRecord, rule: GapRule | None = None, target: Slo = TARGET) -> str | None:
    rows = request_table(make_tables([record]), CONFIG)
    return verdicts(rows, judge(rows, {"chat": target}), rule).tolist()[0]


def by_rule(record: RequestRecord, target: Slo = TARGET) -> dict[str, str | None]:
    rows = request_table(make_tables([record]), CONFIG)
    judged = judge(rows, {"chat": target})
    return {rule: verdicts(rows, judged, rule).tolist()[0] for rule in RULES}


def met_by_rule(requests: Sequence[tuple[float, list[float]]], target: Slo) -> dict[str, list[bool]]:
    """For many requests (TTFT, gaps in ms) at once: does each meet its target under each rule?"""
    records = [make_request(i, at_ms=i, ttft_ms=ttft, gaps_ms=gaps) for i, (ttft, gaps) in enumerate(requests)]
    rows = request_table(make_tables(records), CONFIG)
    judged = judge(rows, {"chat": target})
    return {rule: (verdicts(rows, judged, rule) == "met").tolist() for rule in RULES}


def test_targets_are_inclusive() -> None:
    """Exactly on the target is met; one microsecond more is missed."""
    assert verdict(make_request(ttft_ms=1000, gaps_ms=[150] * 5)) == "met"
    assert verdict(make_request(ttft_ms=1000.001, gaps_ms=[150] * 5)) == "missed"
    assert verdict(make_request(ttft_ms=1000, gaps_ms=[150] * 4 + [150.001])) == "missed"


def test_one_stall_among_a_hundred_gaps() -> None:
    """Up to 99 gaps every gap must hold; with 100 one may stall under p99_gap, never under every_gap."""
    assert by_rule(make_request(gaps_ms=[40] * 98 + [400]))["p99_gap"] == "missed"
    hundred = by_rule(make_request(gaps_ms=[40] * 99 + [400]))
    assert hundred["p99_gap"] == "met"
    assert hundred["every_gap"] == "missed"
    assert hundred["mean_tpot"] == "met"


def test_the_mean_is_blind_to_a_freeze() -> None:
    """A two-second freeze among 40 ms gaps passes on the mean TPOT; that row is listed as stalled."""
    record = make_request(gaps_ms=[40] * 49 + [2000])
    assert by_rule(record) == {
        "p99_gap": "missed",
        "mean_tpot": "met",
        "every_gap": "missed",
        "deadline": "met",  # 900 ms early with the first token, 110 ms saved at each gap
        "fluidity": "met",
    }
    rows = request_table(make_tables([record]), CONFIG)
    assert stalled_but_fine_on_average(rows, judge(rows, {"chat": TARGET})).tolist() == [True]


def test_deadline_spends_the_time_saved_before() -> None:
    """y_i <= s + T1 + (i-1) T2: 900 ms saved at the first token allow a second gap of exactly 1050 ms."""
    assert verdict(make_request(ttft_ms=100, gaps_ms=[1050]), "deadline") == "met"
    assert verdict(make_request(ttft_ms=100, gaps_ms=[1050.001]), "deadline") == "missed"
    assert verdict(make_request(ttft_ms=1000, gaps_ms=[150, 150, 150]), "deadline") == "met"
    assert verdict(make_request(ttft_ms=1000, gaps_ms=[100, 201]), "deadline") == "missed"


def test_one_chunk_makes_the_gap_rule_vacuous() -> None:
    """n = 1: only TTFT decides, under every rule."""
    assert set(by_rule(make_request(ttft_ms=999)).values()) == {"met"}
    assert set(by_rule(make_request(ttft_ms=1001)).values()) == {"missed"}


@pytest.mark.parametrize("kind", ["timeout", "rate_limited", "overloaded", "truncated"])
def test_errors_are_misses(kind: str) -> None:
    """Rejected, failed and timed-out requests are misses, however fast their first token was."""
    assert set(by_rule(make_request(ttft_ms=10, outcome="error", error_kind=kind)).values()) == {"missed"}


def test_cut_by_our_own_end_is_censored_unless_already_late() -> None:
    """Cancelled: censored with a timely or still possible first token, missed once the first token is late."""
    assert verdict(make_request(ttft_ms=100, gaps_ms=[900], outcome="cancelled")) == "censored"
    assert verdict(make_request(ttft_ms=None, end_ns=900 * MS, outcome="cancelled")) == "censored"
    assert verdict(make_request(ttft_ms=None, end_ns=1001 * MS, outcome="cancelled")) == "missed"
    assert verdict(make_request(ttft_ms=1001, outcome="cancelled")) == "missed"
    assert verdict(make_request(ttft_ms=None, sent_ns=None, end_ns=None, outcome="cancelled")) == "censored"


def test_background_has_no_verdict_and_classes_keep_their_own_rule() -> None:
    """A class without targets is None; without an override each class is judged by its own rule."""
    stall = [40.0] * 49 + [2000.0]
    records = [make_request(i, class_name=c, gaps_ms=stall) for i, c in enumerate(("chat", "rag", "background"))]
    rows = request_table(make_tables(records), CONFIG)
    targets = {"chat": TARGET, "rag": Slo(ttft_ms=1000, gap_ms=150, rule="mean_tpot")}
    words = verdicts(rows, judge(rows, targets))
    assert dict(zip(rows["class_name"], words, strict=True)) == {"chat": "missed", "rag": "met", "background": None}


def test_fluidity_by_hand() -> None:
    """T1 100, T2 10: on time, then 25 ms late despite 5 ms of slack (three deadlines pass), then anew from there."""
    # first token at 95: slack 5; gap 10: slack 5; gap 40: the deadlines at 15, 25 and 35 pass, slack 0; gap 10: met
    rows = request_table(make_tables([make_request(ttft_ms=95, gaps_ms=[10, 40, 10])]), CONFIG)
    value = fluidity(gap_table(rows), np.array([95.0]), np.array([100.0]), np.array([10.0]))
    assert value.tolist() == [3 / 6]


def etalon_loop(ttft_us: int, gaps_us: Sequence[int], t1_us: int, t2_us: int) -> float:
    """Deadline by deadline: a late token misses each deadline up to its arrival, then they start anew from there."""
    met = missed = now = 0
    due = t1_us
    for wait in (ttft_us, *gaps_us):
        now += wait
        if now <= due:
            met += 1
            due += t2_us
            continue
        while due <= now:
            missed += 1
            due += t2_us
        due = now + t2_us
    return met / (met + missed)


@given(
    st.lists(st.tuples(st.integers(0, 3000), st.lists(st.integers(0, 900), max_size=40)), min_size=1, max_size=5),
    st.integers(1, 2000),
    st.integers(1, 300),
)
def test_fluidity_equals_the_deadline_by_deadline_count(
    requests: list[tuple[int, list[int]]], t1: int, t2: int
) -> None:
    """The vectorised form (running minimum of the slack) gives what a plain loop over deadlines gives."""
    records = [make_request(i, at_ms=i, ttft_ms=ttft, gaps_ms=g) for i, (ttft, g) in enumerate(requests)]
    gaps = gap_table(make_tables(records).requests)
    ttft = np.array([float(t) for t, _ in requests])
    got = fluidity(gaps, ttft, np.full(len(ttft), float(t1)), np.full(len(ttft), float(t2)))
    assert got.tolist() == [etalon_loop(t, g, t1, t2) for t, g in requests]


REQUESTS = st.lists(
    st.tuples(
        st.floats(0, 2000).map(lambda v: round(v, 3)),
        st.lists(st.floats(0, 400).map(lambda v: round(v, 3)), max_size=120),
    ),
    min_size=1,
    max_size=10,
)


@given(REQUESTS, st.floats(1, 2000), st.floats(0.5, 400))
def test_nothing_is_lost_by_leaving_out_quick_answers(
    requests: list[tuple[float, list[float]]], t1: float, t2: float
) -> None:
    """Gaps are looked at only where something was late: the same verdicts as over the gaps of all answers."""
    rows = request_table(
        make_tables(make_request(i, ttft_ms=t, gaps_ms=g) for i, (t, g) in enumerate(requests)), CONFIG
    )
    judged = judge(rows, {"chat": Slo(ttft_ms=t1, gap_ms=t2, fluidity=0.9)})
    gaps, n = gap_table(rows), len(rows)
    ttft = rows["ttft_ms"].to_numpy(dtype=np.float64)
    kept = fluidity(gaps, ttft, np.full(n, t1), np.full(n, t2))
    assert judged.gap_ok["fluidity"].tolist() == (~(kept < 0.9)).tolist()
    behind = gaps.per_row(gaps.elapsed_us * 1000 - gaps.order * round(t2 * 1e6), np.maximum, -np.inf)
    assert judged.gap_ok["deadline"].tolist() == (~(behind > (t1 - ttft) * 1e6 + 0.5)).tolist()


@settings(max_examples=30)
@given(REQUESTS)
def test_rules_imply_one_another(requests: list[tuple[float, list[float]]]) -> None:
    """every_gap implies all others; deadline implies fluidity; TTFT binds all."""
    met = met_by_rule(requests, TARGET)
    for i, (ttft, _) in enumerate(requests):
        holds = {rule for rule in RULES if met[rule][i]}
        assert "every_gap" not in holds or holds == set(RULES)
        assert "deadline" not in holds or "fluidity" in holds
        assert ttft <= TARGET.ttft_ms or not holds


@settings(max_examples=30)
@given(REQUESTS)
def test_looser_targets_never_turn_met_into_missed(requests: list[tuple[float, list[float]]]) -> None:
    """Whatever meets a target under a rule meets it with both targets twice as long."""
    tight, loose = met_by_rule(requests, TARGET), met_by_rule(requests, Slo(ttft_ms=2000, gap_ms=300))
    assert all(b or not a for rule in RULES for a, b in zip(tight[rule], loose[rule], strict=True))


def test_own_p99_gap_matches_the_count_definition() -> None:
    """p99_gap is met exactly if at least 99 % of the gaps are within the target, at 100, 101 and 300 gaps."""
    for n, stalls in ((100, 1), (100, 2), (101, 1), (101, 2), (300, 3), (300, 4)):
        word = verdict(make_request(gaps_ms=[40.0] * (n - stalls) + [500.0] * stalls), "p99_gap")
        assert word == ("met" if n - stalls >= math.ceil(0.99 * n) else "missed")
