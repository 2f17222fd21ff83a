"""The search for the largest load: bracketing, refinement, every way it can end, and what is said of it."""

from dataclasses import replace
from typing import Any

import pytest

from runner.config import SweepConfig
from runner.plan import PlannedCell
from runner.search.ended import Ended
from runner.search.fit import Crossing
from runner.search.lanes import axis_of, lanes_of
from runner.search.max_rates import TEXTS, max_rates, of_lane_told
from runner.search.rate import MOST_PROBES, fitted, next_probe, probes_left
from tests.support.made_ended import ended, logistic_share, searched
from tests.support.small_sweeps import quick_config


def config(grid: dict[str, Any] | None = None, **run: object) -> SweepConfig:
    grid = grid or {"request_rate": [0.5, 1.0, 2.0]}
    return quick_config(grid=grid, run={"duration_s": 200, "warmup_s": 20, "find_rate": True, **run})


def run(found: SweepConfig, capacity: float, steep: float = 15.0) -> list[Ended]:
    axis = axis_of(found)
    return searched(
        found, next_probe, lambda p: ended(found, p, logistic_share(float(p.load[axis.key]), capacity, steep))
    )


def told(found: SweepConfig, cells: list[Ended], lane: int = 0) -> dict[str, Any]:
    own = lanes_of(found)[lane]
    mine = [e for e in cells if e.setting == own.setting]
    return of_lane_told(own, mine, axis_of(found), found.run.share_target)


@pytest.mark.parametrize("capacity", [0.11, 0.9, 1.5, 7.0, 40.0])
def test_it_finds_a_capacity_wherever_it_lies(capacity: float) -> None:
    """Far below and far above the file's rates too, within 10 % and inside its interval, in a dozen probes at most."""
    found = config()
    cells = run(found, capacity)
    answer = told(found, cells)
    assert answer["outcome"] == "found"
    assert answer["max_request_rate"] == answer["load"] == pytest.approx(capacity, rel=0.1)
    assert answer["low"] <= capacity <= answer["high"]
    assert len(cells) == answer["probes"] <= MOST_PROBES
    assert not answer["ill_defined"]


def test_it_doubles_or_halves_from_the_middle_of_the_file_until_both_sides_are_known() -> None:
    """1, 2, 4, 8 until one misses; then inside the last step."""
    cells = run(config(), 5.0)
    levels = [float(e.load["request_rate"]) for e in cells]
    assert levels[:4] == [1.0, 2.0, 4.0, 8.0]
    assert all(4.0 < x < 8.0 for x in levels[4:])
    down = [float(e.load["request_rate"]) for e in run(config(), 0.3)]
    assert down[:3] == [1.0, 0.5, 0.25]


def test_every_probe_has_its_own_arrivals() -> None:
    """The n-th of each setting the same, so that settings stay comparable and no lucky trace is taken for capacity."""
    cells = run(config({"max_num_seqs": [2, 8], "request_rate": [1.0]}), 3.0)
    for seqs in (2, 8):
        mine = [e.repeat for e in cells if e.setting["max_num_seqs"] == seqs]
        assert mine == list(range(len(mine)))


def test_the_second_setting_begins_where_the_first_gave_way() -> None:
    """One start for each setting, and no bracketing from far away."""
    cells = run(config({"max_num_seqs": [2, 8], "request_rate": [1.0]}), 30.0)
    settings = [e.setting["max_num_seqs"] for e in cells]
    assert settings == sorted(settings)
    first = next(e for e in cells if e.setting["max_num_seqs"] == 8)
    assert float(first.load["request_rate"]) == pytest.approx(30.0, rel=0.1)


def test_people_at_once_are_whole_numbers() -> None:
    """The largest number that is kept, with both sides of the step seen twice."""
    found = config({"max_concurrency": [4]})
    cells = searched(found, next_probe, lambda p: ended(found, p, 1.0 if int(p.load["max_concurrency"]) <= 11 else 0.5))
    answer = told(found, cells)
    levels = [e.load["max_concurrency"] for e in cells]
    assert all(isinstance(v, int) for v in levels)
    assert (answer["load"], answer["max_request_rate"], answer["axis"]) == (11, None, "max_concurrency")
    assert levels.count(11) == levels.count(12) == 2


def test_a_share_that_falls_slowly_is_called_ill_defined() -> None:
    """With the numbers that make it so, and no pretended precision."""
    found = config()
    cells = searched(
        found, next_probe, lambda p: ended(found, p, logistic_share(float(p.load["request_rate"]), 1, 0.5))
    )
    answer = told(found, cells)
    assert answer["outcome"] == "ill_defined"
    assert answer["ill_defined"] is True
    assert answer["high"] / answer["low"] > 1.5
    assert "no sharp limit" in answer["reason"]
    assert len(cells) == MOST_PROBES


