"""The choice: what it takes, what it refuses, and how it says so."""

from typing import Any

import numpy as np

from runner.analysis.choice import (
    Point,
    choice_dict,
    choose,
    describe_load,
    describe_setting,
    difference_p,
    is_noise,
    percent,
)
from runner.analysis.intervals import Share
from tests.support.tables import make_config

CONFIG = make_config(
    grid={"max_num_seqs": [4, 8, 16], "max_num_batched_tokens": [256, 512], "request_rate": [1.0, 2.0]}
)
N = 1000
RANK = np.random.default_rng(0).permutation(N)  # misses are spread over the run, and those of a better point nested


def point(seqs: int, met: int, *, rate: float = 1.0, judged: int = N, tokens: float = 100.0, **changes: Any) -> Point:  # noqa: ANN401
    """A point with 1000 judged chat requests in a window of N / rate seconds; the misses are spread over time."""
    fields: dict[str, Any] = {
        "setting": {"max_num_seqs": seqs, "max_num_batched_tokens": 256},
        "load": {"request_rate": rate},
        "cells": (0,),
        "valid": True,
        "overload": False,
        "shares": {"chat": Share(met, judged)},
        "goodput_per_s": met * rate / judged,
        "window_s": judged / rate,
        "work_per_s": 0.0,
        "output_tok_per_s": tokens,
        "met_by_request": {(0, i, "chat"): bool(RANK[i] < met) for i in range(judged)},
        **changes,
    }
    return Point(**fields)


def test_most_goodput_among_those_that_keep_the_promise() -> None:
    """More goodput below the target share loses to less goodput that keeps it."""
    keeps, breaks = point(4, 950), point(8, 880, rate=2.0, tokens=180.0)
    assert choose([keeps, breaks], CONFIG, 0.90) is keeps


def test_the_lower_bound_decides_not_the_share() -> None:
    """91 % of 1000 has a lower bound of 89.1 % and does not qualify; 93 % has 91.2 % and does."""
    assert not point(4, 910).qualifies(0.90)
    assert point(4, 930).qualifies(0.90)


def test_every_interactive_class_must_hold() -> None:
    """A class below the target spoils the point however good the others are."""
    assert not point(4, 990, shares={"chat": Share(990, 1000), "rag": Share(50, 60)}).qualifies(0.90)


def test_overloaded_and_invalid_points_do_not_qualify() -> None:
    """Neither can be chosen while another point is there, and neither is ever said to meet the target."""
    good, hollow, sinking = point(4, 930), point(8, 1000, valid=False), point(16, 1000, overload=True)
    assert choose([hollow, sinking, good], CONFIG, 0.90) is good
    assert choose([hollow, sinking], CONFIG, 0.90) is sinking
    assert told([hollow])["target_met"] is False
    assert told([hollow])["reason"].startswith("Not to be relied on: every measured cell has a doubt")
    assert choose([], CONFIG, 0.90) is None


def test_a_tie_goes_to_the_smallest_change() -> None:
    """Within the paired interval the first setting of the grid is kept, a clear gain is taken."""
    first, same, better = point(4, 950), point(16, 952), point(8, 999)
    assert is_noise(same, first)
    assert choose([same, first], CONFIG, 0.90) is first
    assert not is_noise(better, first)
    assert choose([first, better], CONFIG, 0.90) is better


def test_pairs_see_what_two_intervals_would_hide() -> None:
    """Ten requests of 1000 gained, none lost: separate intervals overlap, the paired one excludes 0."""
    few, more = point(4, 950), point(8, 960)
    assert not is_noise(more, few)
    assert is_noise(more, point(4, 950, met_by_request={}))


def test_more_background_work_breaks_a_tie_first() -> None:
    """Of points equal in goodput the one with clearly more background work wins, 5 % is not clear."""
    first, busy, similar = (
        point(4, 950, work_per_s=10.0),
        point(16, 950, work_per_s=20.0),
        point(8, 950, work_per_s=10.4),
    )
    assert choose([first, similar], CONFIG, 0.90) is first
    assert choose([first, similar, busy], CONFIG, 0.90) is busy


def test_the_highest_load_that_holds_is_chosen() -> None:
    """Twice the load at nearly the same share is twice the goodput."""
    slow, fast = point(4, 990), point(4, 970, rate=2.0)
    assert choose([slow, fast], CONFIG, 0.90) is fast


def told(points: list[Point], target: float = 0.90) -> dict[str, Any]:
    return choice_dict(points, choose(points, CONFIG, target), target)


