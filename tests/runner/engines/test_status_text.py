"""KoboldCpp's status page gives what runs and what waits."""

import pytest

from runner.engines.status_text import parse_status

NESTED = pytest.param("[" * 100_000, id="nested")
PAGE = '{"last_process":0.5,"last_eval":1.2,"last_token_count":64,"total_gens":3,"stop_reason":1,"queue":%s,"idle":%s}'


def test_a_busy_server_runs_one_and_tells_how_many_wait() -> None:
    """One request at a time: idle 0 is one running."""
    assert parse_status(PAGE % (3, 0)) == {"running": 1.0, "waiting": 3.0}
    assert parse_status(PAGE % (0, 1)) == {"running": 0.0, "waiting": 0.0}


def test_a_queue_below_nothing_is_empty() -> None:
    """A count below 0 is no number of requests."""
    assert parse_status(PAGE % (-1, 1)) == {"running": 0.0, "waiting": 0.0}


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{}", '{"queue":1}', '{"idle":"x","queue":1}', "<html>", "[1,2]", NESTED]
)
def test_what_is_no_status_page_gives_nothing(text: str) -> None:
    """Foreign JSON, half a page, HTML."""
    assert parse_status(text) is None