def test_the_ends_of_the_axis_are_said() -> None:
    """A setting that misses even at the lowest load worth a probe, and one that keeps everything up to the highest."""
    found = config()
    low = told(found, searched(found, next_probe, lambda p: ended(found, p, 0.2)))
    assert (low["outcome"], low["load"], low["high"]) == ("below", None, axis_of(found).low)
    assert "misses its targets even at 0.05 requests/s, the lowest load tried" in low["reason"]
    high = told(found, searched(found, next_probe, lambda p: ended(found, p, 1.0)))
    assert (high["outcome"], high["load"], high["high"]) == ("above", 128.0, None)
    assert "its limit lies above" in high["reason"]


def test_an_end_of_the_axis_is_probed_once() -> None:
    """10 requests in 60 s are 0.1667 a second and 64 x 0.0333 are 2.1312: with three digits each is reached."""
    found = config({"request_rate": [1.0]}, duration_s=60, warmup_s=10)
    down = searched(found, next_probe, lambda p: ended(found, p, 0.0))
    assert [e.load["request_rate"] for e in down] == [1.0, 0.5, 0.25, 0.167]
    found = config({"request_rate": [0.0333]})
    up = searched(found, next_probe, lambda p: ended(found, p, 1.0))
    levels = [e.load["request_rate"] for e in up]
    assert (levels[-1], len(levels)) == (2.13, len(set(levels)))


def test_windows_without_requests_are_told_as_such() -> None:
    """Neither "not searched yet" nor a load that was kept: nobody asked for anything."""
    found = config({"request_rate": [0.0001]})
    cells = searched(found, next_probe, lambda p: replace(ended(found, p, 1.0), shares={}))
    answer = told(found, cells)
    assert (answer["outcome"], answer["load"], answer["low"]) == ("empty", None, None)
    assert answer["reason"].startswith("No request with targets fell into the windows of ")
    assert told(found, [])["outcome"] == "unknown"


def test_a_queue_that_grows_is_no_pass_whatever_the_share_says() -> None:
    """Overload with 95 % in time: a longer run would have missed."""
    found = config()

    def answer(plan: PlannedCell) -> Ended:
        over = float(plan.load["request_rate"]) > 3.0
        return ended(found, plan, 0.95 if over else 1.0, overload=over)

    cells = searched(found, next_probe, answer)
    assert told(found, cells)["load"] == pytest.approx(3.0, rel=0.2)


def test_a_growing_queue_is_evidence_however_bunched_its_misses() -> None:
    """All of 600 requests missed in one long trend, a design effect of 500: still a miss, and the limit is found."""
    found = config()

    def answer(plan: PlannedCell) -> Ended:
        share = logistic_share(float(plan.load["request_rate"]), 3.0, 30.0)
        return ended(found, plan, share, deff=500.0 if share < 0.5 else 2.0)

    told_ = told(found, searched(found, next_probe, answer))
    assert told_["outcome"] == "found"
    assert told_["low"] <= 3.0 <= told_["high"]


def test_a_setting_that_does_not_start_is_left_alone_at_once() -> None:
    """One failed probe, its reason told, and the next setting is searched."""
    found = config({"max_num_seqs": [2, 8], "request_rate": [1.0]})

    def answer(plan: PlannedCell) -> Ended:
        bad = plan.setting["max_num_seqs"] == 2
        share = logistic_share(float(plan.load["request_rate"]), 2.0, 15.0)
        return ended(found, plan, share, status="failed" if bad else "ok", began=not bad)

    cells = searched(found, next_probe, answer)
    assert [e.status for e in cells].count("failed") == 1
    assert told(found, cells, 0)["outcome"] == "failed"
    assert "made up" in told(found, cells, 0)["reason"]
    assert told(found, cells, 1)["outcome"] == "found"


def test_a_server_that_dies_under_a_load_did_not_bear_it() -> None:
    """The search goes on below; a second death ends it with what is known."""
    found = config()
    cells = searched(
        found,
        next_probe,
        lambda p: ended(found, p, 1.0, status="failed" if float(p.load["request_rate"]) > 2 else "ok"),
    )
    assert 1 <= [e.status for e in cells].count("failed") <= 2
    answer = told(found, cells)
    assert 1.5 < answer["load"] < 4.0


def test_a_load_generator_that_was_the_limit_is_said() -> None:
    """The probes that missed were our own fault: the server may bear more."""
    found = config()

    def answer(plan: PlannedCell) -> Ended:
        late = float(plan.load["request_rate"]) > 4
        return ended(found, plan, 0.3 if late else 1.0, ours=late)

    answer_ = told(found, searched(found, next_probe, answer))
    assert answer_["client_limited"] is True
    assert "the server may bear more" in answer_["reason"]


