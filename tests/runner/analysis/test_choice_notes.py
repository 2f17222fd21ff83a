"""What is told beside the choice: who came next, who wins by another rule, what is left to background work."""

from dataclasses import replace
from typing import Any

import numpy as np

from runner.analysis.choice import Point, choose
from runner.analysis.choice_notes import choice_notes, runner_up
from runner.analysis.intervals import Share
from runner.config import SweepConfig
from tests.support.tables import make_config

N = 1000
CONFIG: SweepConfig = make_config(grid={"max_num_seqs": [4, 8, 16, 32], "request_rate": [1.0]})
RANK = np.random.default_rng(0).permutation(N)


def point(seqs: int, met: int, **changes: Any) -> Point:  # noqa: ANN401
    """1000 judged requests of the same trace; the misses of a better point are among those of a worse one."""
    own = Point(
        setting={"max_num_seqs": seqs},
        load={"request_rate": 1.0},
        cells=(seqs,),
        valid=True,
        overload=False,
        shares={"chat": Share(met, N)},
        goodput_per_s=met / N,
        window_s=float(N),
        work_per_s=0.0,
        output_tok_per_s=100.0 + seqs,
        met_by_request={(0, i, "chat"): bool(RANK[i] < met) for i in range(N)},
    )
    return replace(own, **changes)


def told(points: list[Point], by_rule: dict[Any, Point | None] | None = None) -> dict[str, Any]:
    return choice_notes(points, choose(points, CONFIG, 0.90), 0.90, by_rule or {})


def texts(points: list[Point], by_rule: dict[Any, Point | None] | None = None) -> list[str]:
    return [n["text"] for n in told(points, by_rule)["notes"]]


def test_a_runner_up_within_noise_is_named() -> None:
    """Two requests of 1000 apart; a clear gap is told as numbers and makes no sentence."""
    assert texts([point(4, 952), point(8, 950)]) == [
        "Next came max_num_seqs 8 at 1 requests/s with 0.95 good requests per second; the difference is noise."
    ]
    clear = told([point(4, 999), point(8, 950)])
    assert clear["notes"] == []
    assert (clear["runner_up"]["setting"], clear["runner_up"]["noise"]) == ({"max_num_seqs": 8}, False)


def test_a_tie_says_why_the_better_looking_one_was_left() -> None:
    """Nearer to the first setting, or more background work."""
    assert texts([point(4, 950), point(8, 952)]) == [
        "max_num_seqs 8 at 1 requests/s had 0.95 good requests per second, but the difference is noise: of equals, the "
        "setting nearest to the first one is taken."
    ]
    busy = texts([point(4, 952), point(8, 950, work_per_s=20.0)])
    assert busy[0].endswith("of equals, the one that leaves more to background work is taken.")


def test_several_settings_ask_for_more_than_one_would() -> None:
    """Six requests gained and none lost is p = .014 by itself; the best of three such tries is noise by Holm."""
    best = point(4, 956)
    assert runner_up([best, point(8, 950)], best, 0.90).p_adjusted < 0.05  # type: ignore[union-attr]
    rest = [point(8, 950), point(16, 950), point(32, 950), point(64, 950)]
    several = runner_up([best, *rest], best, 0.90)
    assert several is not None
    assert several.p_adjusted > 0.05
    assert several.noise


def test_the_winner_by_another_rule_is_named_with_the_rule() -> None:
    """Each other setting once, with all rules that would take it; rules that agree, or choose nothing, are silent."""
    chosen, other = point(4, 999), point(16, 900)
    rules = {"p99_gap": chosen, "mean_tpot": other, "every_gap": None, "deadline": chosen, "fluidity": other}
    assert texts([chosen, other], rules) == [
        "By another gap rule (mean_tpot, fluidity) the choice would be max_num_seqs 16 at 1 requests/s."
    ]


def test_what_each_leaves_to_background_work_is_told() -> None:
    """Beside the raw-throughput winner, or alone where it is the same; without background work nothing."""
    chosen, raw = point(4, 999, work_per_s=12.04), point(16, 700, work_per_s=30.0)
    assert texts([chosen, raw]) == [
        "To background work it leaves 12.0 output tokens per second; the most raw throughput, max_num_seqs 16 at 1 "
        "requests/s, would leave 30.0."
    ]
    assert texts([chosen]) == ["To background work it leaves 12.0 output tokens per second."]
    assert texts([point(4, 999)]) == []


def test_a_miss_names_what_kept_its_target_without_proof() -> None:
    """The most goodput misses; 18 of 20 at another setting is 90 %, and by Wilson anything from 70 % on."""
    near = point(8, 18, shares={"chat": Share(18, 20)}, goodput_per_s=0.3)
    worse = point(16, 18, shares={"chat": Share(19, 20)}, goodput_per_s=0.2)
    assert texts([point(4, 500), near, worse]) == [
        "max_num_seqs 8 at 1 requests/s kept 90 % of its requests inside the targets, but that is not proven (95 % "
        "interval from 70 %); measure longer."
    ]
    assert texts([point(4, 500), replace(near, overload=True), replace(near, valid=False)]) == []


def test_nothing_chosen_or_nothing_kept_has_no_runner_up() -> None:
    """A miss has no second place."""
    assert told([point(4, 500), point(8, 400)]) == {"runner_up": None, "notes": []}
    assert choice_notes([], None, 0.90, {}) == {"runner_up": None, "notes": []}
