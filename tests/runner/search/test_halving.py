"""The search within a time: whom it picks, what it spends, whom it holds the winner against, and when it gives up."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from runner.analysis.intervals import Share
from runner.config import SweepConfig
from runner.errors import ConfigError
from runner.estimate import sweep_seconds
from runner.plan import PlannedCell, plan_cells
from runner.search.budget_text import budget_seconds
from runner.search.course import check_budget, expected_cells
from runner.search.ended import Ended
from runner.search.halving import pair_of, steps_left
from runner.search.race import race_of, sure_of
from tests.support.made_ended import ended, logistic_share, searched
from tests.support.small_sweeps import quick_config

GRID: dict[str, Any] = {
    "max_num_seqs": [1, 2, 4, 8],
    "max_num_batched_tokens": [256, 1024],
    "request_rate": [0.5, 1.0, 2.0, 4.0],
}


def config(budget: str = "90m", grid: dict[str, Any] | None = None, **run: object) -> SweepConfig:
    times = {"duration_s": 120, "warmup_s": 30, "budget": budget}
    return quick_config(grid=grid or GRID, run={**times, **run})


def capacity(setting: dict[str, Any]) -> float:
    """More seats bear more, the small token budget a little more; 8 with 256 alone bears 2 requests/s."""
    return {1: 0.3, 2: 0.7, 4: 1.3, 8: 1.8}[setting["max_num_seqs"]] * (
        1.25 if setting["max_num_batched_tokens"] == 256 else 1
    )


def answer(found: SweepConfig, plan: PlannedCell) -> Ended:
    return ended(found, plan, logistic_share(float(plan.load["request_rate"]), capacity(plan.setting), 15.0))


def next_step(found: SweepConfig, cells: Sequence[Ended]) -> PlannedCell | None:
    """What a sweep measures next."""
    return next(iter(steps_left(found, cells)), None)


def run(found: SweepConfig) -> list[Ended]:
    return searched(found, next_step, lambda plan: answer(found, plan))


def winner_of(found: SweepConfig, cells: list[Ended]) -> tuple[dict[str, Any], float]:
    race = race_of(found)
    pair = pair_of(race, cells)
    assert pair is not None
    return race.lanes[pair[0].lane].setting, race.axis.levels[pair[0].level]


@pytest.mark.parametrize("budget", ["30m", "60m", "90m", "8h"])
def test_it_finds_the_best_setting_within_its_time(budget: str) -> None:
    """The one that alone keeps its targets at 2 requests/s, for less than the time asked for, drains included."""
    found = config(budget)
    cells = run(found)
    assert winner_of(found, cells) == ({"max_num_seqs": 8, "max_num_batched_tokens": 256}, 2.0)
    assert race_of(found).used_s(cells) <= budget_seconds(budget)


def test_a_round_compares_all_settings_over_the_same_arrivals() -> None:
    """One seed a round, and new ones in every pair of the verification; the first round begins at the middle load."""
    found = config()
    cells = run(found)
    first = [e for e in cells if e.repeat == 0]
    assert len(first) == 8
    assert {e.load["request_rate"] for e in first} == {1.0}
    rounds = Counter(e.repeat for e in cells)
    assert sorted(rounds) == list(rounds)
    assert all(n <= 8 for n in rounds.values())


def test_the_winner_is_held_against_the_present_setting_in_two_pairs() -> None:
    """At the winner's load, over the same new arrivals; the present one is the first of the grid."""
    found = config()
    race, cells = race_of(found), run(found)
    verified = [e for e in cells if e.repeat >= race.most_rounds]
    setting, load = winner_of(found, cells)
    assert {e.load["request_rate"] for e in verified} == {load}
    mine = {e.repeat for e in verified if e.setting == setting}
    present = {e.repeat for e in verified if e.setting == {"max_num_seqs": 1, "max_num_batched_tokens": 256}}
    assert len(mine) >= 2
    assert present <= mine
    assert present


def test_it_takes_less_than_the_grid_and_windows_grow() -> None:
    """In half the grid's time, with the verification at the file's own window or near it."""
    grid = quick_config(grid=GRID, run={"duration_s": 120, "warmup_s": 30})
    whole = sweep_seconds(grid, plan_cells(grid))
    found = config(f"{whole / 2:.0f}s")
    cells = run(found)
    assert race_of(found).used_s(cells) <= whole / 2
    assert winner_of(found, cells)[0] == {"max_num_seqs": 8, "max_num_batched_tokens": 256}
    assert max(e.window_s for e in cells if e.repeat >= race_of(found).most_rounds) >= 60


def test_slow_starts_are_counted_and_shared_by_two_loads() -> None:
    """A server that takes 90 s to start: fewer starts than cells, and their seconds are in the time used."""
    slow = {"kind": "vllm", "url": "http://127.0.0.1:1"}
    control = {"mode": "command", "command": ["start"]}
    found = quick_config(
        backend=slow, control=control, grid=GRID, run={"duration_s": 120, "warmup_s": 30, "budget": "100m"}
    )
    cells = run(found)
    starts = sum(1 for i, e in enumerate(cells) if i == 0 or e.setting != cells[i - 1].setting)
    race = race_of(found)
    assert starts < len(cells)
    assert race.used_s(cells) == pytest.approx(sum(e.took_s + 1 for e in cells) + 90 * starts)
    assert race.used_s(cells) <= 6000
    assert winner_of(found, cells)[0] == {"max_num_seqs": 8, "max_num_batched_tokens": 256}