def test_the_next_probe_depends_on_the_finished_ones_alone() -> None:
    """Asked again at any moment of a search it says the same: what was stored is enough to go on."""
    found = config({"max_num_seqs": [2, 8], "request_rate": [1.0]})
    cells = run(found, 3.0)
    for n, cell in enumerate(cells):
        plan = next_probe(found, cells[:n])
        assert plan is not None
        assert (plan.cell, plan.setting, plan.load, plan.repeat) == (n, cell.setting, cell.load, cell.repeat)
    assert next_probe(found, cells) is None
    assert probes_left(found, cells) == []


def test_what_is_still_expected_begins_with_the_certain_one() -> None:
    """For the time left: some more of this setting, and the usual number of each one after it."""
    found = config({"max_num_seqs": [2, 8, 32], "request_rate": [1.0]})
    cells = run(found, 3.0)
    left = probes_left(found, cells[:2])
    assert left[0] == next_probe(found, cells[:2])
    assert [p.cell for p in left] == list(range(2, 2 + len(left)))
    assert {p.setting["max_num_seqs"] for p in left} == {2, 8, 32}


def test_a_file_without_a_load_axis_scales_its_rates() -> None:
    """From the rates as they are; the answer is a scale."""
    chat = {
        "name": "chat",
        "rate": 0.5,
        "prompt_tokens": 8,
        "output_tokens": 8,
        "slo": {"ttft_ms": 1000, "gap_ms": 100},
    }
    found = quick_config(grid={"max_num_seqs": [4]}, classes=[chat], run={"duration_s": 200, "find_rate": True})
    axis = axis_of(found)
    assert (axis.key, axis.middle) == ("load_scale", 1.0)
    cells = searched(
        found, next_probe, lambda p: ended(found, p, logistic_share(float(p.load["load_scale"]), 3.0, 15.0))
    )
    assert told(found, cells)["load"] == pytest.approx(3.0, rel=0.15)


def test_sentences_have_a_template_each_and_other_sweeps_none() -> None:
    """Every outcome is a key of TEXTS; a sweep that did not search has no entry."""
    assert set(TEXTS) == {"found", "ill_defined", "wide", "above", "below", "failed", "empty", "unknown"}
    assert max_rates(quick_config(), [], {}, 0.9) is None


def unlucky(found: SweepConfig, capacity: float, at: int, share: float) -> list[Ended]:
    """A search whose probe number `at` comes out with `share`, whatever the load."""
    axis = axis_of(found)

    def measured(probe: PlannedCell) -> Ended:
        if probe.repeat == at:
            return ended(found, probe, share)
        return ended(found, probe, logistic_share(float(probe.load[axis.key]), capacity, 15.0))

    return searched(found, next_probe, measured)


def test_an_unlucky_miss_is_asked_again_instead_of_capping_the_search() -> None:
    """41 of 49 by chance at half of what the server stands: the probes after it do not crowd below it."""
    cells = unlucky(config({"request_rate": [1.0]}, duration_s=40), 2.0, 0, 0.837)
    levels = [float(e.load["request_rate"]) for e in cells]
    assert levels[0] == 1.0
    assert levels.count(1.0) == 2
    assert max(levels) > 1.5
    answer = told(config({"request_rate": [1.0]}, duration_s=40), cells)
    assert answer["load"] == pytest.approx(2.0, rel=0.1)


def test_a_lucky_pass_is_asked_again_instead_of_holding_the_search_above_it() -> None:
    """Just enough by chance at twice what the server stands: the search comes down, and claims nothing."""
    cells = unlucky(config({"request_rate": [1.0]}, duration_s=40), 0.5, 0, 0.92)
    levels = [float(e.load["request_rate"]) for e in cells]
    assert levels.count(1.0) == 2
    assert min(levels) < 0.5
    assert told(config({"request_rate": [1.0]}, duration_s=40), cells)["outcome"] == "wide"


def test_a_lucky_probe_counts_for_no_more_than_an_unlucky_one() -> None:
    """Two probes at one load, 97 % without bunches of misses and 75 % in a few large ones: which of them has which
    design effect changes nothing, or the limit would be that of lucky windows."""
    found = config()
    axis = axis_of(found)

    def limit(lucky: float, unlucky: float) -> Crossing:
        probes = [(1.0, 1.0, 1.0), (4.0, 0.1, 9.0), (2.0, 0.97, lucky), (2.0, 0.75, unlucky)]
        plans = [PlannedCell(n, {}, {axis.key: load}, n) for n, (load, _, _) in enumerate(probes)]
        tried = [ended(found, plan, share, deff=deff) for plan, (_, share, deff) in zip(plans, probes, strict=True)]
        told = fitted(tried, axis, found.run.share_target)
        assert told is not None
        return told

    assert limit(1.0, 19.0) == limit(19.0, 1.0) == limit(10.0, 10.0)
    assert limit(10.0, 10.0).low < limit(1.0, 1.0).low