def test_the_sentence_names_setting_load_share_and_the_cost_of_raw_throughput() -> None:
    """One sentence with the chosen point, its interval, and what the raw-throughput winner would do."""
    found = told([point(4, 950, tokens=100.0), point(16, 400, rate=2.0, tokens=112.0)])
    assert found["reason"] == (
        "max_num_seqs 4, max_num_batched_tokens 256 at 1 requests/s: 95 % of the requests meet their targets "
        "(95 % interval 93 % to 96 %), 0.95 good requests per second; going by raw throughput would pick "
        "max_num_seqs 16, max_num_batched_tokens 256 at 2 requests/s, with 12 % more output tokens per second, "
        "where only 40 % meet them."
    )
    assert found["target_met"] is True
    assert found["request_rate"] == 1.0
    assert found["raw_throughput_setting"] == {"max_num_seqs": 16, "max_num_batched_tokens": 256}


def test_a_raw_winner_that_keeps_as_much_is_told_what_is_wrong_with_it() -> None:
    """Targets that nobody misses, and a queue that grows behind the most tokens."""
    found = told([point(4, N, tokens=100.0), point(16, N, rate=2.0, tokens=112.0, overload=True)])
    assert found["reason"].endswith(
        "going by raw throughput would pick max_num_seqs 16, max_num_batched_tokens 256 at 2 requests/s, which is "
        "overloaded and does not last."
    )


def test_no_setting_that_holds_is_said_as_such() -> None:
    """None qualifies: most goodput, called a miss; too few requests are told apart from too slow a server."""
    missed = told([point(4, 500), point(8, 600)])
    assert missed["target_met"] is False
    assert missed["setting"]["max_num_seqs"] == 8
    assert missed["reason"].startswith("Target missed everywhere: ")
    unsure = told([point(4, 20, judged=20)])
    assert unsure["target_met"] is False
    assert "with 20 requests its share 100 % may be anywhere from 84 % to 100 %" in unsure["reason"]
    sinking = told([point(4, 500, overload=True)])
    assert "every setting was overloaded at every load tried" in sinking["reason"]


def test_without_a_choice_the_sentence_says_why() -> None:
    """Nothing measured, nothing with targets: two sentences, every key present."""
    full = told([point(4, 950)])
    for found, why in (
        (choice_dict([], None, 0.90), "no cell was measured"),
        (choice_dict([point(4, 950, shares={})], None, 0.90), "no request of a class with targets"),
    ):
        assert why in found["reason"]
        assert set(found) == set(full)
        assert found["setting"] is None
        assert found["target_met"] is False


def test_words_for_settings_and_loads() -> None:
    """Plain words, also without server settings or a load axis; a share short of all never reads 100 %."""
    assert describe_setting({}) == "the present setting"
    assert (
        describe_load({"max_concurrency": 8, "background_max_in_flight": 2}) == "8 at once, background_max_in_flight 2"
    )
    assert describe_load({}) == "the load of the file"
    assert (percent(0.997), percent(1.0), percent(0.29)) == ("99.7 %", "100 %", "29 %")


def test_with_a_fixed_number_at_once_the_faster_one_is_not_called_equal() -> None:
    """Both keep every promise of the requests they share, but one answered twice as many: that is no tie."""
    slow = point(4, 500, judged=500, window_s=100.0, goodput_per_s=5.0, load={"max_concurrency": 8})
    fast = point(8, 1000, window_s=100.0, goodput_per_s=10.0, load={"max_concurrency": 8})
    assert not is_noise(slow, fast)
    assert difference_p(slow, fast) < 0.001
    assert choose([slow, fast], CONFIG, 0.90) is fast
    same = point(8, 500, judged=500, window_s=100.0, goodput_per_s=5.0, load={"max_concurrency": 8})
    assert is_noise(slow, same)


def test_without_any_targets_the_sentence_says_how_to_give_some() -> None:
    """What is missing, the line that mends it, and what raw throughput would say."""
    bare = point(4, 0, shares={}, met_by_request={}, tokens=61.24)
    found = choice_dict([bare], None, 0.90, has_targets=False)
    assert found["reason"] == (
        "No class has targets, so there is no promise to choose by: give one slo = { ttft_ms = 1000, gap_ms = 150 } in "
        "the sweep file. Most output tokens per second (61.2) came from max_num_seqs 4, max_num_batched_tokens 256 at "
        "1 requests/s, whatever people had to wait for them."
    )
    assert found["reason_templates"][0].format(**found["reason_values"]) == found["reason"]
    assert (found["target_met"], found["setting"]) == (False, None)