def test_a_time_too_short_for_all_settings_tries_some_of_them_spread_over_the_grid() -> None:
    """The present one among them; a time too short for two is refused with the least that would do."""
    grid = {"max_num_seqs": list(range(1, 41)), "request_rate": [1.0, 2.0]}
    found = config("20m", grid)
    cells = searched(found, next_step, lambda p: ended(found, p, 1.0))
    tried = sorted({int(e.setting["max_num_seqs"]) for e in cells})
    assert 2 <= len(tried) < 40
    assert (tried[0], tried[-1]) == (1, 40)
    with pytest.raises(ConfigError, match=r'budget = 1m is too short .* "\d+m" or more'):
        check_budget(config("1m", grid))
    check_budget(found)


def test_a_target_missed_everywhere_gives_the_most_goodput() -> None:
    """Shares between .5 and .8 that fall slowly: the highest load has the most good requests, and is looked at."""
    found = config()

    def slow(plan: PlannedCell) -> Ended:
        best = 0.2 if plan.setting["max_num_seqs"] == 4 else 0.0
        return ended(found, plan, 0.6 + best - 0.05 * float(plan.load["request_rate"]))

    cells = searched(found, next_step, slow)
    setting, load = winner_of(found, cells)
    assert setting["max_num_seqs"] == 4
    assert load == 4.0


def test_failed_settings_fall_away() -> None:
    """Those that do not start are measured once and never again; when nothing starts it ends."""
    found = config()

    def half(plan: PlannedCell) -> Ended:
        bad = plan.setting["max_num_batched_tokens"] == 256
        return ended(found, plan, 1.0, status="failed", began=False) if bad else answer(found, plan)

    cells = searched(found, next_step, half)
    lost = Counter(str(e.setting) for e in cells if e.status == "failed" and e.repeat < race_of(found).most_rounds)
    assert set(lost.values()) == {1}
    # 4 seats and 8 both bear 1 request/s and not 2
    assert winner_of(found, cells)[0]["max_num_seqs"] in (4, 8)
    assert winner_of(found, cells)[0]["max_num_batched_tokens"] == 1024
    none = searched(found, next_step, lambda p: ended(found, p, 1.0, status="failed", began=False))
    assert len(none) == 8


def test_the_next_cell_depends_on_the_finished_ones_alone() -> None:
    """Asked again at any moment it says the same, window and all."""
    found = config("60m")
    cells = run(found)
    for n, cell in enumerate(cells):
        plan = next_step(found, cells[:n])
        assert plan is not None
        assert (plan.setting, plan.load, plan.repeat) == (cell.setting, cell.load, cell.repeat)
        assert (plan.window_s or 120) == cell.window_s
    assert steps_left(found, cells) == []


def test_what_is_expected_is_near_what_comes() -> None:
    """The number of cells and the seconds told before the start are within half and double of the truth."""
    found = config("90m")
    cells = run(found)
    assert len(cells) / 2 <= len(expected_cells(found)) <= 2 * len(cells)
    assert [p.cell for p in expected_cells(found)] == list(range(len(expected_cells(found))))


def test_caps_are_compared_like_settings() -> None:
    """Each cap of the dispatcher is a lane of its own, without a server start between them."""
    jobs = {"name": "jobs", "closed": {"concurrency": 8}, "prompt_tokens": 64, "output_tokens": 64}
    chat = {
        "name": "chat",
        "weight": 1,
        "prompt_tokens": 8,
        "output_tokens": 8,
        "slo": {"ttft_ms": 1000, "gap_ms": 100},
    }
    found = quick_config(
        grid={"jobs_max_in_flight": [8, 4, 2, 1], "request_rate": [1.0, 2.0]},
        classes=[chat, jobs],
        run={"duration_s": 120, "warmup_s": 30, "budget": "60m"},
    )
    cells = searched(found, next_step, lambda p: ended(found, p, 0.97 if p.load["jobs_max_in_flight"] == 2 else 0.6))
    race = race_of(found)
    pair = pair_of(race, cells)
    assert pair is not None
    assert race.lanes[pair[0].lane].caps == {"jobs_max_in_flight": 2}


@pytest.mark.parametrize(
    ("met", "judged", "low", "high"),
    [(10, 10, 0.68, 0.70), (0, 50, 0.0, 1e-6), (450, 500, 0.4, 0.6), (0, 0, 0.09, 0.11)],
)
def test_how_sure_a_share_is(met: int, judged: int, low: float, high: float) -> None:
    """10 of 10: 1 - .9^11 = .686 (beta posterior after a flat prior); without a request 1 - .9."""
    assert low <= sure_of(Share(met, judged), 0.9) <= high


@pytest.mark.parametrize(
    ("text", "seconds"), [("20m", 1200), ("90m", 5400), ("8h", 28800), ("1h30m", 5400), ("45s", 45)]
)
def test_times_as_people_write_them(text: str, seconds: float) -> None:
    """Hours, minutes, seconds and their sums."""
    assert budget_seconds(text) == seconds
