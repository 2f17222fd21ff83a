"""The intervals of a cell as the result tells them: ordinary, empty, single, equal and failed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from runner.analysis.result import build_result
from storage.records import RequestRecord
from tests.support.tables import CHAT, make_cell, make_config, make_request, make_tables

RATES = ("output_tok_per_s", "goodput_per_s")


def cell(requests: Sequence[RequestRecord], **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """The one cell of a sweep with a window of 100 s and targets 1 s / 150 ms."""
    config = make_config(grid={"max_num_seqs": [4], "request_rate": [1.0]}, **more)
    (row,) = build_result(make_tables(requests, config=config))["cells"]
    return dict(row)


def sides(row: dict[str, Any], key: str) -> tuple[float | None, float | None]:
    return row[f"{key}_low"], row[f"{key}_high"]


def test_a_clockwork_has_no_doubt_about_its_rates() -> None:
    """A request of 10 tokens in 0.56 s at each full second, all in target: every block holds as much as any other."""
    row = cell([make_request(n, at_ms=1000 * n, gaps_ms=[40] * 9, ttft_ms=200) for n in range(100)])
    assert sides(row, "output_tok_per_s") == pytest.approx((10.0, 10.0), rel=0.01)
    assert sides(row, "goodput_per_s") == pytest.approx((1.0, 1.0), rel=0.01)
    assert (row["needs"], row["design_effect"], row["on_frontier_probability"]) == ({}, 1.0, 1.0)
    assert row["classes"]["chat"]["goodput_per_s_low"] == row["goodput_per_s_low"]


def test_random_arrivals_have_intervals_around_their_rates() -> None:
    """400 arrivals at random, one in ten late: each rate lies inside its interval, which is far from nothing."""
    random = np.random.default_rng(6)
    at = np.sort(random.uniform(0, 100_000, 400))
    late = random.random(400) < 0.1
    row = cell([make_request(n, at_ms=at[n], ttft_ms=1500 if late[n] else 100, gaps_ms=[20] * 4) for n in range(400)])
    for key in RATES:
        low, high = sides(row, key)
        assert low is not None
        assert high is not None
        assert 0.5 * row[key] < low < row[key] < high < 1.5 * row[key]
    assert row["ttft_ms"]["p50_low"] <= row["ttft_ms"]["p50"] <= row["ttft_ms"]["p50_high"]


def test_a_window_of_few_answers_is_too_short_to_tell() -> None:
    """Answers of 3 s in 100 s: a block of eight lasts 24 s, five of them 120 s, and that is what is needed."""
    row = cell([make_request(n, at_ms=1000 * n, ttft_ms=1000, gaps_ms=[100] * 20) for n in range(100)])
    for key in RATES:
        assert sides(row, key) == (None, None)
        assert row[key] > 0
    assert row["needs"]["window_s"] == pytest.approx(120.0)
    assert row["on_frontier_probability"] is None


@pytest.mark.parametrize("n", [0, 1])
def test_nothing_and_a_single_request(n: int) -> None:
    """No request: no rate has an interval. One: it may have been none, and everything else is null."""
    row = cell([make_request(i, at_ms=5000) for i in range(n)])
    assert {row["ttft_ms"][f"p50{side}"] for side in ("", "_low", "_high")} == {None}
    assert row["ttft_ms"]["needs"] == {"p50": 6, "p90": 36, "p95": 72, "p99": 368}
    if n == 0:
        assert sides(row, "output_tok_per_s") == sides(row, "goodput_per_s") == (None, None)
    else:
        assert row["goodput_per_s_low"] == 0.0 < row["goodput_per_s_high"]
        assert 0.0 < row["share_low"] < row["share"] == row["share_high"] == 1.0


def test_all_failed() -> None:
    """Nobody was answered: a goodput of 0, how long an answer takes is unknown, and no interval is made up."""
    row = cell(
        [make_request(n, at_ms=1000 * n, ttft_ms=None, outcome="error", error_kind="timeout") for n in range(100)]
    )
    assert (row["goodput_per_s"], row["share"], row["needs"]) == (0.0, 0.0, {})
    assert sides(row, "goodput_per_s") == sides(row, "output_tok_per_s") == (None, None)
    assert 0.0 == row["share_low"] < row["share_high"] < 0.05


def test_all_late() -> None:
    """Answered, but not one in time: goodput may still be as much as the share leaves possible."""
    row = cell([make_request(n, at_ms=1000 * n, ttft_ms=1500) for n in range(100)])
    assert row["goodput_per_s"] == row["goodput_per_s_low"] == 0.0
    assert row["goodput_per_s_high"] == pytest.approx(row["share_high"])


def test_a_crowd_widens_the_share_of_its_class_but_a_dump_does_not() -> None:
    """Groups of ten that come at once find each other, and count for less even where nobody misses; a night's worth of
    jobs that are there from the start is no crowd: how many there are was settled."""
    bunched = [make_request(n, at_ms=8000 * (n // 10) + 10 * (n % 10), gaps_ms=[100] * 20) for n in range(100)]
    jobs = {"name": "jobs", "dump": {"count": 100, "at_s": 0}, "prompt_tokens": 32, "output_tokens": 4}
    steady = [make_request(n, at_ms=1000 * n) for n in range(100)]
    held = [make_request(100 + n, at_ms=0, ttft_ms=1000 * n + 100, class_name="jobs") for n in range(100)]
    crowd, alone = cell(bunched), cell(steady)
    beside = cell([*steady, *held], classes=[CHAT, jobs])
    assert crowd["share"] == alone["share"] == 1.0
    assert crowd["design_effect"] > 2.0
    assert alone["design_effect"] == beside["design_effect"] == 1.0
    assert crowd["share_low"] < alone["share_low"] == beside["share_low"]


def test_a_setting_that_is_worse_in_everything_is_never_on_the_frontier() -> None:
    """The same trace in two settings, one of them late for a third and with half the tokens; equal settings are both
    always on it."""
    config = make_config(grid={"max_num_seqs": [4, 8], "request_rate": [1.0]})
    cells = [make_cell(0), make_cell(1, setting={"max_num_seqs": 8})]
    good = [make_request(n, at_ms=1000 * n, gaps_ms=[20] * 9) for n in range(100)]
    for worse, chances in ((True, [1.0, 0.0]), (False, [1.0, 1.0])):
        other = [
            make_request(n, cell=1, at_ms=1000 * n, ttft_ms=1500 if worse and n % 3 == 0 else 100,
                         gaps_ms=[20] * (4 if worse else 9))
            for n in range(100)
        ]  # fmt: skip
        result = build_result(make_tables([*good, *other], cells=cells, config=config))
        assert [row["on_frontier_probability"] for row in result["cells"]] == chances


def test_running_answers_are_a_crowd_only_where_somebody_came_near_the_target() -> None:
    """Answers of 15 s for 20 s, then short ones, and so on: nobody waits for a first token, and the number that run is
    nobody's doubt; a single first token at nine tenths of its target shows that it may become one."""

    def made(ttft_ms: float) -> dict[str, Any]:
        long = [n // 20 % 2 for n in range(100)]
        return cell(
            [
                make_request(n, at_ms=1000 * n, ttft_ms=ttft_ms if n == 50 else 100, gaps_ms=[100] * (150 * long[n]))
                for n in range(100)
            ]
        )

    quiet, near = made(700), made(900)
    assert quiet["share"] == near["share"] == 1.0
    assert quiet["design_effect"] == 1.0
    assert near["design_effect"] > 4.0
    assert near["share_low"] < quiet["share_low"]
