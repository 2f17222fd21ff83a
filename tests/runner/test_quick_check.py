"""The quick check as data: its sweep, what it is known by, and how its answer is read off the cells."""

from typing import Any

import pytest

from runner.config import parse_sweep
from runner.errors import ConfigError
from runner.estimate import sweep_seconds
from runner.plan import plan_cells
from runner.quick_check import LEVELS, QuickAnswer, is_quick_check, quick_answer, quick_check
from tests.support.small_sweeps import quick_config

SERVER = {"kind": "openai", "url": "http://127.0.0.1:8000"}


def cell(people: int, share: float | None, **changes: object) -> dict[str, Any]:
    """A cell's row: first words after 100 ms for each person at once, 50 ms a token."""
    row = {
        "status": "ok",
        "load": {"max_concurrency": people},
        "share": share,
        "judged": 10,
        "ttft_ms": {"p50": 100.0 * people},
        "tpot_ms": {"p50": 50.0},
        "output_tok_per_s": 15.0 * people,
    }
    return {**row, **changes}


def test_it_takes_about_90_seconds_and_leaves_the_server_as_it_is() -> None:
    """Four cells of 15 s, one after the other from 1 to 8 people, with no server start."""
    config = quick_check(SERVER, "check")
    plans = plan_cells(config)
    assert [plan.load["max_concurrency"] for plan in plans] == list(LEVELS) == [1, 2, 4, 8]
    assert (config.server_grid, config.control.mode) == ({}, "none")
    assert 80 <= sweep_seconds(config, plans) <= 95


def test_it_is_known_by_its_load_not_by_its_server() -> None:
    """Also after its config went through a file; no other sweep is taken for one."""
    config = quick_check({**SERVER, "model": "m", "api_key_env": None}, "check")
    assert is_quick_check(parse_sweep(config.model_dump(mode="json"), "sweep.json"))
    assert not is_quick_check(quick_config())
    assert not is_quick_check(config.model_copy(update={"run": quick_config().run}))


def test_a_wrong_address_is_refused() -> None:
    """A key in the address would be stored: one sentence instead."""
    with pytest.raises(ConfigError, match="holds a user name or a key"):
        quick_check({"kind": "openai", "url": "http://me:secret@127.0.0.1:1"}, "check")


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ((1.0, 1.0, 0.9, 0.5), QuickAnswer(4, 400.0, 20.0, 10, False)),
        ((1.0, 1.0, 1.0, 1.0), QuickAnswer(8, 800.0, 20.0, 10, True)),
        ((0.8, 1.0, 0.2, 0.0), QuickAnswer(2, 200.0, 20.0, 10, False)),
        ((0.5, 0.2, 0.0, None), QuickAnswer(0, 100.0, 20.0, 10, False)),
    ],
)
def test_the_answer_is_the_most_people_whose_promises_were_kept(
    shares: tuple[float | None, ...], expected: QuickAnswer
) -> None:
    """At least 90 % of the answers seen; with nobody served in time the times are those of one person."""
    assert quick_answer([cell(n, share) for n, share in zip(LEVELS, shares, strict=True)]) == expected


def test_cells_that_were_not_measured_say_nothing() -> None:
    """Failed cells and torn lines are passed over; without any other there is no answer."""
    failed = {"status": "failed", "load": {"max_concurrency": 1}}
    assert quick_answer([failed, {}, {"status": "ok", "load": {"request_rate": 1}}]) is None
    assert quick_answer([failed, cell(2, 1.0)]) == QuickAnswer(2, 200.0, 20.0, 10, True)


def test_speed_is_taken_from_the_output_when_answers_are_too_few() -> None:
    """Below six answers there is no median: the tokens of all people by their number."""
    assert quick_answer([cell(2, 1.0, tpot_ms={"p50": None}, ttft_ms={"p50": None})]) == QuickAnswer(
        2, None, 15.0, 10, True
    )
