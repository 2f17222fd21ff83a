"""`stop_by`: which moment is meant, and what is refused."""

import time as clock
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from runner.config import parse_sweep
from runner.deadline import deadline_of
from runner.errors import ConfigError
from runner.estimate import longest_cell_seconds, sweep_seconds
from runner.plan import plan_cells
from tests.support.small_sweeps import quick_config, quick_raw


@pytest.fixture(params=["UTC", "Asia/Seoul", "Europe/Warsaw"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    clock.tzset()
    yield request.param
    monkeypatch.undo()
    clock.tzset()


def hours_left(stop_by: str, now: datetime) -> float:
    deadline = deadline_of(stop_by, lambda: now)
    assert deadline is not None
    return deadline.left_s() / 3600


def test_a_time_of_day_is_the_next_one_here(zone: str) -> None:
    """Begun at 23:00 it is tomorrow's 07:00, at 06:00 today's, at 07:00 sharp tomorrow's."""
    assert zone
    assert hours_left("07:00", datetime(2026, 1, 10, 23, 0).astimezone()) == 8
    assert hours_left("07:00", datetime(2026, 1, 10, 6, 0).astimezone()) == 1
    assert hours_left("07:00", datetime(2026, 1, 10, 7, 0).astimezone()) == 24
    assert hours_left("2026-01-11T07:00", datetime(2026, 1, 10, 23, 0).astimezone()) == 8
    assert hours_left("2026-01-10T23:30:00+00:00", datetime(2026, 1, 10, 23, 0, tzinfo=UTC)) == 0.5


def test_a_night_in_which_the_clocks_change_is_an_hour_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warsaw, 29 March 2026: from 23:00 to 07:00 are 7 hours."""
    monkeypatch.setenv("TZ", "Europe/Warsaw")
    clock.tzset()
    try:
        assert hours_left("07:00", datetime(2026, 3, 28, 23, 0).astimezone()) == 7
    finally:
        monkeypatch.undo()
        clock.tzset()


@pytest.mark.parametrize("stop_by", ["7 o'clock", "25:00", "tomorrow", "", "2026-13-01T07:00"])
def test_what_is_no_time_is_refused_in_one_sentence(stop_by: str) -> None:
    """The sentence shows how to write it."""
    with pytest.raises(ConfigError, match=r'write "07:00", or a date with time') as refused:
        parse_sweep(quick_raw(run={"stop_by": stop_by}), "sweep.toml")
    assert str(refused.value).startswith("sweep.toml: run: stop_by is")


def test_pauses_between_cells_are_in_the_estimate() -> None:
    """Two cells have one pause between them; the longest cell drains to its limit."""
    run = {"duration_s": 10.0, "warmup_s": 2.0, "drain_s": 30.0, "cool_down_s": 60.0}
    config = quick_config(run=run, grid={"max_num_seqs": [2], "request_rate": [1.0, 2.0]})
    without = quick_config(run={**run, "cool_down_s": 0}, grid={"max_num_seqs": [2], "request_rate": [1.0, 2.0]})
    cells = plan_cells(config)
    assert sweep_seconds(config, cells) - sweep_seconds(without, cells) == 60
    assert longest_cell_seconds(config) == 2 + 10 + 30 + 1
