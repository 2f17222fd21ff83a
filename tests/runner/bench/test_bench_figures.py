"""Figures of the client benchmark from hand-made stamps, and one small real run of the command."""

import argparse
import json
from typing import Any

import pytest

from runner.bench.command import add_arguments, clients_for, run, table
from runner.bench.figures import beside_aiohttp, compare, middle_of, open_share, percentiles, saturated
from runner.bench.measured_client import arrivals_ns
from runner.bench.scenario import parse_scenario
from runner.errors import ConfigError

MS = 1_000_000
SECOND = 1_000_000_000
CLIENT = {"cpu_s": 0.00006, "rss_mb": 42.0, "clock": "kernel", "reads": 2, "steady_ns": [0, SECOND], "samples": []}


def test_errors_are_distances_from_the_servers_truth() -> None:
    """A client that sends 1 ms before receipt and stamps 2, 3 and 5 ms late has these and no other errors."""
    truth = {
        "received_ns": [10 * MS],
        "first_numbers": [0],
        "ended_ns": [90 * MS],
        "sent_ns": [50 * MS, 70 * MS, 90 * MS],
        "late_ns": [0, MS, 2 * MS],
    }
    seen = [{"due_ns": 3 * MS, "sent_ns": 9 * MS, "numbers": [0, 1, 2], "stamps_ns": [52 * MS, 73 * MS, 95 * MS]}]
    figures = compare(truth, {**CLIENT, "seen": seen}, streams=1, started_ns=4 * MS)
    assert figures["send_lag_ms"] == {"p50": 7.0, "p99": 7.0}  # due at 3 ms, received at 10 ms
    assert figures["ttft_error_ms"] == {"p50": 3.0, "p99": 3.0}  # 43 ms reported, 40 ms true
    assert figures["token_lag_ms"] == {"p50": 3.0, "p99": 5.0}
    assert figures["gap_error_ms"] == {"p50": 1.0, "p99": 2.0}
    assert figures["server_late_ms"] == {"p50": 1.0, "p99": 2.0}
    assert (figures["cpu_us_per_event"], figures["cpu_us_per_request"]) == (20.0, 60.0)
    assert (figures["requests"], figures["events"], figures["events_per_read"]) == (1, 3, 1.5)
    assert figures["first_request_s"] == 0.006
    assert figures["clock"] == "kernel"


def test_a_client_that_saw_nothing_has_nulls() -> None:
    """No event, no figure: null, not zero or an exception."""
    truth: dict[str, list[int]] = {
        name: [] for name in ("received_ns", "first_numbers", "ended_ns", "sent_ns", "late_ns")
    }
    figures = compare(truth, {**CLIENT, "seen": [], "reads": None, "steady_ns": [0, 0]}, 4, 0)
    assert figures["cpu_us_per_event"] is None
    assert figures["cpu_us_per_request"] is None
    assert figures["ttft_error_ms"] == {"p50": None, "p99": None}
    assert figures["streams_open_share"] is None
    assert figures["saturated"] is None
    json.dumps(figures, allow_nan=False)


def test_open_share_counts_overlap_with_the_steady_part() -> None:
    """Of two asked streams one is open all the time and one half of it: 75 %."""
    truth = {"received_ns": [0, 0, 3 * SECOND], "ended_ns": [3 * SECOND, 2 * SECOND, 4 * SECOND]}
    assert open_share(truth, 2, SECOND, 3 * SECOND) == 0.75
    assert open_share(truth, 2, SECOND, 2 * SECOND - 1) is None  # too short to say


def test_a_client_is_saturated_by_the_rule_of_a_cell() -> None:
    """One late second is a hiccup, two are a limit, and so is a core that is used up; the ramp is no part."""
    second = {"at_ns": 5, "loop_lag_ms": 1.0, "cpu_share": 0.2}
    late, busy = {**second, "loop_lag_ms": 101.0}, {**second, "cpu_share": 0.95}
    assert saturated([second] * 5, 0, 10) is False
    assert saturated([second] * 4 + [late], 0, 10) is False
    assert saturated([second] * 3 + [late] * 2, 0, 10) is True
    assert saturated([busy] * 5, 0, 10) is True
    assert saturated([{**late, "at_ns": 20}] * 5 + [second], 0, 10) is False


