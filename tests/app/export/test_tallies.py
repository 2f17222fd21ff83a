"""Counts on target steps: exact at every step a slider can stop at."""

import numpy as np
import pandas as pd
import pytest

from app.export.tallies import DIGITS, make_tallies, met_and_judged
from runner.analysis.result import build_result
from runner.config import Slo
from tests.app.views.made_up import made_up_requests, made_up_result, made_up_tables, windows


def small(**changes: list[object]) -> pd.DataFrame:
    """Four chats: in time, late first token, stalled, and one that is given."""
    table: dict[str, list[object]] = {
        "cell": [0, 0, 0, 0],
        "class_name": ["chat"] * 4,
        "in_window": [True] * 4,
        "ttft_ms": [1000.0, 1000.1, 10.0, 10.0],
        "waited_ms": [np.nan] * 4,
        "gap_p99_ms": [150.0, 10.0, 150.1, np.nan],
        "completed": [True] * 4,
        "cancelled": [False] * 4,
    }
    return pd.DataFrame({**table, **changes})


RESULT = {
    "targets": {"chat": {"ttft_ms": 1000, "gap_ms": 150, "rule": "p99_gap"}},
    "cells": [{"cell": 0, "status": "ok", "setting": {}, "goodput_per_s": 0.02}],
}


def counts(requests: pd.DataFrame) -> tuple[int, int]:
    tallies = make_tallies(RESULT, requests)
    assert tallies is not None
    k = tallies["classes"][0]
    return met_and_judged(tallies["cells"]["0"]["rows"], 0, k["ttft"], k["gap"])


def test_limits_are_inclusive() -> None:
    """Exactly at the target is met, above it is not; without gaps the gap rule is vacuous."""
    assert counts(small()) == (2, 4)


def test_lost_requests_are_misses() -> None:
    """Failed and rejected ones stay in the denominator, whatever arrived before."""
    assert counts(small(completed=[False, True, True, True])) == (1, 4)


def test_cut_requests_are_censored_unless_already_late() -> None:
    """Cut by our own end of run: unknown, but a first token already late is a miss, also while still waited for."""
    cut = {"completed": [False] * 4, "cancelled": [True] * 4}
    assert counts(small(**cut)) == (0, 1)  # only the one at 1000.1 ms is late
    waited = {"ttft_ms": [np.nan] * 4, "waited_ms": [999.0, 1000.0, 1001.0, 5000.0]}
    assert counts(small(**cut, **waited)) == (0, 2)


def test_window_comes_from_the_goodput_when_it_is_not_given() -> None:
    """2 met requests at 0.02/s: 100 s."""
    tallies = make_tallies(RESULT, small())
    assert tallies is not None
    assert tallies["cells"]["0"]["window_s"] == pytest.approx(100)
    given = make_tallies(RESULT, small(), {0: 50.0})
    assert given is not None
    assert given["cells"]["0"]["window_s"] == 50


@pytest.mark.parametrize("rule", ["deadline", "fluidity"])
def test_rules_that_need_every_chunk_have_no_sliders(rule: str) -> None:
    """Such rules can't be moved from one number a request."""
    moved = {**RESULT, "targets": {"chat": {"ttft_ms": 1000, "gap_ms": 150, "rule": rule}}}
    assert make_tallies(moved, small()) is None


@pytest.mark.parametrize(("ttft_ms", "gap_ms"), [(1000, 150), (500, 40), (3000, 300), (60_000, 3000)])
def test_tallies_agree_with_the_analysis_at_other_targets(ttft_ms: float, gap_ms: float) -> None:
    """Moving the sliders gives the same share as scoring the raw requests anew, in every cell and class."""
    tallies = make_tallies(made_up_result(), made_up_requests(), windows())
    assert tallies is not None
    scored = build_result(made_up_tables(), targets={n: Slo(ttft_ms=ttft_ms, gap_ms=gap_ms) for n in ("chat", "rag")})
    for cell in scored["cells"]:
        if cell["status"] != "ok":
            continue
        for index, k in enumerate(tallies["classes"]):
            steps = k["ttft_steps_ms"].index(ttft_ms), k["gap_steps_ms"].index(gap_ms)
            met, judged = met_and_judged(tallies["cells"][str(cell["cell"])]["rows"], index, *steps)
            row = cell["classes"][k["name"]]
            assert (met, judged) == (row["met"], row["judged"])


def test_requests_are_told_in_order_of_arrival() -> None:
    """Two letters a request name its kind; request numbers stand as runs; classes without targets are left out."""
    names: list[object] = ["chat", "chat", "batch", "chat"]
    tallies = make_tallies(RESULT, small(class_name=names).assign(request=[7, 8, 9, 12]))
    assert tallies is not None
    cell = tallies["cells"]["0"]
    assert cell["order"]["requests"] == [[7, 2], [12, 1]]
    letters = cell["order"]["kinds"]
    places = [64 * DIGITS.index(letters[i]) + DIGITS.index(letters[i + 1]) for i in (0, 2, 4)]
    k = tallies["classes"][0]
    in_time = [f <= k["ttft"] and g <= k["gap"] for _, _, f, g, _ in (cell["rows"][p] for p in places)]
    assert in_time == [True, False, True]


def test_very_many_requests_are_not_told_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit a page keeps its size: counts alone."""
    monkeypatch.setattr("app.export.tallies.MOST_IN_ORDER", 3)
    tallies = make_tallies(RESULT, small().assign(request=range(4)))
    assert tallies is not None
    assert tallies["cells"]["0"]["order"] is None


def test_the_send_lag_that_counts_is_the_one_after_those_excused() -> None:
    """One late send of four is a hiccup: the next one decides; those our dispatcher holds back never do."""
    driven = {"send_lag_ms": [3.0, 50.0, 12.0, 99.0], "closed": [False] * 4, "capped": [False, False, False, True]}
    tallies = make_tallies(RESULT, small().assign(**driven))
    assert tallies is not None
    assert tallies["cells"]["0"]["lag_ms"] == 12.0


def test_an_answer_without_a_first_token_is_never_in_time() -> None:
    """Ended well and empty: a miss at every step, as in the analysis."""
    assert counts(small(ttft_ms=[np.nan, 1.0, 1.0, 1.0])) == (2, 4)