def test_cost_is_told_beside_aiohttps_in_the_same_scenario() -> None:
    """20 µs against 40 µs is 0.5; without aiohttp, or without any event, nothing is said."""
    names = ("client", "scenario", "cpu_us_per_event")
    rows = [("goodput", "a", 20.0), ("aiohttp", "a", 40.0), ("goodput", "b", 20.0), ("httpx", "a", None)]
    told = beside_aiohttp([dict(zip(names, row, strict=True)) for row in rows])
    assert [row["cpu_ratio_to_aiohttp"] for row in told] == [0.5, 1.0, None, None]


def test_several_rounds_are_told_by_the_median_of_each_figure() -> None:
    """The middle of three, also inside a figure of its own; saturated once is saturated, and null where none has it."""
    same = {"client": "goodput", "scenario": "a", "streams": 4, "open": None}
    rounds = [
        {**same, "cpu": cpu, "lag_ms": {"p50": lag, "p99": None}, "saturated": lag == 9.0, "clock": "kernel"}
        for cpu, lag in ((30.0, 1.0), (20.0, 2.0), (40.0, 9.0))
    ]
    told = middle_of(rounds)
    middle = {"cpu": 30.0, "lag_ms": {"p50": 2.0, "p99": None}, "saturated": True, "clock": "kernel"}
    assert told == {**same, **middle, "rounds": 3}
    assert middle_of([rounds[0], {**rounds[1], "clock": "user"}])["clock"] == "user"


def test_arrivals_are_the_same_for_every_client() -> None:
    """About 500 in a second, in order, inside the time, and the same again."""
    due = arrivals_ns(500.0, 7, SECOND + 7)
    assert due == arrivals_ns(500.0, 7, SECOND + 7)
    assert due == sorted(due)
    assert 400 < len(due) < 600
    assert due[0] >= 7
    assert due[-1] < SECOND + 7


def test_percentiles_are_nearest_rank() -> None:
    """Of 1 to 200 the median is 100 and the 99th percentile 198."""
    assert percentiles([float(i) for i in range(200, 0, -1)]) == {"p50": 100.0, "p99": 198.0}


@pytest.mark.parametrize("text", ["64", "64x", "x50", "0x5", "64x0", "a lot", "0/s", "/s", "5/m"])
def test_a_wrong_scenario_is_one_plain_sentence(text: str) -> None:
    """The message names the flag and shows the right form."""
    with pytest.raises(ConfigError, match="write for example 256x50"):
        parse_scenario(text, 100)


def test_scenarios_are_streams_or_requests() -> None:
    """256 streams of 50 tokens/s are 12,800 events a second, 500 answers of 32 tokens are 16,000."""
    closed, opened = parse_scenario("256x50", 100), parse_scenario("500/s", 100)
    assert (closed.streams, closed.rate, closed.tokens, closed.events_per_s) == (256, 50.0, 100, 12_800.0)
    assert (opened.streams, opened.requests_per_s, opened.tokens, opened.events_per_s) == (0, 500.0, 32, 16_000.0)
    assert clients_for(parse_scenario("64x50", 100)) == ["goodput", "aiohttp", "httpx"]
    assert clients_for(opened) == clients_for(closed) == ["goodput", "aiohttp"]


def measured(scenario: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    line = f"--json --client goodput --scenario {scenario} --seconds 2.5 --tokens 50 --rounds 1"
    assert run(parser.parse_args(line.split())) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["hardware"]
    (result,) = report["results"]
    assert (result["client"], result["scenario"]) == ("goodput", scenario)
    for key in ("send_lag_ms", "ttft_error_ms", "token_lag_ms", "gap_error_ms"):
        assert 0 <= result[key]["p50"] <= result[key]["p99"]
    for key in ("cpu_us_per_event", "cpu_us_per_request", "events_per_read", "first_request_s", "rss_mb"):
        assert result[key] > 0
    assert result["clock"] in ("kernel", "user")
    assert len(table(report).splitlines()) == 3
    return dict(result)


def test_the_command_measures_our_client_against_a_real_server(capsys: pytest.CaptureFixture[str]) -> None:
    """One short run prints strict JSON with every promised key, and every stream was seen whole."""
    result = measured("4x100", capsys)
    assert result["streams"] == 4
    assert result["events"] >= 4 * 50
    assert result["events"] == 50 * result["requests"]
    assert 0 < result["streams_open_share"] <= 1
    assert result["saturated"] in (False, True)


def test_the_command_measures_requests_by_their_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    """Every request of the schedule was sent and answered, whatever the machine was doing."""
    result = measured("40/s", capsys)
    assert result["requests"] == len(arrivals_ns(40.0, 0, 2_500_000_000))
    assert result["events"] == 32 * result["requests"]
    assert result["streams_open_share"] is None
